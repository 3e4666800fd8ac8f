package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"belljar.dev/internal/testenv"
)

// TestServeSaysThatSomebodyWaits checks that a server reports on its standard error, over
// each transport, that a person is asked, and the command for the answer. With
// --announce=false it reports nothing of it.
func TestServeSaysThatSomebodyWaits(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Parallel()
	const publish = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"echo publish 1"}}}`
	for _, transport := range []string{"stdio", "HTTP"} {
		for _, announce := range []string{"true", "false"} {
			t.Run(transport+" "+announce, func(t *testing.T) {
				dir := t.TempDir()
				policy, state := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "st")
				put(t, policy, strings.Replace(askingPolicy, "TIMEOUT", "1h", 1))
				flags := []string{"--workspace", t.TempDir(), "--policy", policy, "--state", state, "--announce=" + announce}
				var answer, said string
				if transport == "HTTP" {
					w := serveWeb(t, nil, flags...)
					_, answer = w.post(w.session(""), publish)
					if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
						t.Fatal(err)
					}
					for line := range w.log {
						said += line + "\n"
					}
				} else {
					var errs bytes.Buffer
					s := serveTo(t, &errs, os.Args[0], append([]string{"belljar", "serve"}, flags...)...)
					for _, line := range []string{hello, publish} {
						s.send(t, line)
						answer = string(s.receive(t).Result)
					}
					s.in.Close()
					if err := s.cmd.Wait(); err != nil {
						t.Fatal(err)
					}
					said = errs.String()
				}
				id := regexp.MustCompile(`\bap-[a-z0-9]+`).FindString(answer)
				want := strings.NewReplacer("ID", id, "STATE", state).Replace("belljar: a call of Bash waits for a person (rule publish). " +
					"`belljar approve show ID --state STATE` shows it, and `belljar approve yes ID --state STATE` or the same with no answers.\n")
				if announced := strings.Contains(said, want); id == "" || announced != (announce == "true") || !announced && strings.Contains(said, id) {
					t.Errorf("the agent reads %s\nstandard error has %q\nwant in it %s: %q", answer, said, announce, want)
				}
			})
		}
	}
}
