package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// Calls that arrive while a box is being parked run once each, like others.
func TestParkRaces(t *testing.T) {
	shares(t)
	testenv.Need(t, testenv.Bash)
	s, _ := world(t)
	s.SetRest(time.Millisecond)
	b, err := s.Open(t.Context(), "box", policytest.GrantWith(t, "jobs: 8"))
	if err != nil {
		t.Fatal(err)
	}
	const callers, calls = 4, 40
	var parked atomic.Int64
	stop := make(chan struct{})
	var wait, parking sync.WaitGroup
	parking.Go(func() {
		for !isClosed(stop) {
			if !b.Parked() {
				b.Park(time.Millisecond)
			}
		}
	})
	for caller := range callers {
		wait.Go(func() {
			for i := range calls {
				c := sandbox.Cmd{Grant: b.Grant(), Shell: fmt.Sprintf("echo %d-%d >>/tmp/all", caller, i), Timeout: time.Minute}
				switch i % 4 {
				case 1:
					c.Argv, c.Shell = []string{"/bin/sh", "-c", c.Shell}, ""
				case 2:
					c.Background = true
				case 3: // other callers may go first
					if i%8 == 3 && testenv.Until(time.Minute, func() bool { return b.Parked() || t.Context().Err() != nil }) {
						parked.Add(1) // by the test, or because the box was idle
					}
				}
				r, err := b.Run(t.Context(), c)
				if err != nil || r.Code != 0 {
					t.Errorf("call %d-%d: %+v, %v", caller, i, r, err)
				}
			}
		})
	}
	wait.Wait()
	close(stop)
	parking.Wait()
	_, text := shell(t, b, "sort /tmp/all | uniq -c | awk '$1 != 1'; wc -l </tmp/all")
	if want := fmt.Sprintf("%d\n", callers*calls); text != want {
		t.Errorf("got %q, want %q", text, want)
	}
	if parked.Load() == 0 {
		t.Error("the box was never parked")
	}
}

// A box can be closed whatever else is done to it, and then leaves nothing behind.
func TestParkCloseRaces(t *testing.T) {
	shares(t)
	s, _ := world(t)
	s.SetRest(time.Millisecond)
	before := 0
	for i := range 30 {
		if i < 2 { // the first box makes what is made once for all boxes
			before = openFiles(t)
		}
		b, err := s.Open(t.Context(), "box", grant(t))
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			park(t, b)
		}
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() {
				_, err := b.Run(context.WithoutCancel(t.Context()), sandbox.Cmd{Grant: b.Grant(), Argv: []string{"true"}, Timeout: time.Minute})
				if err != nil && !errors.Is(err, sandbox.ErrClosed) {
					t.Errorf("a call while the box is closed: %v", err)
				}
			})
		}
		wait.Go(func() { b.Park(time.Millisecond) })
		for range 2 {
			wait.Go(func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		<-b.Broken()
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors are open, before it were %d", after, before)
	}
}

// If an init does not say whether parking would lose something, its box is not parked. A
// late answer is ignored.
func TestParkSilentInit(t *testing.T) {
	shares(t)
	s, _ := world(t)
	s.SetPatience(testenv.Patience(t) * time.Second)
	b, err := s.Open(t.Context(), "box", grant(t))
	if err != nil {
		t.Fatal(err)
	}
	shell(t, b, "echo x >/tmp/x")
	b.WaitWarm() // otherwise the init would be asked for a shell, and killed because it is silent
	signalInit(t, b, syscall.SIGSTOP)
	for range 2 { // the init answers both requests when it continues
		unparked(t, b)
	}
	signalInit(t, b, syscall.SIGCONT)
	if _, text := shell(t, b, "cat /tmp/x"); !strings.Contains(text, "x") {
		t.Errorf("the box shows %q", text)
	}
	park(t, b)
}

func signalInit(t *testing.T, b *sandbox.Box, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(b.InitPid(), sig); err != nil {
		t.Fatal(err)
	}
}
