package upstreams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The first argument of this binary where it is a server, or a process that one started.
// Behind it are the server in JSON; or the kind of the process and the server's mark.
const (
	serverArgument = "belljar-test-upstream"
	childArgument  = "belljar-test-upstream-child"
)

// The kinds of processes that servers start, which are also the names of the acts.
const (
	childSleeper = "fork"
	childSession = "setsid"
	childDaemon  = "daemonise"
	childKeeper  = "respawn"
)

// lifetime is the end of every process that a test has forgotten.
const lifetime = 10 * time.Minute

// maxArgument is the longest argument that execve(2) takes, with its final zero.
const maxArgument = 128 << 10

// Command returns the arguments of a process that is the server: those of the test binary,
// whose TestMain calls Main.
func (s Server) Command(t testing.TB) []string {
	t.Helper()
	if err := s.check(true); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) >= maxArgument {
		t.Fatalf("the server has %d bytes as an argument, and %d are too many", len(text), maxArgument)
	}
	return []string{self, serverArgument, string(text)}
}

// NeedsProcess reports whether the server does what Start cannot do in the process of a
// test.
func (s Server) NeedsProcess() bool { return s.check(false) != nil }

// Main runs the server if this process was started as one, and then never returns. It
// stands at the beginning of a TestMain.
func Main() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == serverArgument:
		os.Exit(serveProcess(os.Args[2])) //nolint:forbidigo // it is the main of this process
	case len(os.Args) == 4 && os.Args[1] == childArgument:
		os.Exit(child(os.Args[2], os.Args[3])) //nolint:forbidigo // as above
	}
}

// life ends when lifetime is over.
func life() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), lifetime) //nolint:forbidigo // it is the life of a process
}

func serveProcess(text string) int {
	var s Server
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := life()
	defer cancel()
	return newConversation(s, os.Stdout, os.Stderr).run(ctx, os.Stdin)
}

// startChild starts a process of a kind, and returns when that has done what the kind
// says.
func startChild(ctx context.Context, kind, mark string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	begun, begins, err := os.Pipe()
	if err != nil {
		return err
	}
	defer begun.Close()
	cmd := exec.CommandContext(ctx, self, childArgument, kind, mark)
	cmd.ExtraFiles = []*os.File{begins}
	if kind == childSleeper || kind == childSession {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: kind != childSleeper}
	err = cmd.Start()
	begins.Close()
	if err != nil {
		return fmt.Errorf("start a process: %w", err)
	}
	if _, err := begun.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("start a process: %w", err)
	}
	if kind == childDaemon {
		return cmd.Wait() // its child goes on
	}
	return nil // nobody waits for the others: what connects to the server has to end them
}

// child is a process that startChild has started.
func child(kind, mark string) int {
	begun := os.NewFile(3, "begun")
	ctx, cancel := life()
	defer cancel()
	var err error
	switch kind {
	case childDaemon:
		err = startChild(ctx, childSession, mark)
	case childKeeper:
		signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
		err = respawn(ctx, mark, begun)
	default:
		begun.Close()
		<-ctx.Done()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// respawn starts a sleeping process again whenever that has ended. It closes begun when
// the first one is there.
func respawn(ctx context.Context, mark string, begun io.Closer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		cmd := exec.CommandContext(ctx, self, childArgument, "respawned", mark)
		if err := cmd.Start(); err != nil {
			return err
		}
		begun.Close()
		_ = cmd.Wait() // however it ends, there is another one
	}
	return nil
}
