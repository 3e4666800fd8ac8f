package browser_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"belljar.dev/browser"
)

// BenchmarkIsolation is the CPU time of a page by all processes that have a part
// in it, in a box and behind a door as the pool has it, against a Chrome with
// neither and without its own sandbox.
func BenchmarkIsolation(b *testing.B) {
	const slots = 1
	r := newRig(b, browser.Config{Slots: slots})
	r.page("/script", script())
	program, err := browser.Find()
	if err != nil {
		b.Skip(err)
	}
	bare, err := browser.StartBare(b.Context(), program, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { bare.Close() })
	local := browser.Request{URL: fmt.Sprintf("http://127.0.0.1:%d/script", r.port)}
	boxed := func() {
		r.must(browser.Request{URL: r.url("/script")})
		r.rested(slots)
	}
	open := func() {
		if _, err := bare.Load(b.Context(), local); err != nil {
			b.Fatal(err)
		}
	}
	var in, out time.Duration
	pages := 0
	boxed()
	open()
	for b.Loop() {
		for i, load := range []func(){boxed, open, open, boxed} {
			before := cpu(b)
			for range 5 {
				load()
			}
			if used := cpu(b) - before; i == 0 || i == 3 {
				in += used
			} else {
				out += used
			}
		}
		pages += 10
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(in.Seconds()*1e3/float64(pages), "cpu-ms/page")
	b.ReportMetric(out.Seconds()*1e3/float64(pages), "cpu-ms/page-bare")
	held(b, "x-bare", in.Seconds()/out.Seconds(), 1.05)
}

// cpu is the CPU time of this process and all below it, with what those used that
// have ended (proc_pid_stat(5): utime, stime, cutime, cstime).
func cpu(b *testing.B) time.Duration {
	b.Helper()
	parent, ticks := map[int]int{}, map[int]int{}
	dirs, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range dirs {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		parent[pid], _ = strconv.Atoi(string(f[1]))
		for _, at := range []int{11, 12, 13, 14} {
			n, _ := strconv.Atoi(string(f[at]))
			ticks[pid] += n
		}
	}
	total := 0
	for pid := range ticks {
		for up := pid; up > 1; up = parent[up] {
			if up == os.Getpid() {
				total += ticks[pid]
				break
			}
		}
	}
	return time.Duration(total) * 10 * time.Millisecond // USER_HZ is 100
}
