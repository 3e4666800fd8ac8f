package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/fleet/claims"
)

// A request that arrives when a link has ended, but the roster does not know this yet,
// waits for the next link of the worker like any other request.
func TestLinkThatHasJustEnded(t *testing.T) {
	r := newRig(t, func(c *FrontConfig) { c.Return = 30 * time.Second })
	files := r.cert("w1", WorkerDNS("w1"))
	m := r.worker("w1", files, echo("first"), "p")
	r.says("p", 200, "first p")
	l := r.front.roster.named("w1")
	m.stop()
	r.until("end of the link", func() bool { return r.front.roster.named("w1") == nil })
	if !r.front.roster.record(l, state{Places: &few[string]{"p"}}) {
		t.Fatal("the roster does not take the link once more")
	}
	answer := make(chan string, 1)
	go func() {
		status, text, err := r.ask("p", `{"id":1}`)
		answer <- fmt.Sprint(status, text, err)
	}()
	r.until("request that waits", func() bool { return r.front.waiting.taken() == 1 || len(answer) > 0 })
	r.unlinked("w1", files, echo("second"), "p")
	if got := <-answer; !strings.HasPrefix(got, "200second p") {
		t.Errorf("got %q", got)
	}
}

// The number of streams of a connection is limited: the worker connects again before the
// limit is reached.
func TestLinkIsUsedUp(t *testing.T) {
	r := newRig(t, func(c *FrontConfig) { c.Return = 30 * time.Second })
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"), "p")
	l := r.front.roster.named("w1")
	l.sent.Store(maxSent - 1)
	r.says("p", 200, "w1 p")
	if r.front.roster.named("w1") != l {
		t.Error("the link has ended before its last request")
	}
	r.says("p", 200, "w1 p")
	if next := r.front.roster.named("w1"); next == nil || next == l {
		t.Error("the worker has not connected again")
	}
}

// A request waits for a draining worker as long as the worker drains, and then as long as
// for any worker that is not linked. It never waits longer than drainWait.
func TestWaitsForDrain(t *testing.T) {
	for name, tt := range map[string]struct{ drains, away, want time.Duration }{
		"it comes back":            {21 * time.Second, returnWait - time.Second, 21*time.Second + returnWait - time.Second},
		"it does not come back":    {21 * time.Second, time.Hour, 21*time.Second + returnWait},
		"it drains for too long":   {time.Hour, time.Second, drainWait},
		"it is away, and no drain": {0, time.Hour, returnWait},
	} {
		t.Run(name, func(t *testing.T) {
			journal, err := claims.OpenJournal(filepath.Join(t.TempDir(), "claims"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { journal.Close() })
			synctest.Test(t, func(t *testing.T) {
				log := slog.New(slog.DiscardHandler)
				f := &Front{cfg: FrontConfig{Claims: journal, Return: returnWait, Log: log}, roster: newRoster(nil, nil, log), waiting: newShares(maxWaiting, tenantPart)}
				places := &few[string]{"p"}
				linked := func(s state) *link {
					l := &link{hello: hello{Name: "w1"}, conn: newConn(nil), places: make(map[string]bool)}
					f.roster.record(l, s)
					return l
				}
				var next *link
				l := linked(state{Places: places, Drains: true})
				if _, err := journal.Swap(t.Context(), "p", claims.Claim{}, claims.Claim{Worker: "w1"}); err != nil {
					t.Fatal(err)
				}
				// A front looks again after a change, and each state of a worker is a
				// change.
				tick := time.AfterFunc(tt.drains, func() { f.roster.drop(l) })
				back := time.AfterFunc(tt.drains+tt.away, func() { next = linked(state{Places: places}) })
				defer tick.Stop()
				defer back.Stop()
				began := time.Now()
				got, err := f.resolve(t.Context(), Request{Place: "p"}, began)
				var away *unavailable
				if next == nil && (!errors.As(err, &away) || got != nil) || next != nil && (got != next || err != nil) {
					t.Errorf("got %v, %v", got, err)
				}
				if took := time.Since(began); took.Round(time.Millisecond) != tt.want {
					t.Errorf("after %v, want %v", took, tt.want)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if _, err := f.resolve(ctx, Request{Place: "q"}, time.Now()); err == nil {
					t.Error("a client that has gone gets a worker")
				}
			})
		})
	}
}
