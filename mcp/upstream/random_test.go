package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp/upstream"
	"belljar.dev/policies"
)

// follows contains the states that may follow each state.
var follows = map[upstream.State][]upstream.State{
	upstream.Off:      {upstream.Starting},
	upstream.Starting: {upstream.Starting, upstream.Ready, upstream.Waiting, upstream.Held, upstream.Failed, upstream.Off},
	upstream.Ready:    {upstream.Draining},
	upstream.Draining: {upstream.Draining, upstream.Waiting, upstream.Held, upstream.Failed, upstream.Off},
	upstream.Waiting:  {upstream.Starting, upstream.Draining, upstream.Off},
	upstream.Held:     {upstream.Starting},
	upstream.Failed:   {upstream.Starting},
}

// randomAct returns a random act: the server works, or fails in one of the possible ways.
func randomAct(r *rand.Rand) act {
	a := act{after: time.Duration(r.Int64N(int64(3 * time.Second))), closing: time.Duration(r.Int64N(int64(2 * time.Second))), exit: errors.New("exit status 1")}
	switch r.IntN(12) {
	case 0:
		a.start = errors.New("no such file")
	case 1:
		a.dial = errors.New("it speaks another language")
	case 2:
		a.hang = "start"
	case 3:
		a.hang = "dial"
	case 4:
		a.dead = true
	case 5:
		a.dies = time.Duration(r.Int64N(int64(2 * time.Minute)))
	case 6:
		a.drops = time.Duration(r.Int64N(int64(2 * time.Minute)))
	case 7:
		a.dies, a.exit = time.Second, nil
	case 8:
		a.dial = fmt.Errorf("changed: %w", upstream.ErrHeld)
	case 9:
		a.start = fmt.Errorf("404: %w", upstream.ErrLasting)
	}
	return a
}

// Whatever servers do and callers request: one program runs for one key, nobody gets
// a server that runs for somebody else, states follow each other as allowed, starts keep to their
// budget, and nothing is left in the end.
func TestRandomLives(t *testing.T) {
	cases, r := testenv.Cases(t, 60)
	for range cases {
		seed := [2]uint64{r.Uint64(), r.Uint64()}
		asked := r.IntN(2) == 0 // people restart servers, which gives a new budget
		t.Run(fmt.Sprintf("%x-%x", seed[0], seed[1]), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomLife(t, rand.New(rand.NewPCG(seed[0], seed[1])), asked) })
		})
	}
}

func randomLife(t *testing.T, r *rand.Rand, asked bool) {
	var mu sync.Mutex // guards r and last
	last := make(map[upstream.Key]upstream.State)
	w := newWorld(func(int, upstream.Spec) act {
		mu.Lock()
		defer mu.Unlock()
		return randomAct(r)
	})
	cfg := upstream.Config[*conn]{Most: 7, Chance: func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Float64()
	}, Changed: func(s upstream.Status) {
		mu.Lock()
		defer mu.Unlock()
		before, seen := last[s.Key]
		if !seen {
			before = upstream.Off
		}
		// If an instance is replaced while it waits for its predecessor, only its state off
		// is reported.
		unseen := s.State == upstream.Off && slices.Contains([]upstream.State{upstream.Off, upstream.Held, upstream.Failed}, before)
		if !unseen && !slices.Contains(follows[before], s.State) {
			w.fault("%+v goes from %s to %s", s.Key, before, s.State)
		}
		last[s.Key] = s.State
	}}
	pool := open(t, w, cfg)
	callers := []upstream.Caller{ann, {Tenant: "t", Principal: "bob", Session: "s2"}, {Tenant: "u", Principal: "ann", Session: "s1"}}
	grants := map[string]policies.Grant{"t": grant(t, "t"), "u": grant(t, "u")}
	set := func(ids ...string) {
		var all []upstream.Server
		for n, id := range ids {
			all = append(all, server(t, fmt.Sprint(n), share(policies.Share(n%3)), func(s *upstream.Server) {
				s.ID, s.Remote, s.Installs = id, n == 3, n == 2
				// Being idle after work also gives a server a new budget.
				s.Settings.Keep, s.Settings.Timeouts.Idle = !asked, time.Duration(1+n)*time.Minute
			}))
		}
		pool.Set(all)
	}
	set("0", "1", "2", "3")
	var wg sync.WaitGroup
	for range 300 {
		mu.Lock()
		who, name := callers[r.IntN(len(callers))], fmt.Sprint(r.IntN(4))
		long, pause, what, id := time.Duration(r.Int64N(int64(time.Minute))), time.Duration(r.Int64N(int64(5*time.Second))), r.IntN(40), fmt.Sprint(r.IntN(3))
		mu.Unlock()
		switch {
		case what == 0 && asked:
			pool.Restart(t.Context(), name)
		case what == 1 && asked:
			set("0", id, "2", "3")
		case what == 2 && asked:
			set("0", "1")
		case what == 3 && asked:
			pool.End(who.Tenant, who.Session)
		case what == 4:
			wg.Go(func() { pool.Gather(t.Context(), who) })
		case what == 5:
			pool.Status()
		default:
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), long+time.Second)
				defer cancel()
				err := pool.Do(ctx, grants[who.Tenant], who, name, func(ctx context.Context, c *conn) error {
					key := c.spec.Key
					if key.Tenant != who.Tenant || key.Server != name || key.Principal != "" && key.Principal != who.Principal || key.Session != "" && key.Session != who.Session {
						w.fault("%+v uses the server of %+v", who, key)
					}
					return c.call(ctx, long)
				})
				var u *upstream.Unavailable
				if err != nil && !errors.As(err, &u) && !errors.Is(err, upstream.ErrClosed) && !errors.Is(err, upstream.ErrUnknown) && !strings.Contains(err.Error(), "servers are already running for tenant") && !errors.Is(err, context.DeadlineExceeded) {
					w.fault("a call failed with %v", err)
				}
				if errors.As(err, &u) && ctx.Err() == nil && (u.State == upstream.Ready || u.State == upstream.Draining) {
					w.fault("a call failed since the server is %s", u.State)
				}
			})
		}
		time.Sleep(pause)
	}
	pool.Close()
	wg.Wait()
	w.check(t)
	if asked {
		return
	}
	for key, times := range w.spawned {
		for n := range times {
			in := 0
			for _, other := range times[n:] {
				if other.Sub(times[n]) < 10*time.Minute {
					in++
				}
			}
			if in > 8 {
				t.Errorf("%+v was started %d times in ten minutes", key, in)
			}
		}
	}
}
