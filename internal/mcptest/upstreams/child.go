package upstreams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// childArgument is the first argument of this binary where it is a process that a server
// has started. Behind it are its kind and the server's mark.
const childArgument = "belljar-test-upstream-child"

// lifetime is the end of every process that a test has forgotten.
const lifetime = 10 * time.Minute

// life ends when lifetime is over.
func life() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), lifetime) //nolint:forbidigo // it is the life of a process
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
	// The end of ctx is that of this process, which the other one outlives.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, childArgument, kind, mark)
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
