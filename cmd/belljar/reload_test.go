package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"belljar.dev/internal/testenv"
)

// TestServerEndsWithItsTerminal checks that a server that was started on a terminal ends
// when the terminal closes. It then gets SIGHUP, which otherwise makes it read the policy
// again.
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
