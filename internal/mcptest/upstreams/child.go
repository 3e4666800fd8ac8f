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

// childArgument is the first argument of this binary if it is a process that a server has
// started. The next arguments are the kind of the process and the server's mark.
const childArgument = "belljar-test-upstream-child"

// lifetime is the time after which a process that lingers ends, also if its test does not end
// it. A server that reads ends at the end of its input, so with its client at the latest.
const lifetime = 10 * time.Minute

// life returns a context that ends after lifetime.
func life() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), lifetime) //nolint:forbidigo // it is the life of a process
}

// startChild starts a process of a kind. It returns when the process has started; a daemon
// has then also started its own child, and ended.
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
	// ctx ends with this process, but the other process outlives it.
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
		return cmd.Wait() // the daemon's child still runs
	}
	return nil // the server does not wait for other kinds: its client must end them
}

// child runs a process that startChild has started, and returns its exit status.
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

// respawn starts a sleeping process, and starts another one whenever it has ended. It
// closes begun when the first one has started.
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
		_ = cmd.Wait() // however the process ends, respawn starts another one
	}
	return nil
}
