package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"belljar.dev/internal/testenv"
)

// TestRunOnATerminal checks a command of `belljar run` on a real terminal: the terminal's
// name, its size and a change of its size, keys that are signals, and programs that make
// terminals of their own.
func TestRunOnATerminal(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash, testenv.Python)
	master, slave := pty(t)
	ws := t.TempDir()
	p := &typist{t: t, term: master, cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.size(80, 24)
	p.cmd.Args = []string{"belljar", "run", "--workspace", ws, "--state", filepath.Join(t.TempDir(), "st"), "--", "bash", "--norc", "--noediting", "-i"}
	p.cmd.Env = append(os.Environ(), "TERM=xterm")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	t.Cleanup(func() { // after a failure; a process that ends in order was waited for
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	p.sees("$ ")
	for _, step := range [][2]string{
		{"tty", "/dev/pts/0\r"},
		{"python3 -c 'import os; print(os.ttyname(0) + \".\")'", "/dev/pts/0.\r"},
		{"echo by name >$(tty)", "by name\r"},
		{"stty size", "24 80\r"},
	} {
		p.types(step[0] + "\n")
		p.sees(step[1])
	}
	// These programs may drop input that comes too early, so the test waits until each has
	// ended.
	for program, command := range map[string]string{
		"python3": "python3 -c 'import pty; pty.spawn([\"tty\"])'",
		"script":  "script -qec tty /dev/null",
		"tmux":    "tmux -f /dev/null new 'tty >/workspace/tty'; cat /workspace/tty",
	} {
		if path, err := exec.LookPath(program); err != nil || path != "/usr/bin/"+program {
			continue // if the host does not have the program, a box does not have it either
		}
		p.types(command + "; echo over=$?\n")
		p.sees("/dev/pts/1\r")
		p.sees("over=0\r")
	}
	p.types()
	p.size(100, 40)
	p.types("until [ \"$(stty size)\" = '40 100' ]; do sleep 0.01; done; echo size=$?\n")
	p.sees("size=0\r")
	// it prints this itself: Ctrl-C goes to the program in the foreground
	p.types("sh -c 'echo sleeps=$?; exec sleep 1000'\n")
	p.sees("sleeps=0\r")
	p.types("\x03")
	p.sees("^C")
	p.sees("$ ") // the terminal drops what is typed before that (termios(3), NOFLSH)
	p.types("echo status $?\n")
	p.sees("status 130\r")
	p.ends("exit\n")
}
