package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// BenchmarkDoor measures what the egress door costs. The same client runs outside the box
// and in it, in turn, against one server on this host's loopback. Ratios are those of the
// medians of rounds. The peers are other programs that connect a box to the network.
func BenchmarkDoor(b *testing.B) {
	port := server(b)
	s, err := sandbox.New(sandbox.Config{Workspace: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	box, err := s.Open(b.Context(), "box", clientGrant(b, port))
	if err != nil {
		b.Fatal(err)
	}
	type place struct {
		name string
		do   func(what string, n int) measured
	}
	places := []place{
		{"host", func(what string, n int) measured { return onHost(b, port, what, n) }},
		{"box", func(what string, n int) measured { return inBox(b, box, port, what, n) }},
	}
	if pasta, err := exec.LookPath("pasta"); err == nil {
		places = append(places, place{"pasta", func(what string, n int) measured { return behindPasta(b, pasta, port, what, n) }})
	}
	const rounds = 7
	got := map[string]map[string][]measured{} // by place, and by what was measured
	for round := range rounds {
		for i, p := range places {
			if round == 0 {
				got[p.name] = map[string][]measured{}
			}
			for what, n := range map[string]int{"connect": 100, "down": 512, "up": 512, "rate": 2000} {
				if i > 1 && round > 0 && got[p.name][what] == nil {
					continue // the peer cannot do it
				}
				switch m := p.do(what, n); {
				case m.Error == "":
					got[p.name][what] = append(got[p.name][what], m)
				case i > 1:
					b.Logf("%s on %s: %s", what, p.name, m.Error)
					delete(got[p.name], what)
				default:
					b.Fatalf("%s on %s: %s", what, p.name, m.Error)
				}
			}
		}
	}
	// figure returns the median of one figure of one place.
	figure := func(place, what string, of func(measured) float64) float64 {
		var all []float64
		for _, m := range got[place][what] {
			all = append(all, of(m))
		}
		return median(all)
	}
	for _, p := range places {
		b.Run(p.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			report := func(what, unit string, of func(measured) float64, to func(value, host float64) float64) {
				if got[p.name][what] != nil {
					b.ReportMetric(to(figure(p.name, what, of), figure("host", what, of)), unit)
				}
			}
			itself := func(value, _ float64) float64 { return value }
			more := func(value, host float64) float64 { return value - host }
			ratio := func(value, host float64) float64 { return value / host }
			connect := func(m measured) float64 { return m.Connect }
			report("connect", "ms-connect", connect, itself)
			report("connect", "ms-more", connect, more)
			report("connect", "ms-resolve", func(m measured) float64 { return m.Resolve }, itself)
			report("connect", "us-ping", func(m measured) float64 { return m.Ping }, itself)
			report("down", "x-down", func(m measured) float64 { return m.Down }, ratio)
			report("up", "x-up", func(m measured) float64 { return m.Up }, ratio)
			report("rate", "conns/s", func(m measured) float64 { return m.Rate }, itself)
			lost := 0
			for _, m := range got[p.name]["rate"] {
				lost += m.Failed
			}
			b.ReportMetric(float64(lost), "conns-lost")
			if p.name == "box" {
				b.ReportMetric(0.3, "ms-more-limit")
				b.ReportMetric(0.4, "x-least")
				b.ReportMetric(1000, "conns/s-least")
			}
		})
	}
}

// BenchmarkOpenDoor measures how long a box takes to open, without and with a network.
func BenchmarkOpenDoor(b *testing.B) {
	s, err := sandbox.New(sandbox.Config{Workspace: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	closed := policytest.GrantProfile(b, "fs: {system: true, workspace: rw}")
	open := policytest.GrantProfile(b, "fs: {system: true, workspace: rw}\nnet: {mode: proxy, allow: [example.test]}")
	times := map[string]sample{}
	for i := range 100 {
		for name, g := range map[string]policies.Grant{"closed": closed, "open": open} {
			begin := time.Now()
			box, err := s.Open(b.Context(), fmt.Sprint(name, i), g)
			if err != nil {
				b.Fatal(err)
			}
			times[name] = append(times[name], time.Since(begin))
			if err := box.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	for name, limit := range map[string]float64{"closed": 3, "open": 10} {
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(times[name].at(0.5))/1e6, "ms-p50")
			b.ReportMetric(float64(times[name].at(0.99))/1e6, "ms-p99")
			b.ReportMetric(limit, "ms-p50-limit")
		})
	}
}

// onHost runs the client outside the box.
func onHost(b *testing.B, port int, what string, n int) measured {
	b.Helper()
	return saidBy(b, os.Args[0], clientName, fmt.Sprintf("127.0.0.1:%d", port), what, fmt.Sprint(n))
}

// behindPasta runs the client in a namespace that pasta(1) connects.
func behindPasta(b *testing.B, pasta string, port int, what string, n int) measured {
	b.Helper()
	line := fmt.Sprintf(`exec -a %s "$0" 127.0.0.1:%d %s %d`, clientName, port, what, n)
	return saidBy(b, pasta, pasta, "--config-net", "--runas", "0", "-T", fmt.Sprint(port), "-q", "--", "bash", "-c", line, os.Args[0])
}

// saidBy returns the figures that a program prints. The program has 20 seconds.
func saidBy(b *testing.B, program string, argv ...string) measured {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Args, cmd.WaitDelay = argv, time.Second
	text, err := cmd.Output()
	if err != nil {
		return measured{Error: fmt.Sprintf("%v: %v", argv, err)}
	}
	return heard(b, text)
}
