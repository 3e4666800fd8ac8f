package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/golden"
	"belljar.dev/mcp/upstream"
	"belljar.dev/policies"
)

func nothing(context.Context, *conn) error { return nil }

// Many callers at the same time start a server once.
func TestOneStartForManyCallers(t *testing.T) {
	w := newWorld(always(act{after: 5 * time.Second}))
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "a")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if err := pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := w.starts(); n != 1 {
			t.Errorf("%d starts", n)
		}
	})
}

// A client calls a server every 60 ms for an hour, and the server always ends before its
// handshake. That causes eight starts.
func TestStormOfCallsIsEightStarts(t *testing.T) {
	w := newWorld(always(act{dead: true, exit: errors.New("exit status 1")}))
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "a")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		g := grant(t, "t")
		var last error
		calls := 0
		for begun := time.Now(); time.Since(begun) < time.Hour; calls++ {
			last = pool.Do(t.Context(), g, ann, "a", nothing)
			var u *upstream.Unavailable
			if !errors.As(last, &u) || u.Ran {
				t.Fatalf("got %v", last)
			}
			time.Sleep(60 * time.Millisecond)
		}
		if n := w.starts(); n != 8 || calls < 50_000 {
			t.Errorf("%d calls caused %d starts", calls, n)
		}
		if !strings.Contains(last.Error(), "failed after 8 starts") || !strings.Contains(last.Error(), "exit status 1") {
			t.Errorf("got %v", last)
		}
	})
}

// The pauses between starts double, up to a minute. A first failure is also followed by
// another start.
func TestPauses(t *testing.T) {
	for _, tt := range []struct {
		chance float64
		factor float64
	}{{0.5, 1}, {0, 0.8}, {1, 1.2}} {
		w := newWorld(always(act{start: errors.New("no such file")}))
		cfg := upstream.Config[*conn]{Chance: func() float64 { return tt.chance }}
		bubble(t, w, cfg, []upstream.Server{server(t, "a")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
			if err := pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing); err == nil {
				t.Error("a call of a server that does not start")
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			times := w.spawned[upstream.Key{Server: "a", Caller: upstream.Caller{Tenant: "t", Principal: "ann"}}]
			var got []time.Duration
			for n := range len(times) - 1 {
				got = append(got, times[n+1].Sub(times[n]))
			}
			var want []time.Duration
			for _, seconds := range []float64{1, 2, 4, 8, 16, 32, 60} {
				want = append(want, time.Duration(seconds*tt.factor*float64(time.Second)))
			}
			if !slices.Equal(got, want) {
				t.Errorf("with chance %v: pauses %v, want %v", tt.chance, got, want)
			}
		})
	}
}

// After a minute of being ready, a failure counts as the first one for the pause. All
// starts in ten minutes still count for the budget.
func TestPauseIsResetBySteadyWork(t *testing.T) {
	for _, tt := range []struct {
		lives  time.Duration
		starts int
		pause  time.Duration // pause before the fourth start
	}{
		{61 * time.Second, 8, time.Second}, {59 * time.Second, 20, 4 * time.Second}, {3 * time.Minute, 20, time.Second},
	} {
		w := newWorld(always(act{dies: tt.lives, exit: errors.New("exit status 0")}))
		keep := server(t, "a", func(s *upstream.Server) { s.Settings.Keep = true })
		bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{keep}, func(t *testing.T, pool *upstream.Pool[*conn]) {
			if err := pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			times := w.spawned[upstream.Key{Server: "a", Caller: upstream.Caller{Tenant: "t", Principal: "ann"}}]
			if pause := times[3].Sub(times[2]) - tt.lives; pause != tt.pause {
				t.Errorf("lives %v: a pause of %v, want %v", tt.lives, pause, tt.pause)
			}
			if n := len(times); n < tt.starts || tt.starts == 8 && n != 8 {
				t.Errorf("lives %v: %d starts, want %d", tt.lives, n, tt.starts)
			}
		})
	}
}

// The start of a server that never answers, or whose program never starts, ends with its
// timeout.
func TestStartIsBounded(t *testing.T) {
	for _, tt := range []struct {
		hang, want string
		installs   bool
		after      time.Duration
	}{
		{"dial", "the handshake took longer than 30s", false, 30 * time.Second},
		{"start", "the start took longer than 30s", false, 30 * time.Second},
		{"start", "the installation took longer than 2m0s", true, 2 * time.Minute},
	} {
		w := newWorld(always(act{hang: tt.hang}))
		s := server(t, "a", func(s *upstream.Server) { s.Installs = tt.installs })
		var told []upstream.Status
		cfg := upstream.Config[*conn]{Changed: func(s upstream.Status) { told = append(told, s) }}
		bubble(t, w, cfg, []upstream.Server{s}, func(t *testing.T, pool *upstream.Pool[*conn]) {
			begun := time.Now()
			done := make(chan error, 1)
			go func() { done <- pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing) }()
			synctest.Wait()
			if s := pool.Status()[0]; s.Step == "" || !strings.HasPrefix(tt.want, s.Step) {
				t.Errorf("the status is %+v, want that it is at %q", s, tt.want)
			}
			err := <-done
			if err == nil || !strings.Contains(err.Error(), tt.want) || time.Since(begun) != tt.after {
				t.Errorf("after %v: %v, want %q", time.Since(begun), err, tt.want)
			}
			if s := pool.Status()[0]; s.Step != "" {
				t.Errorf("after the start the status is %+v", s)
			}
			time.Sleep(30 * time.Minute)
			synctest.Wait()
			if n := w.starts(); n > 8 || n < 4 {
				t.Errorf("%d starts", n)
			}
			for _, s := range told {
				if s.Step != "" {
					t.Errorf("the owner of the pool is told of attempt %d with the step %q of the one before", s.Attempt, s.Step)
				}
			}
		})
	}
}

// If a package does not exist, the server is started three times.
func TestLastingFailureIsTriedThrice(t *testing.T) {
	w := newWorld(always(act{start: fmt.Errorf("npm 404: no such package: %w", upstream.ErrLasting)}))
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "a")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		for range 20 {
			_ = pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing)
			time.Sleep(time.Minute)
		}
		if n := w.starts(); n != 3 || !slices.Equal(states(pool), []string{"a failed"}) {
			t.Errorf("%d starts, %v", n, states(pool))
		}
		err := pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing)
		if err == nil || !strings.Contains(err.Error(), "npm 404") {
			t.Errorf("got %v", err)
		}
	})
}

// The status of a server has NeedsLogin while a missing login is the reason that the server
// does not run, and not after another failure or a successful start.
func TestStatusSaysWhetherALoginIsMissing(t *testing.T) {
	w := newWorld(func(n int, _ upstream.Spec) act {
		switch n {
		case 0, 2:
			return act{dial: upstream.ErrLogin}
		case 1:
			return act{dial: errors.New("no")}
		}
		return act{}
	})
	var told []string
	cfg := upstream.Config[*conn]{Changed: func(s upstream.Status) {
		if s.State == upstream.Waiting || s.State == upstream.Ready {
			told = append(told, fmt.Sprintf("%s %v", s.State, s.NeedsLogin))
		}
	}}
	bubble(t, w, cfg, []upstream.Server{server(t, "a")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		for range 4 {
			_ = pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing)
			time.Sleep(10 * time.Second)
		}
		if want := []string{"waiting true", "waiting false", "waiting true", "ready false"}; !slices.Equal(told, want) {
			t.Errorf("got %q, want %q", told, want)
		}
	})
}

// A server that is held is not started again until a person restarts it.
func TestHeldUntilAsked(t *testing.T) {
	held := fmt.Errorf("the description of read_file has changed: %w", upstream.ErrHeld)
	w := newWorld(func(n int, _ upstream.Spec) act {
		if n == 0 {
			return act{dial: held}
		}
		return act{}
	})
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "a")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		for range 10 {
			err := pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing)
			if err == nil || !strings.Contains(err.Error(), "read_file has changed") {
				t.Errorf("got %v", err)
			}
			time.Sleep(10 * time.Minute)
		}
		if n := w.starts(); n != 1 || w.running() != 0 {
			t.Errorf("%d starts, %d running", n, w.running())
		}
		if n := pool.Restart(t.Context(), "a"); n != 1 {
			t.Errorf("%d instances were restarted", n)
		}
		if err := pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing); err != nil || w.starts() != 2 {
			t.Errorf("%v, %d starts", err, w.starts())
		}
	})
}

// An instance that failed too often is started again when a person restarts it, with a new
// budget.
func TestFailedUntilAsked(t *testing.T) {
	w := newWorld(always(act{start: errors.New("no")}))
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "a")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		for round := 1; round <= 3; round++ {
			for range 100 {
				_ = pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing)
				time.Sleep(time.Minute)
			}
			if n := w.starts(); n != 8*round {
				t.Errorf("round %d: %d starts", round, n)
			}
			pool.Restart(t.Context(), "a")
		}
	})
}

// A person stops a server: running calls fail, and nothing starts until something needs the
// server. Its output can be read as long as it runs or has failed.
func TestStop(t *testing.T) {
	w := newWorld(always(act{}))
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "a"), server(t, "b")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		g := grant(t, "t")
		begun, over := make(chan struct{}), make(chan error, 1)
		go func() {
			over <- pool.Do(t.Context(), g, ann, "a", func(ctx context.Context, _ *conn) error {
				close(begun)
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		<-begun
		if err := pool.Do(t.Context(), g, ann, "b", nothing); err != nil {
			t.Fatal(err)
		}
		for most, want := range []int{0, 1, 2, 2} {
			if l := pool.Logs("a", most); len(l) != 1 || len(l[0].Lines) != want || l[0].Server != "a" || l[0].State != upstream.Ready {
				t.Errorf("%d lines: got %+v", most, l)
			}
		}
		if n := pool.Stop("a"); n != 1 {
			t.Errorf("%d instances were stopped", n)
		}
		if err := <-over; err == nil || !strings.Contains(err.Error(), "a person stopped the server") {
			t.Errorf("the call that ran got %v", err)
		}
		time.Sleep(time.Hour)
		if n := w.starts(); n != 2 || len(pool.Logs("a", 9)) != 0 || pool.Stop("a") != 0 {
			t.Errorf("%d starts, logs %+v", n, pool.Logs("a", 9))
		}
		if err := pool.Do(t.Context(), g, ann, "a", nothing); err != nil || w.starts() != 3 {
			t.Errorf("%v, %d starts", err, w.starts())
		}
	})
}

// A server that nobody uses is stopped, and started by the next call. It is not stopped
// while a call runs, or if the policy keeps it.
func TestIdle(t *testing.T) {
	w := newWorld(always(act{}))
	all := []upstream.Server{server(t, "a"), server(t, "kept", func(s *upstream.Server) { s.Settings.Keep = true })}
	bubble(t, w, upstream.Config[*conn]{}, all, func(t *testing.T, pool *upstream.Pool[*conn]) {
		g := grant(t, "t")
		for _, name := range []string{"kept", "a"} {
			if err := pool.Do(t.Context(), g, ann, name, nothing); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 { // each pause is shorter than the ten minutes of the idle timeout
			time.Sleep(9 * time.Minute)
			if err := pool.Do(t.Context(), g, ann, "a", nothing); err != nil || w.starts() != 2 {
				t.Fatalf("%v, %d starts", err, w.starts())
			}
		}
		err := pool.Do(t.Context(), g, ann, "a", func(ctx context.Context, c *conn) error { return c.call(ctx, time.Hour) })
		if err != nil {
			t.Errorf("a call of an hour: %v", err)
		}
		time.Sleep(10*time.Minute - time.Second)
		synctest.Wait()
		if w.running() != 2 {
			t.Errorf("%d servers run; it was stopped too early", w.running())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := states(pool); w.running() != 1 || !slices.Equal(got, []string{"a off", "kept ready"}) {
			t.Errorf("%d servers run: %v", w.running(), got)
		}
		if err := pool.Do(t.Context(), g, ann, "a", nothing); err != nil || w.starts() != 3 {
			t.Errorf("%v, %d starts", err, w.starts())
		}
	})
}

// A failing server does not get a new budget by being idle.
func TestIdleFailureKeepsItsRecord(t *testing.T) {
	w := newWorld(always(act{start: errors.New("no")}))
	s := server(t, "a", func(s *upstream.Server) { s.Settings.Timeouts.Idle = 500 * time.Millisecond })
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{s}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		for begun := time.Now(); time.Since(begun) < 9*time.Minute; {
			_ = pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing)
			time.Sleep(time.Second)
		}
		if n := w.starts(); n != 8 {
			t.Errorf("%d starts", n)
		}
	})
}

// Each mode of sharing shares a server between the callers that it names, and never between
// tenants.
func TestShare(t *testing.T) {
	var callers []upstream.Caller
	for _, tenant := range []string{"t", "u"} {
		for _, principal := range []string{"ann", "bob"} {
			for _, session := range []string{"s1", "s2"} {
				callers = append(callers, upstream.Caller{Tenant: tenant, Principal: principal, Session: session})
			}
		}
	}
	for how, same := range map[policies.Share]func(a, b upstream.Caller) bool{
		policies.ShareSession:   func(a, b upstream.Caller) bool { return a == b },
		policies.SharePrincipal: func(a, b upstream.Caller) bool { return a.Tenant == b.Tenant && a.Principal == b.Principal },
		policies.ShareTenant:    func(a, b upstream.Caller) bool { return a.Tenant == b.Tenant },
	} {
		w := newWorld(always(act{}))
		bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "a", share(how))}, func(t *testing.T, pool *upstream.Pool[*conn]) {
			var served []*conn
			for _, c := range callers {
				err := pool.Do(t.Context(), grant(t, c.Tenant), c, "a", func(_ context.Context, conn *conn) error {
					served = append(served, conn)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for i, a := range callers {
				for k, b := range callers {
					if got := served[i] == served[k]; got != same(a, b) {
						t.Errorf("%v: %+v and %+v share a server: %v", how, a, b, got)
					}
				}
			}
		})
	}
}

// A call whose grant is for another tenant, or allows less than the server may do, is
// refused, and starts nothing. It does not use a server that was started for another call
// either.
func TestDoLooksAtTheGrant(t *testing.T) {
	w := newWorld(always(act{}))
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "a"), server(t, "net")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		quiet := policy(t).With(policies.ReadOnly("plan")).Decide(policies.Facts{Tenant: "t", Tool: "mcp_x_y", Upstream: "x"}).Grant
		never := func(context.Context, *conn) error {
			t.Error("it was called")
			return nil
		}
		for name, err := range map[string]error{
			"another tenant": pool.Do(t.Context(), grant(t, "u"), ann, "a", never),
			"no grant":       pool.Do(t.Context(), policies.Grant{}, ann, "a", never),
			"a network":      pool.Do(t.Context(), quiet, ann, "net", never),
		} {
			if err == nil || !strings.Contains(err.Error(), "Nothing was called") {
				t.Errorf("%s: got %v", name, err)
			}
		}
		synctest.Wait()
		if n := w.starts(); n != 0 {
			t.Errorf("%d servers were started for calls that are refused", n)
		}
		if err := pool.Do(t.Context(), quiet, ann, "a", nothing); err != nil {
			t.Errorf("a server that can do no more than the session: %v", err)
		}
		if err := pool.Do(t.Context(), grant(t, "t"), ann, "net", nothing); err != nil {
			t.Error(err)
		}
		if err := pool.Do(t.Context(), quiet, ann, "net", never); err == nil {
			t.Error("a server that runs was used")
		}
	})
}

// Servers start at the same time: of twenty servers, one is ready within the wait, and one
// that is ready later is reported. The others hang.
func TestGather(t *testing.T) {
	w := newWorld(func(_ int, s upstream.Spec) act {
		switch s.Server.Name {
		case "s00":
			return act{after: time.Second}
		case "s01":
			return act{after: 10 * time.Second}
		}
		return act{hang: "dial"}
	})
	var all []upstream.Server
	for n := range 20 {
		all = append(all, server(t, fmt.Sprintf("s%02d", n)))
	}
	var mu sync.Mutex
	var told []string
	cfg := upstream.Config[*conn]{Changed: func(s upstream.Status) {
		if s.State == upstream.Ready {
			mu.Lock()
			told = append(told, s.Server)
			mu.Unlock()
		}
	}}
	bubble(t, w, cfg, all, func(t *testing.T, pool *upstream.Pool[*conn]) {
		begun := time.Now()
		got := pool.Gather(t.Context(), ann)
		if took := time.Since(begun); took != 2*time.Second || len(got) != 20 || got[0].State != upstream.Ready || got[1].State != upstream.Starting {
			t.Errorf("after %v: %+v", took, got)
		}
		if n := w.starts(); n != 20 {
			t.Errorf("%d starts", n)
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		mu.Lock()
		if !slices.Equal(told, []string{"s00", "s01"}) {
			t.Errorf("told of %q", told)
		}
		mu.Unlock()
		begun = time.Now()
		if got := pool.Gather(t.Context(), ann, "s00", "s01", "nosuch"); time.Since(begun) != 0 || got[0].State != upstream.Ready || got[1].State != upstream.Ready || got[2].State != upstream.Failed || got[2].Reason == "" {
			t.Errorf("after %v: %+v", time.Since(begun), got)
		}
	})
}

// Gather does not wait for servers that fail, and waits no longer than its context allows.
func TestGatherEnds(t *testing.T) {
	w := newWorld(func(_ int, s upstream.Spec) act {
		if s.Server.Name == "bad" {
			return act{start: errors.New("no")}
		}
		return act{hang: "start"}
	})
	bubble(t, w, upstream.Config[*conn]{Wait: time.Minute}, []upstream.Server{server(t, "bad"), server(t, "slow")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		begun := time.Now()
		if got := pool.Gather(t.Context(), ann, "bad"); got[0].State != upstream.Waiting || time.Since(begun) != 0 {
			t.Errorf("after %v: %+v", time.Since(begun), got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if got := pool.Gather(ctx, ann); got[1].State != upstream.Starting || time.Since(begun) != 3*time.Second {
			t.Errorf("after %v: %+v", time.Since(begun), got)
		}
	})
}

// Servers that the policy starts at the beginning of a session start with it.
func TestBegin(t *testing.T) {
	w := newWorld(always(act{}))
	eager := server(t, "eager", func(s *upstream.Server) { s.Settings.Eager = true })
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "lazy"), eager}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		pool.Begin(t.Context(), ann)
		synctest.Wait()
		if got := states(pool); !slices.Equal(got, []string{"eager ready", "lazy off"}) {
			t.Errorf("got %v", got)
		}
	})
}

// A new configuration ends the servers that are not in it, with the reason for their
// running calls, and leaves unchanged servers alone.
func TestSet(t *testing.T) {
	w := newWorld(always(act{closing: 300 * time.Millisecond}))
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "same"), server(t, "gone"), server(t, "new")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		g := grant(t, "t")
		errs := make(map[string]error)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, name := range []string{"same", "gone", "new"} {
			wg.Go(func() {
				err := pool.Do(t.Context(), g, ann, name, func(ctx context.Context, c *conn) error { return c.call(ctx, time.Minute) })
				mu.Lock()
				errs[name] = err
				mu.Unlock()
			})
		}
		synctest.Wait()
		begun := time.Now()
		pool.Set([]upstream.Server{server(t, "same"), server(t, "new", func(s *upstream.Server) { s.ID = "other" }), server(t, "more")})
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		for name, want := range map[string]string{"gone": "removed from the configuration", "new": "was changed"} {
			var u *upstream.Unavailable
			if err := errs[name]; !errors.As(err, &u) || !u.Ran || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", name, err, want)
			}
		}
		mu.Unlock()
		if w.running() != 1 {
			t.Errorf("%d servers run, %v", w.running(), time.Since(begun))
		}
		if err := pool.Do(t.Context(), g, ann, "new", nothing); err != nil || w.starts() != 4 {
			t.Errorf("the new one: %v, %d starts", err, w.starts())
		}
		if err := pool.Do(t.Context(), g, ann, "gone", nothing); !errors.Is(err, upstream.ErrUnknown) {
			t.Errorf("the one that is gone: %v", err)
		}
		wg.Wait()
		if errs["same"] != nil {
			t.Errorf("the same one: %v", errs["same"])
		}
	})
}

// An instance that is replaced or restarted is gone before its successor starts.
func TestSuccessorWaits(t *testing.T) {
	w := newWorld(always(act{closing: 5 * time.Second}))
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "a")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		g := grant(t, "t")
		for n := range 5 {
			if err := pool.Do(t.Context(), g, ann, "a", nothing); err != nil {
				t.Fatal(err)
			}
			if n%2 == 0 {
				pool.Restart(t.Context(), "a")
			} else {
				pool.Set([]upstream.Server{server(t, "a", func(s *upstream.Server) { s.ID = fmt.Sprint(n) })})
			}
		}
		if err := pool.Do(t.Context(), g, ann, "a", nothing); err != nil || w.starts() != 6 {
			t.Errorf("%v, %d starts", err, w.starts())
		}
	})
}

// The end of a session ends the instances that run for it alone.
func TestEnd(t *testing.T) {
	w := newWorld(always(act{}))
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "own", share(policies.ShareSession)), server(t, "shared")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		other := upstream.Caller{Tenant: "u", Principal: "ann", Session: "s1"}
		for _, c := range []upstream.Caller{ann, other} {
			for _, s := range pool.Gather(t.Context(), c) {
				if s.State != upstream.Ready {
					t.Errorf("got %+v", s)
				}
			}
		}
		pool.End("t", "s1")
		pool.End("t", "")
		synctest.Wait()
		var left []string
		for _, s := range pool.Status() {
			left = append(left, s.Server+" "+s.Tenant)
		}
		if want := []string{"own u", "shared t", "shared u"}; !slices.Equal(left, want) {
			t.Errorf("got %q, want %q", left, want)
		}
	})
}

// A tenant has a bounded number of instances, independent of other tenants. A failed
// instance makes room.
func TestRoom(t *testing.T) {
	w := newWorld(func(_ int, s upstream.Spec) act {
		if s.Key.Session == "bad" {
			return act{start: upstream.ErrLasting}
		}
		return act{}
	})
	bubble(t, w, upstream.Config[*conn]{Most: 3}, []upstream.Server{server(t, "a", share(policies.ShareSession))}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		do := func(tenant, session string) error {
			return pool.Do(t.Context(), grant(t, tenant), upstream.Caller{Tenant: tenant, Session: session}, "a", nothing)
		}
		_ = do("t", "bad")
		time.Sleep(time.Minute)
		for _, session := range []string{"1", "2", "3"} {
			if err := do("t", session); err != nil {
				t.Errorf("session %s: %v", session, err)
			}
		}
		if err := do("t", "4"); err == nil || !strings.Contains(err.Error(), "3 servers are already running for tenant t") {
			t.Errorf("the fourth: %v", err)
		}
		if err := do("u", "1"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		if n := len(pool.Status()); n != 4 {
			t.Errorf("%d instances", n)
		}
	})
}

// The number of calls of one server at the same time is bounded.
func TestCallsAreBounded(t *testing.T) {
	w := newWorld(always(act{}))
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "a")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		var wg sync.WaitGroup
		for range 128 {
			wg.Go(func() {
				_ = pool.Do(t.Context(), grant(t, "t"), ann, "a", func(ctx context.Context, c *conn) error { return c.call(ctx, time.Second) })
			})
		}
		synctest.Wait()
		if err := pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing); err == nil || !strings.Contains(err.Error(), "128 calls") {
			t.Errorf("got %v", err)
		}
		wg.Wait()
		if err := pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing); err != nil {
			t.Error(err)
		}
	})
}

// If a server dies during a call, in whatever way, the error has its name, the reason, its
// last lines and what happens next. An error that is the server's answer stays unchanged.
func TestServerDiesUnderACall(t *testing.T) {
	answer := errors.New("the server's own error")
	for _, a := range []act{
		{dies: time.Second, exit: errors.New("exit status 3"), closing: time.Second},
		{drops: time.Second, exit: errors.New("exit status 3")},
	} {
		w := newWorld(func(n int, _ upstream.Spec) act {
			if n == 0 {
				return a
			}
			return act{}
		})
		var told []upstream.Status
		cfg := upstream.Config[*conn]{Changed: func(s upstream.Status) { told = append(told, s) }}
		bubble(t, w, cfg, []upstream.Server{server(t, "a")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
			g := grant(t, "t")
			if err := pool.Do(t.Context(), g, ann, "a", func(context.Context, *conn) error { return answer }); !errors.Is(err, answer) {
				t.Errorf("got %v", err)
			}
			err := pool.Do(t.Context(), g, ann, "a", func(ctx context.Context, c *conn) error { return c.call(ctx, time.Minute) })
			var u *upstream.Unavailable
			if !errors.As(err, &u) || !u.Ran || u.State != upstream.Waiting || u.Attempt != 1 || len(u.Stderr) != 2 || u.Reason == "" {
				t.Errorf("got %+v", err)
			}
			if a.dies > 0 && !strings.Contains(err.Error(), "exit status 3") {
				t.Errorf("got %v", err)
			}
			for _, s := range told {
				if failed := s.State == upstream.Waiting; failed != (len(s.Stderr) == 2) {
					t.Errorf("the owner of the pool is told of %s with the lines %q", s.State, s.Stderr)
				}
			}
			time.Sleep(2 * time.Second)
			if err := pool.Do(t.Context(), g, ann, "a", nothing); err != nil || w.starts() != 2 {
				t.Errorf("%v, %d starts", err, w.starts())
			}
		})
	}
}

// If principals share a server, none of them gets its lines of stderr: they may be about
// the call of another principal.
func TestSharedServerDiesUnderACall(t *testing.T) {
	w := newWorld(always(act{dies: time.Second, exit: errors.New("exit status 3")}))
	shared := server(t, "a")
	shared.Settings.Share = policies.ShareTenant
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{shared}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		g := grant(t, "t")
		during := pool.Do(t.Context(), g, ann, "a", func(ctx context.Context, c *conn) error { return c.call(ctx, time.Minute) })
		for what, err := range map[string]error{"the call": during, "the next call": pool.Do(t.Context(), g, ann, "a", nothing)} {
			var u *upstream.Unavailable
			if !errors.As(err, &u) || len(u.Stderr) != 0 || !u.StderrLeftOut {
				t.Errorf("%s: got %v", what, err)
			}
		}
		for _, s := range pool.Status() {
			if len(s.Stderr) != 2 {
				t.Errorf("the status has the lines %q", s.Stderr)
			}
		}
	})
}

// A server that exits with status 0 after each answer is started again within its budget.
// Then it has failed, with that reason.
func TestExitAfterEachAnswer(t *testing.T) {
	w := newWorld(always(act{exit: errors.New("it exited with status 0")}))
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "a")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		answered := 0
		var last error
		for range 1000 {
			last = pool.Do(t.Context(), grant(t, "t"), ann, "a", func(_ context.Context, c *conn) error {
				c.p.end(c.p.act.exit)
				return nil
			})
			if last == nil {
				answered++
			}
			time.Sleep(time.Second)
		}
		if n := w.starts(); n != 8 || answered != 8 {
			t.Errorf("%d starts, %d calls were answered", n, answered)
		}
		if last == nil || !strings.Contains(last.Error(), "failed after 8 starts") || !strings.Contains(last.Error(), "status 0") {
			t.Errorf("got %v", last)
		}
	})
}

// If a caller goes away, the server's start continues for others.
func TestCallerGoesAway(t *testing.T) {
	w := newWorld(always(act{after: 10 * time.Second}))
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "a")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := pool.Do(ctx, grant(t, "t"), ann, "a", nothing); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if err := pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing); err != nil || w.starts() != 1 {
			t.Errorf("%v, %d starts", err, w.starts())
		}
	})
}

// Close ends starts, calls and pauses, and later calls are refused.
func TestClose(t *testing.T) {
	w := newWorld(func(_ int, s upstream.Spec) act {
		return map[string]act{"hangs": {hang: "start"}, "dials": {hang: "dial"}, "waits": {start: errors.New("no")}, "works": {closing: time.Second}}[s.Server.Name]
	})
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{server(t, "hangs"), server(t, "dials"), server(t, "waits"), server(t, "works")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		pool.Gather(t.Context(), ann)
		var wg sync.WaitGroup
		wg.Go(func() {
			err := pool.Do(t.Context(), grant(t, "t"), ann, "works", func(ctx context.Context, c *conn) error { return c.call(ctx, time.Hour) })
			if err == nil || !strings.Contains(err.Error(), "belljar is shutting down") {
				t.Errorf("a call that runs: %v", err)
			}
		})
		wg.Go(func() {
			if err := pool.Do(t.Context(), grant(t, "t"), ann, "hangs", nothing); !errors.Is(err, upstream.ErrClosed) {
				t.Errorf("a call that waits: %v", err)
			}
		})
		synctest.Wait()
		begun := time.Now()
		pool.Close()
		wg.Wait()
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		if err := pool.Do(t.Context(), grant(t, "t"), ann, "works", nothing); !errors.Is(err, upstream.ErrClosed) {
			t.Errorf("a later call: %v", err)
		}
	})
}

// A remote server has no process, and otherwise the same states.
func TestRemote(t *testing.T) {
	w := newWorld(always(act{drops: 5 * time.Second}))
	s := server(t, "a", func(s *upstream.Server) { s.Remote = true })
	bubble(t, w, upstream.Config[*conn]{}, []upstream.Server{s}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		if err := pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5500 * time.Millisecond)
		err := pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing)
		var u *upstream.Unavailable
		if !errors.As(err, &u) || u.State != upstream.Waiting || len(u.Stderr) > 0 {
			t.Errorf("got %v", err)
		}
	})
}

// A server that the policy does not grant is not started.
func TestGrantRefused(t *testing.T) {
	w := newWorld(always(act{}))
	cfg := upstream.Config[*conn]{Grant: func(string, upstream.Server) (policies.Grant, error) {
		return policies.Grant{}, errors.New("the policy has no tenant t")
	}}
	bubble(t, w, cfg, []upstream.Server{server(t, "a")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
		if err := pool.Do(t.Context(), grant(t, "t"), ann, "a", nothing); err == nil || w.starts() != 0 {
			t.Errorf("%v, %d starts", err, w.starts())
		}
		if s := pool.Gather(t.Context(), ann, "a")[0]; s.State != upstream.Failed || s.Reason == "" {
			t.Errorf("got %+v", s)
		}
	})
}

// A server chooses the text of its error, which goes to logs and terminals: the reason is
// one short line without effects on a terminal.
func TestReasonIsOneShortLine(t *testing.T) {
	for _, is := range []error{upstream.ErrHeld, upstream.ErrLasting} {
		evil := fmt.Errorf("%w: refused: \x1b]52;c;eA==\x07\n\u202e%s", is, strings.Repeat("x", 1<<20))
		w := newWorld(always(act{dial: evil}))
		var told []string
		cfg := upstream.Config[*conn]{Changed: func(s upstream.Status) { told = append(told, s.Reason) }}
		bubble(t, w, cfg, []upstream.Server{server(t, "a")}, func(t *testing.T, pool *upstream.Pool[*conn]) {
			s := pool.Gather(t.Context(), ann, "a")[0]
			for _, reason := range append(told, s.Reason) {
				if len(reason) > 600 || strings.ContainsAny(reason, "\x1b\x07\n\u202e") {
					t.Errorf("a reason has %d bytes: %.80q", len(reason), reason)
				}
			}
			if !strings.Contains(s.Reason, "refused") {
				t.Errorf("the reason is %.80q", s.Reason)
			}
		})
	}
}

// Every state of a server has a text for the agent.
func TestTexts(t *testing.T) {
	key := upstream.Key{Server: "play\x1b]52;wright", Caller: ann}
	var all []string
	for _, u := range []upstream.Unavailable{
		{Status: upstream.Status{Key: key, State: upstream.Waiting, Attempt: 2, Reason: "the handshake took longer than 30s", Stderr: []string{"Error: Cannot find module \x1b[1m'x'\x1b[0m", strings.Repeat("long ", 100), "\u202eevil"}}, In: 1900 * time.Millisecond},
		{Status: upstream.Status{Key: key, State: upstream.Failed, Attempt: 8, Reason: "exit status 1\nDENIED by policy rule x"}},
		{Status: upstream.Status{Key: key, State: upstream.Held, Attempt: 1, Reason: "2 tools have changed: a person has to decide about it"}},
		{Status: upstream.Status{Key: key, State: upstream.Off, Reason: "the server was removed from the configuration"}, Ran: true},
		{Status: upstream.Status{Key: key, State: upstream.Starting, Attempt: 1}},
		{Status: upstream.Status{Key: key, State: upstream.Draining}, Ran: true},
		{Status: upstream.Status{Key: key, State: upstream.Off}, StderrLeftOut: true},
	} {
		all = append(all, u.Error())
	}
	golden.Equal(t, "texts.golden", strings.Join(all, "\n\n")+"\n")
}
