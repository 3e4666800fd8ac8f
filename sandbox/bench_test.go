package sandbox_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// These benchmarks measure once, whatever b.N is, and print a line for each way, with its
// limit. They never fail because a way is slow: the reader knows the machine and judges the
// figures.

// sample contains the times of all runs of one way; outliers count too.
type sample []time.Duration

func (s sample) at(share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(float64(len(sorted))*share))]
}

// way is one of several ways to do the same.
type way struct {
	name string
	run  func()
	// every makes a slow way run only in one of so many rounds; 0 means every round.
	every int
	// rest waits after each run for the work that the run left in the background, so that
	// this work does not slow the next way. It is not measured. It may be nil.
	rest func()
	// limit and tail are upper bounds of the median and of the 99th percentile, as ratios
	// to the first way; 0 means no limit.
	limit, tail float64
}

// race runs every way in turn, so that a disturbance of the machine affects all ways alike.
// It reports each way on a line of its own: median and 99th percentile, and their ratios to
// the first way. The ratio "x" is the median of the ratios of pairs: each run divided by
// the run of the first way in the same round. On a slow machine race ends early; "runs" is
// the number of runs.
func race(b *testing.B, rounds int, ways ...way) {
	b.Helper()
	const fewest, longest = 5, 15 * time.Second
	end := time.Now().Add(longest)
	warmUps := min(5, 1+rounds/10)
	samples, ratios := make([]sample, len(ways)), make([][]float64, len(ways))
	for round := -warmUps; round < rounds; round++ {
		if round >= fewest && time.Now().After(end) {
			break
		}
		for i, w := range ways {
			if w.every > 1 && (round+warmUps)%w.every != 0 {
				continue
			}
			begin := time.Now()
			w.run()
			took := time.Since(begin)
			if w.rest != nil {
				w.rest()
			}
			if round < 0 {
				continue
			}
			samples[i] = append(samples[i], took)
			base := samples[0][len(samples[0])-1]
			ratios[i] = append(ratios[i], float64(took)/float64(base))
		}
	}
	for i, w := range ways {
		if len(samples[i]) == 0 {
			b.Logf("no time for %s", w.name)
			continue
		}
		b.Run(w.name, func(b *testing.B) {
			figures(b, samples[i])
			if i == 0 {
				return
			}
			b.ReportMetric(median(ratios[i]), "x")
			b.ReportMetric(float64(samples[i].at(0.99))/float64(samples[0].at(0.99)), "x-p99")
			if w.limit > 0 {
				b.ReportMetric(w.limit, "x-limit")
			}
			if w.tail > 0 {
				b.ReportMetric(w.tail, "x-p99-limit")
			}
		})
	}
}

// figures reports a sample.
func figures(b *testing.B, s sample) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // hides the default figure, which would be the time of the report
	b.ReportMetric(float64(s.at(0.5).Microseconds()), "us-p50")
	b.ReportMetric(float64(s.at(0.99).Microseconds()), "us-p99")
	b.ReportMetric(float64(len(s)), "runs")
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// rawRun runs a program in the cheapest way: fork, exec, one pipe.
func rawRun(b *testing.B, dir string, env []string, argv ...string) {
	b.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Dir: dir, Env: env, Files: []*os.File{nil, w, w}})
	w.Close()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		b.Fatal(err)
	}
	r.Close()
	if state, err := p.Wait(); err != nil || !state.Success() {
		b.Fatalf("%q: %v, %v", argv, state, err)
	}
}

// boxRun runs a command in a box, and ends the benchmark unless it exits with code 0.
func boxRun(b *testing.B, box *sandbox.Box, c sandbox.Cmd) {
	b.Helper()
	c.Grant, c.Timeout = box.Grant(), time.Minute
	r, err := box.Run(context.Background(), c)
	if err != nil || r.Code != 0 || r.Status != sandbox.Exited {
		b.Fatalf("%q%q: %+v, %v", c.Shell, c.Argv, r, err)
	}
}

// BenchmarkOpen measures how long a box takes to open, until its init is ready,
// and to close: once with a workspace in the mode bind, and once in the mode
// overlay, with a new set of changes each time.
func BenchmarkOpen(b *testing.B) {
	const rounds = 300
	s, _, _ := overlaid(b)
	for _, kind := range []struct {
		name  string
		grant policies.Grant
		limit time.Duration
	}{{"", grant(b), 3 * time.Millisecond}, {"overlay-", overlayGrant(b), 6 * time.Millisecond}} {
		var open, shut sample
		for n := range rounds {
			begin := time.Now()
			opened, err := s.Open(context.Background(), fmt.Sprint(n), kind.grant)
			if err != nil {
				b.Fatal(err)
			}
			ready := time.Now()
			if err := opened.Close(); err != nil {
				b.Fatal(err)
			}
			open, shut = append(open, ready.Sub(begin)), append(shut, time.Since(ready))
		}
		b.Run(kind.name+"open", func(b *testing.B) {
			figures(b, open)
			b.ReportMetric(float64(kind.limit.Microseconds()), "us-p50-limit")
		})
		b.Run(kind.name+"close", func(b *testing.B) { figures(b, shut) })
	}
}

// unwilling is a tree of 121 processes that do not want to end: they ignore signals, are in
// sessions of their own, orphaned or stopped. It prints "up" when all of them exist.
const unwilling = `trap '' TERM INT HUP QUIT
for i in {1..30}; do
  setsid sleep 1000 &
  (sleep 1000 &)
  (setsid sleep 1000 &)
  sleep 1000 & kill -STOP $!
done
echo up
exec sleep 1000`

// BenchmarkKill measures how long a kill takes from the call to its return, which is after
// the end of the whole tree.
func BenchmarkKill(b *testing.B) {
	const rounds, limit = 100, 20 * time.Millisecond
	box, _ := openBox(b, grant(b))
	var took sample
	for range rounds {
		up := make(signalWriter, 1)
		j, err := box.Start(context.Background(), sandbox.Cmd{Grant: box.Grant(), Timeout: time.Minute, Shell: unwilling, Out: up, Err: up})
		if err != nil {
			b.Fatal(err)
		}
		select {
		case <-up:
		case <-j.Done():
			b.Fatalf("the tree ended as %v", j.Status())
		}
		begin := time.Now()
		if r := j.Kill(0); r.Status != sandbox.Killed {
			b.Fatalf("got %v", r.Status)
		}
		took = append(took, time.Since(begin))
	}
	b.Run("tree", func(b *testing.B) {
		figures(b, took)
		b.ReportMetric(float64(limit.Microseconds()), "us-p99-limit")
	})
}

// signalWriter receives a value when something was written.
type signalWriter chan struct{}

func (w signalWriter) Write(p []byte) (int, error) {
	select {
	case w <- struct{}{}:
	default:
	}
	return len(p), nil
}

// BenchmarkDeadline measures how long after the deadline a small tree like unwilling has
// ended and its call returns.
func BenchmarkDeadline(b *testing.B) {
	const rounds, timeout, limit = 100, 50 * time.Millisecond, 200 * time.Millisecond
	box, _ := openBox(b, grant(b))
	var late sample
	for range rounds {
		r, err := box.Run(context.Background(), sandbox.Cmd{
			Grant: box.Grant(), Timeout: timeout,
			Shell: "trap '' TERM INT HUP; (setsid sleep 1000 &); for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; kill -STOP $!; sleep 1000",
		})
		if err != nil || r.Status != sandbox.TimedOut {
			b.Fatalf("%v, %v", r.Status, err)
		}
		late = append(late, r.Wall-timeout)
	}
	b.Run("late", func(b *testing.B) {
		figures(b, late)
		b.ReportMetric(float64(limit.Microseconds()), "us-p99-limit")
	})
}
