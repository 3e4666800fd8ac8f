package main

import (
	"bufio"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
)

// SIGHUP reads the policy again, and is also what comes when a terminal goes
// away: a server that was started on one must not stay behind without it.
func TestServerEndsWithItsTerminal(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	master, slave := pty(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Args = []string{"belljar", "serve", "--http", "127.0.0.1:0", "--workspace", t.TempDir(), "--state", t.TempDir()}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err := cmd.Start()
	slave.Close()
	if err != nil {
		t.Fatal(err)
	}
	text := bufio.NewScanner(master)
	wait := func(want string) {
		t.Helper()
		for text.Scan() {
			if strings.Contains(text.Text(), want) {
				return
			}
		}
		t.Fatalf("the server never said %q: %v", want, text.Err())
	}
	wait("Put this into the configuration")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	wait("the policy was read again")
	master.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// A policy that would show the state directory to boxes changes nothing.
func TestReloadKeepsTheState(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		name := filepath.Join(dir, "policy.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	state := filepath.Join(dir, "up", "state")
	name := write("version: 1\nprofiles: {p: {fs: {read: [" + state + ":/state]}}}\n")
	var log strings.Builder
	r := &reloader{gate: &gate{}, file: name, workspace: t.TempDir(), state: state, log: slog.New(slog.NewTextHandler(&log, nil))}
	before := policies.Default()
	r.gate.now.Store(before)
	r.changed = func(*policies.Policy) {}
	r.reload(t.Context())
	if r.gate.now.Load() != before || !strings.Contains(log.String(), "which boxes of the profile p can see") {
		t.Errorf("got another policy: %t; log %q", r.gate.now.Load() != before, log.String())
	}
	write("version: 1\nprofiles: {p: {}}\n")
	r.reload(t.Context())
	if r.gate.now.Load() == before {
		t.Errorf("a policy that shows nothing of it does not hold: %q", log.String())
	}
}
