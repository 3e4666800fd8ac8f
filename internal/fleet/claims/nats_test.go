package claims

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/fleet/bus"
	"belljar.dev/internal/fleet/bus/bustest"
	"belljar.dev/internal/testenv"
)

// joint is a fleet of several fronts with one bucket of NATS.
type joint struct {
	*bustest.Cluster

	t *testing.T

	bucket string
	buses  []*bus.Bus
	kept   []*journaled
	shared []*Shared
}

func newJoint(t *testing.T, c *bustest.Cluster, dir string, n int, buses []*bus.Bus, bucket string) *joint {
	j := &joint{Cluster: c, t: t, bucket: bucket, buses: buses, kept: make([]*journaled, n), shared: make([]*Shared, n)}
	for i := range n {
		j.kept[i] = openJournaled(t, filepath.Join(dir, fmt.Sprint(i)))
		j.open(i)
	}
	return j
}

func (j *joint) open(i int) {
	log := slog.New(slog.DiscardHandler)
	s := newShared(j.buses[i].Bucket(j.bucket, maxLine), j.kept[i].Journal, log)
	s.settle = 0
	j.shared[i] = s.begin(context.Background())
	j.followed(i)
}

func (j *joint) followed(i int) {
	j.t.Helper()
	if !testenv.Until(60*time.Second, func() bool { return j.shared[i].Ready() == nil }) {
		j.t.Fatalf("front %d does not follow: %v", i, j.shared[i].Ready())
	}
}

func (j *joint) close() {
	for i := range j.shared {
		j.shared[i].Close()
		j.kept[i].Close()
	}
}

func (j *joint) fronts() int        { return len(j.shared) }
func (j *joint) front(i int) Claims { return j.shared[i] }

func (j *joint) crash(i int, r *rand.Rand) {
	j.shared[i].Close()
	j.kept[i].crash(0, r)
	j.open(i)
}

// trouble makes a front follow the bucket again, as after a lost connection.
func (j *joint) trouble(i int, r *rand.Rand) string {
	if r.IntN(4) > 0 {
		return ""
	}
	j.shared[i].Close()
	j.open(i)
	return fmt.Sprintf("front %d follows anew", i)
}

// TestClaimsOnNATS runs the histories of TestClaims with two fronts and a NATS server.
func TestClaimsOnNATS(t *testing.T) {
	n, r := testenv.Cases(t, 20)
	c := bustest.Start(t, 1)
	dir := testenv.MemoryDir(t)
	buses := []*bus.Bus{c.Connect(slog.New(slog.DiscardHandler)), c.Connect(slog.New(slog.DiscardHandler))}
	claimed := 0
	for i := range n {
		j := newJoint(t, c, dir, 2, buses, fmt.Sprintf("claims-%d", i))
		t.Cleanup(j.close) // a second call of close is allowed
		h := runHistory(t, j, r)
		if !testenv.Until(30*time.Second, func() bool { return maps.Equal(j.shared[0].All(), j.shared[1].All()) }) {
			h.fatal("the fronts do not agree: %v, %v", j.shared[0].All(), j.shared[1].All())
		}
		claimed += len(h.last)
		j.close()
	}
	if claimed == 0 {
		t.Error("nothing was claimed")
	}
}

// Two fronts claim the same places at the same time while the leader of three servers dies.
// Each place is claimed once. The places that were claimed before stay known meanwhile.
func TestClaimsWithoutLeader(t *testing.T) {
	n, _ := testenv.Cases(t, 300)
	c := bustest.Start(t, 3)
	buses := []*bus.Bus{c.Connect(slog.New(slog.DiscardHandler)), c.Connect(slog.New(slog.DiscardHandler))}
	j := newJoint(t, c, testenv.MemoryDir(t), 2, buses, "claims")
	t.Cleanup(j.close)
	const callers = 8
	var mu sync.Mutex
	got := make(map[string][]string)
	longest := time.Duration(0)
	var all sync.WaitGroup
	var killed sync.Once
	for f := range 2 {
		for k := range callers {
			all.Go(func() {
				for i := k; i < n; i += callers {
					place, mine := fmt.Sprintf("t/p%d", i), Claim{Worker: fmt.Sprintf("w%d", f)}
					if i >= n/3 {
						killed.Do(func() { c.KillLeader(j.bucket) })
					}
					began := time.Now()
					var now Claim
					if !testenv.Until(60*time.Second, func() bool {
						var err error
						now, err = j.shared[f].Swap(t.Context(), place, Claim{}, mine)
						return err == nil
					}) {
						t.Errorf("front %d cannot claim %s", f, place)
						return
					}
					mu.Lock()
					got[place] = append(got[place], now.Worker)
					longest = max(longest, time.Since(began))
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	t.Logf("%d places; the longest claim took %v", len(got), longest)
	for place, workers := range got {
		if len(workers) != 2 || workers[0] != workers[1] {
			t.Errorf("%s was claimed for %v", place, workers)
		}
	}
	if len(got) != n {
		t.Errorf("%d places, want %d", len(got), n)
	}
}

// While no server runs, the known claims are still returned, and nothing new can be
// claimed. When the server comes back empty, the fronts write the claims that they know,
// and no new place is claimed until all fronts had time for this.
func TestClaimsComeBackEmpty(t *testing.T) {
	c := bustest.Start(t, 1)
	log := new(testenv.Log)
	buses := []*bus.Bus{c.Connect(slog.New(slog.NewTextHandler(log, nil))), c.Connect(slog.New(slog.DiscardHandler))}
	j := newJoint(t, c, testenv.MemoryDir(t), 2, buses, "claims")
	t.Cleanup(j.close)
	for i := range 50 {
		mine := Claim{Worker: fmt.Sprintf("w%d", i%2)}
		if now, err := j.shared[i%2].Swap(t.Context(), fmt.Sprintf("t/p%d", i), Claim{}, mine); err != nil || now != mine {
			t.Fatal(now, err)
		}
	}
	if !testenv.Until(30*time.Second, func() bool { return len(j.shared[0].All()) == 50 }) {
		t.Fatal("a front does not hear of the other's claims")
	}
	c.Stop(0)
	if !testenv.Until(30*time.Second, func() bool { return j.shared[0].Ready() != nil }) {
		t.Fatal("new places are claimed without NATS")
	}
	if _, err := j.shared[0].Swap(t.Context(), "t/new", Claim{}, Claim{Worker: "w0"}); err == nil {
		t.Error("a place was claimed without NATS")
	}
	if owner := j.shared[0].Owner("t/p1"); owner.Worker != "w1" {
		t.Errorf("without NATS, the owner of t/p1 is %v", owner)
	}
	j.shared[0].mu.Lock()
	j.shared[0].settle = time.Hour
	j.shared[0].mu.Unlock()
	c.StartEmpty(0)
	j.followed(1)
	// A front without any knowledge is notified of all claims.
	fresh := openJournaled(t, filepath.Join(testenv.MemoryDir(t), "fresh"))
	s := newShared(buses[1].Bucket("claims", maxLine), fresh.Journal, slog.New(slog.DiscardHandler))
	s.settle = 0
	s.begin(t.Context())
	defer fresh.Close()
	defer s.Close()
	if !testenv.Until(30*time.Second, func() bool { return len(s.All()) == 50 && s.Owner("t/p7").Worker == "w1" }) {
		t.Errorf("%d of 50 claims came back", len(s.All()))
	}
	if !testenv.Until(30*time.Second, func() bool { return strings.Contains(fmt.Sprint(j.shared[0].Ready()), "lost claims") }) {
		t.Errorf("new places are claimed at once after all claims were lost: %v", j.shared[0].Ready())
	}
}
