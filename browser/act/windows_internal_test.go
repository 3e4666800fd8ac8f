package act

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// hearUntilClosed answers all commands until a command closes a target, and calls closing
// at that command. asked returns the methods and sessions of the commands.
func (w *wired) hearUntilClosed(closing func()) (asked func() []string) {
	var all []string
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for {
			c, ok := w.command()
			if !ok {
				return
			}
			all = append(all, strings.TrimSpace(c.Method+" "+c.SessionID))
			last := c.Method == "Target.closeTarget"
			if last {
				closing()
			}
			if _, err := fmt.Fprintf(w.answers, `{"id":%d,"result":{},"sessionId":%q}`+"\x00", c.ID, c.SessionID); err != nil || last {
				return
			}
		}
	}()
	return func() []string {
		<-heard
		return all
	}
}

// TestRefusedWindows checks that a window for which there is no room runs before it is
// closed, and that its requests are held before it runs. Its opener may wait in the same
// process until the window runs, so closing it first would hang the page that opened it
// (BR21). A window that cannot reach its opener is closed without that: it does not run
// while its requests are held, and a page could have hundreds of such windows wait.
func TestRefusedWindows(t *testing.T) {
	for reaches, want := range map[string][]string{
		"true":  {"Fetch.enable window", "Runtime.runIfWaitingForDebugger window", "Target.closeTarget"},
		"false": {"Target.closeTarget"},
	} {
		w := wire(t)
		asked := w.hearUntilClosed(func() {})
		ctx, stop := context.WithCancel(t.Context())
		e := &engine{g: w.governor, ctx: ctx, equips: make(chan struct{}, maxEquips), errands: make(chan func(), maxErrands)}
		e.wg.Go(func() { e.work(e.errands) })
		for n := range MaxTabs {
			e.tabs = append(e.tabs, &tab{name: fmt.Sprint("t", n), target: fmt.Sprint("target", n), changed: make(chan struct{}, 1)})
		}
		hearing([]byte(`{"sessionId":"window","targetInfo":{"targetId":"w","openerId":"target0","canAccessOpener":`+reaches+`}}`), e.window)
		got := asked()
		stop()
		e.wg.Wait()
		if !slices.Equal(got, want) {
			t.Errorf("reaches %s: Chrome was asked for\n%s\nwant\n%s", reaches, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestClosedTabRunsFirst: a window that a step closes before it was made ready is closed only when
// it runs, for the same reason.
func TestClosedTabRunsFirst(t *testing.T) {
	w := wire(t)
	e := &engine{g: w.governor}
	window := &tab{e: e, target: "w", changed: make(chan struct{}, 1)}
	ran, closed := false, make(chan struct{})
	asked := w.hearUntilClosed(func() {
		window.mu.Lock()
		defer window.mu.Unlock()
		ran = window.runs
		close(closed)
	})
	shut := make(chan error)
	go func() { shut <- hand{window}.shut(t.Context()) }()
	window.change(func() {})
	testenv.Until(10*time.Second*testenv.Patience(t), func() bool { // the step waits, or has closed it
		select {
		case <-closed:
			return true
		default:
			return len(window.changed) == 0
		}
	})
	window.change(func() { window.runs = true })
	asked()
	if err := <-shut; err != nil {
		t.Error(err)
	}
	if !ran {
		t.Error("the window was closed while it waited")
	}
}
