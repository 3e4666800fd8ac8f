package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/testenv"
)

// TestAnnouncements: what waits is said once, with the command that answers, in
// printable text, and no agent can fill what nobody reads.
func TestAnnouncements(t *testing.T) {
	var out bytes.Buffer
	to := &approver{state: "/st ate"}
	n := announcing{on: true}.open(to, &out)
	a := approval.Approval{ID: "ap-1", Tool: "Bash\x1b[2J", Rule: "pu\nsh"}
	for _, kind := range []string{"asked", "given", "used", "expired"} {
		to.happened(approval.Event{Kind: kind, Approval: a})
	}
	to.asked(question.Asked{ID: "q-1"})
	n.close()
	to.happened(approval.Event{Kind: "asked", Approval: a}) // which comes too late
	want := "belljar: a call of Bash^[[2J waits for a person (rule pu sh). " +
		"`belljar approve show ap-1 --state '/st ate'` shows it, and `belljar approve yes ap-1 --state '/st ate'` or the same with no answers.\n" +
		"belljar: an agent asks a person something. `belljar ask answer q-1 --state '/st ate'` shows it and takes the answer.\n"
	if got := out.String(); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}

	// More than the burst is counted, and one more may be said after a while.
	stuck := &announcer{lines: make(chan string, 1000), over: make(chan struct{}), left: announceBurst}
	now := time.Now()
	stuck.filled = now
	for i := range 500 {
		stuck.say(now, fmt.Sprint(i))
	}
	if len(stuck.lines) != announceBurst {
		t.Errorf("%d lines at once, want %d", len(stuck.lines), announceBurst)
	}
	stuck.say(now.Add(announceEvery), "later")
	last := ""
	for range announceBurst + 1 {
		last = <-stuck.lines
	}
	if !strings.HasPrefix(last, "belljar: later 490 more were not announced: ") {
		t.Errorf("got %q, want what was not said", last)
	}
	// Nobody reads: say does not wait for them.
	full := &announcer{lines: make(chan string), over: make(chan struct{}), left: announceBurst, filled: now}
	full.say(now, "x")
	if full.unsaid != 1 {
		t.Errorf("got %d unsaid, want 1", full.unsaid)
	}
}

// TestServeSaysThatSomebodyWaits: whoever runs a server reads on its standard error that
// a person is asked, and by which command they answer, over each transport; with
// --announce=false nothing of it.
func TestServeSaysThatSomebodyWaits(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
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
