package sandbox_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/sandbox"
)

// sample is the times of one way to do a thing.
type sample []time.Duration

func (s sample) at(share float64) time.Duration {
	slices.Sort(s)
	return s[min(len(s)-1, int(float64(len(s))*share))]
}

// rounds runs every way in turn, b.N times, so that what disturbs the machine
// disturbs all of them alike, and reports medians, 99th percentiles and the
// ratios to the first way.
func rounds(b *testing.B, names []string, ways []func()) {
	b.Helper()
	samples := make([]sample, len(ways))
	for range 5 {
		for _, way := range ways {
			way()
		}
	}
	b.ResetTimer()
	for range b.N {
		for i, way := range ways {
			begin := time.Now()
			way()
			samples[i] = append(samples[i], time.Since(begin))
		}
	}
	b.StopTimer()
	b.ReportMetric(0, "ns/op") // the sum of all ways says nothing
	base := samples[0]
	for i, name := range names {
		median, p99 := samples[i].at(0.5), samples[i].at(0.99)
		b.ReportMetric(float64(median.Microseconds()), name+"-median-us")
		b.ReportMetric(float64(p99.Microseconds()), name+"-p99-us")
		if i > 0 {
			b.ReportMetric(float64(median)/float64(base.at(0.5)), name+"-x")
		}
	}
}

// rawShell runs a script as cheaply as a program can: fork, exec, one pipe;
// with the environment that a box gives, since a locale alone costs a tenth.
func rawShell(b *testing.B, script string, env []string) {
	b.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	p, err := os.StartProcess("/bin/bash", []string{"bash", "-c", script}, &os.ProcAttr{Env: env, Files: []*os.File{nil, w, w}})
	w.Close()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		b.Fatal(err)
	}
	r.Close()
	if _, err := p.Wait(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRun is one `echo hi`: a plain fork and exec, the same in a box,
// and bubblewrap with a private root where it is installed.
func BenchmarkRun(b *testing.B) {
	box, _ := openBox(b, grant(b))
	const script = "echo hi"
	_, text := shell(b, box, "env")
	env := strings.Split(strings.TrimSpace(text), "\n")
	names := []string{"raw", "box", "box-cd"}
	run := func(c sandbox.Cmd) {
		c.Grant, c.Timeout = box.Grant(), time.Minute
		if r, err := box.Run(context.Background(), c); err != nil || r.Code != 0 {
			b.Fatalf("%+v, %v", r, err)
		}
	}
	ways := []func(){
		func() { rawShell(b, script, env) },
		func() { run(sandbox.Cmd{Shell: script}) },
		func() { run(sandbox.Cmd{Shell: "cd /tmp; " + script}) },
	}
	if bwrap, err := exec.LookPath("bwrap"); err == nil {
		names = append(names, "bwrap")
		ways = append(ways, func() {
			cmd := exec.CommandContext(context.Background(), bwrap, "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr",
				"--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
				"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "bash", "-c", script)
			cmd.Env = env
			out, err := cmd.Output()
			if err != nil || string(out) != "hi\n" {
				b.Fatalf("%q, %v", out, err)
			}
		})
	}
	rounds(b, names, ways)
}

// BenchmarkOpen is the making of a box, from nothing to a ready init, and its
// end.
func BenchmarkOpen(b *testing.B) {
	s, _ := world(b)
	g := grant(b)
	var opened *sandbox.Box
	n := 0
	var open, shut sample
	for b.Loop() {
		n++
		begin := time.Now()
		var err error
		if opened, err = s.Open(context.Background(), fmt.Sprint(n), g); err != nil {
			b.Fatal(err)
		}
		ready := time.Now()
		if err := opened.Close(); err != nil {
			b.Fatal(err)
		}
		open, shut = append(open, ready.Sub(begin)), append(shut, time.Since(ready))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(open.at(0.5).Microseconds()), "open-median-us")
	b.ReportMetric(float64(open.at(0.99).Microseconds()), "open-p99-us")
	b.ReportMetric(float64(shut.at(0.5).Microseconds()), "close-median-us")
	b.ReportMetric(float64(shut.at(0.99).Microseconds()), "close-p99-us")
}

// BenchmarkDeadline is how long after its deadline a tree of processes that
// does not want to end is gone and its call answered. The limit is 200 ms.
func BenchmarkDeadline(b *testing.B) {
	box, _ := openBox(b, grant(b))
	const timeout = 50 * time.Millisecond
	var late sample
	for b.Loop() {
		r, err := box.Run(context.Background(), sandbox.Cmd{
			Grant: box.Grant(), Timeout: timeout,
			Shell: "trap '' TERM INT HUP; (setsid sleep 1000 &); for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; kill -STOP $!; sleep 1000",
		})
		if err != nil || r.Status != sandbox.TimedOut {
			b.Fatalf("%v, %v", r.Status, err)
		}
		late = append(late, r.Wall-timeout)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(late.at(0.5).Microseconds()), "late-median-us")
	b.ReportMetric(float64(late.at(0.99).Microseconds()), "late-p99-us")
}
