package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/fleet/claims"
	"belljar.dev/internal/testenv"
)

// A place that a worker has belongs to this worker, even if the front has never had a
// request for the place and would choose another worker for it. While the place's worker is
// not linked, the place is not made again.
func TestPlaceThatNobodyHasClaimed(t *testing.T) {
	names := []string{"w1", "w2"}
	r := newRig(t, func(c *FrontConfig) {
		c.Workers, c.Return, c.times = names, 100*time.Millisecond, usualMoves
		c.times.unclaimed = time.Millisecond
		c.Names = func() []string { return []string{"old"} }
	})
	has, other := "w1", rendezvous(names, "old")
	if has == other {
		has = "w2"
	}
	files := r.cert(has, WorkerDNS(has))
	m := r.worker(has, files, echo(has), "old")
	r.until("a claim", func() bool { return r.front.cfg.Claims.Owner("old").Worker == has })
	m.stop()
	r.until("the end of its link", func() bool { return r.front.roster.named(has) == nil })
	r.worker(other, r.cert(other, WorkerDNS(other)), echo(other))
	r.says("old", 503, "the worker of this place is not linked")
	r.worker(has, files, echo(has), "old")
	r.says("old", 200, has+" old")
}

// limping is a Journal that fails for the first swaps, and always for one place.
type limping struct {
	*claims.Journal
	fail  int
	wrong string
	asked []string // places of all swaps
}

func (l *limping) Swap(ctx context.Context, place string, old, next claims.Claim) (claims.Claim, error) {
	l.asked = append(l.asked, place)
	if l.fail--; l.fail >= 0 || place == l.wrong {
		return claims.Claim{}, errors.New("no space left")
	}
	return l.Journal.Swap(ctx, place, old, next)
}

// unclaimedFront returns a front without links whose policy names places.
func unclaimedFront(t *testing.T, names ...string) (*Front, *limping) {
	t.Helper()
	journal, err := claims.OpenJournal(filepath.Join(testenv.MemoryDir(t), "claims"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { journal.Close() })
	l := &limping{Journal: journal}
	logger := slog.New(slog.DiscardHandler)
	f := &Front{
		cfg:    FrontConfig{Claims: l, Settled: true, Names: func() []string { return append([]string(nil), names...) }, Log: logger},
		roster: newRoster(nil, nil, logger),
	}
	f.moves = newMoves(f)
	return f, l
}

// has records that a worker has places.
func has(f *Front, worker string, moves []Marked, places ...string) {
	f.roster.record(&link{hello: hello{Name: worker}, places: make(map[string]bool)}, state{Places: (*few[string])(&places), Moves: (*few[Marked])(&moves)})
}

// A place is claimed without a request only if the policy names it, exactly one worker has
// it, and no move has left anything of it.
func TestClaimUnclaimedOnlyOfPolicy(t *testing.T) {
	f, _ := unclaimedFront(t, "a", "both", "moved", "nobody")
	has(f, "w1", []Marked{{Place: "moved", Mark: claims.Mark{Move: 1, To: "w2"}}}, "a", "both", "moved", "stranger")
	has(f, "w2", nil, "both", "a/stranger")
	unclaimed{front: f}.round(t.Context())
	if all := f.cfg.Claims.All(); len(all) != 1 || all["a"] != (claims.Claim{Worker: "w1"}) {
		t.Errorf("got %v, want a claim of w1 for a alone", all)
	}
}

// One round claims a bounded number of places for each worker. The next round continues.
func TestClaimUnclaimedBounded(t *testing.T) {
	var names []string
	for i := range maxUnclaimed + 1 {
		names = append(names, fmt.Sprintf("t/p%d", i))
	}
	f, l := unclaimedFront(t, append([]string{"other"}, names...)...)
	has(f, "w1", nil, names...)
	has(f, "w2", nil, "other")
	for _, want := range []int{maxUnclaimed + 1, maxUnclaimed + 2} {
		unclaimed{front: f}.round(t.Context())
		if len(l.asked) != want {
			t.Errorf("%d claims, want %d", len(l.asked), want)
		}
	}
	if w := f.cfg.Claims.Owner("other").Worker; w != "w2" {
		t.Errorf("the place of the other worker is claimed for %q", w)
	}
}

// One place that cannot be claimed does not stop a round, but several do.
func TestClaimUnclaimedFaults(t *testing.T) {
	f, l := unclaimedFront(t, "a", "b", "c", "d", "e")
	has(f, "w1", nil, "a", "b", "c", "d", "e")
	l.fail = 100
	if (unclaimed{front: f}).round(t.Context()); len(l.asked) != maxUnwritten {
		t.Errorf("%d places were tried, want %d", len(l.asked), maxUnwritten)
	}
	l.fail, l.wrong = 0, "c"
	if (unclaimed{front: f}).round(t.Context()); len(f.cfg.Claims.All()) != 4 {
		t.Errorf("got %v, want all places but c", f.cfg.Claims.All())
	}
}

// A front gives workers time to connect, even if its claims seem complete. It tries failed
// claims again, without a new report of a worker.
func TestClaimUnclaimedTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := unclaimedFront(t, "a")
		l.fail = 1
		has(f, "w1", nil, "a")
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			unclaimed{f, f.moves.times.unclaimed}.claim(ctx)
			close(over)
		}()
		for i, want := range []int{0, 1, 2, 2} {
			synctest.Wait()
			if len(l.asked) != want {
				t.Errorf("after %d times %v: %d attempts, want %d", i, settleWait, len(l.asked), want)
			}
			time.Sleep(settleWait)
		}
		if f.cfg.Claims.Owner("a").Worker != "w1" {
			t.Error("the place is not claimed")
		}
		cancel()
		<-over
	})
}

// A front refuses the name of a place from a worker if no place can have that name.
func TestNamesOfPlaces(t *testing.T) {
	for name, want := range map[string]bool{
		"t": true, "t/p": true, "0a.b_c-d/1.x": true,
		"": false, "/": false, "t/": false, "/p": false, "t/p/q": false, "a b": false, "*": false, ">": false, "t/*": false, "T": false, ".t": false, "t/..": false, "t\n": false, "é": false,
	} {
		s := state{Places: &few[string]{name}}
		if s.fits() != want {
			t.Errorf("place %q: %v", name, !want)
		}
		if s = (state{Moves: &few[Marked]{{Place: name}}}); s.fits() != want {
			t.Errorf("move of %q: %v", name, !want)
		}
	}
}
