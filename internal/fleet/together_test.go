package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/fleet/bus/bustest"
	"belljar.dev/internal/fleet/claims"
	"belljar.dev/internal/fleet/pki"
	"belljar.dev/internal/testenv"
)

// together returns two fronts whose claims are in NATS. Each front has a rig of its own,
// with the same authority.
func together(t *testing.T, c *bustest.Cluster, state string) [2]*rig {
	t.Helper()
	var both [2]*rig
	for i := range both {
		journal, err := claims.OpenJournal(filepath.Join(state, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		log := new(testenv.Log)
		logger := slog.New(slog.NewTextHandler(log, nil))
		shared := claims.OpenShared(context.Background(), c.Connect(logger).Bucket("belljar-claims", 4<<10), journal, logger)
		t.Cleanup(func() {
			shared.Close()
			journal.Close()
		})
		both[i] = &rig{t: t, log: log, dir: filepath.Join(state, "pki"), other: both[0]}
		if i == 0 {
			if err := pki.Init(both[i].dir, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		both[i].serve(FrontConfig{Claims: shared, SharedClaims: true, Settled: true, Return: 30 * time.Second})
	}
	return both
}

// Two fronts get requests for the same new places at the same time: each place is made by
// one worker. While NATS is not available, both fronts serve the existing places and refuse
// new ones, and a front that starts then still has the claims that it had. When NATS comes
// back empty, new places are made again. NATS is unavailable for a minute if the
// environment asks for more cases.
func TestTwoFronts(t *testing.T) {
	c := bustest.Start(t, 1)
	state := t.TempDir()
	both := together(t, c, state)
	for i := range 3 {
		name := fmt.Sprintf("w%d", i)
		m := both[1].worker(name, both[1].cert(name, WorkerDNS(name)), echo(name))
		both[0].until("a link of "+name, func() bool { l := both[0].front.roster.named(name); return l != nil && l.Process == m.process })
	}
	const places = 40
	var mu sync.Mutex
	said := make(map[string]string)
	var all sync.WaitGroup
	for k := range 8 {
		for _, r := range both {
			all.Go(func() {
				for i := k; i < places; i += 8 {
					place := fmt.Sprintf("p%d", i)
					status, text, err := r.ask(place, `{"id":1}`)
					mu.Lock()
					if err != nil || status != 200 || said[place] != "" && said[place] != text {
						t.Errorf("%s: %d %s, %v, want %s", place, status, text, err, said[place])
					}
					said[place] = text
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	for _, r := range both {
		if i := r.front.Info(); len(i.Frozen) > 0 || len(i.Places) != places || i.Refused != "" {
			t.Errorf("%d places, frozen %v, refused %q", len(i.Places), i.Frozen, i.Refused)
		}
	}
	c.Stop(0)
	for _, r := range both {
		r.until("the loss of NATS", func() bool { return r.front.Info().Refused != "" })
		r.front.cfg.Return = 100 * time.Millisecond
		for place, text := range said {
			r.says(place, 200, text)
		}
		if status, text, err := r.ask("new", `{"id":1}`); err != nil || status != 503 || !strings.Contains(text, "cannot agree now which worker gets a new place") {
			t.Errorf("a new place: %d %s, %v", status, text, err)
		}
		r.front.cfg.Return = 30 * time.Second
	}
	least, _ := testenv.Cases(t, 1)
	asked, failed := 0, 0
	for began := time.Now(); time.Since(began) < min(time.Duration(least-1)*time.Second, time.Minute); asked++ {
		place := fmt.Sprintf("p%d", asked%places)
		if status, text, err := both[asked%2].ask(place, `{"id":1}`); err != nil || status != 200 || text != said[place] {
			failed++
			t.Errorf("%s without NATS: %d %s, %v", place, status, text, err)
		}
	}
	c.StartEmpty(0)
	empty := time.Now()
	look, err := claims.OpenJournal(filepath.Join(state, "look"))
	if err != nil {
		t.Fatal(err)
	}
	defer look.Close()
	logger := slog.New(slog.DiscardHandler)
	fresh := claims.OpenShared(context.Background(), c.Connect(logger).Bucket("belljar-claims", 4<<10), look, logger)
	defer fresh.Close()
	both[0].until("claims that were written down again", func() bool { return len(fresh.All()) >= places })
	t.Logf("S9: %d requests without NATS, %d failed; %d claims are there again %v after it came back empty", asked, failed, places, time.Since(empty))
	for _, r := range both {
		r.says("new", 200, "new")
		for place, text := range said {
			r.says(place, 200, text)
		}
		if i := r.front.Info(); len(i.Frozen) > 0 {
			t.Errorf("frozen: %v", i.Frozen)
		}
	}
}
