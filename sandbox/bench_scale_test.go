package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// BenchmarkScale measures a thousand idle boxes of many tenants: how fast they open, how
// much memory they use, what a call in one of them costs, and how fast they close.
//
// A box is idle in two states. For the first minute it is awake, with its init and its
// namespaces; then it is parked, and its next command builds it again
// (docs/decisions/2026-11-22-parking.md). The limit is for parked boxes, each of which has
// run commands and left files: this is the state of the boxes of a server with a thousand
// quiet sessions. The memory of boxes that are awake is reported too: all thousand are
// awake only if each has run something within the minute.
func BenchmarkScale(b *testing.B) {
	const boxes, perTenant, calls = 1000, 10, 200
	// as root, if the host allows few files
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 1 << 16, Max: 1 << 16})
	s, err := sandbox.New(sandbox.Config{Workspace: b.TempDir(), Boxes: boxes + 1})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	grants := make([]policies.Grant, boxes/perTenant)
	for i := range grants {
		grants[i] = policytest.GrantFor(b, "version: 1\ndefaults: {decision: allow}\nprofiles: {p: {fs: {system: true, workspace: rw}}}\n",
			policies.Facts{Tenant: fmt.Sprintf("tenant-%d", i), Tool: "Bash", Command: "true"})
	}

	// Some things are made only once, for the first box or for a new largest number of
	// boxes.
	for range 2 * runtime.NumCPU() {
		box, err := s.Open(context.Background(), "first", grants[0])
		if err == nil {
			err = box.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	before, files := settled(b), descriptors(b)
	open := make([]*sandbox.Box, boxes)
	begin := time.Now()
	for i := range open {
		if open[i], err = s.Open(context.Background(), strconv.Itoa(i), grants[i%len(grants)]); err != nil {
			b.Fatalf("box %d: %v", i, err)
		}
	}
	opening := time.Since(begin)
	fresh, fds, freshShare := difference(settled(b), before), float64(descriptors(b)-files)/boxes, proportional(b)
	for _, box := range open {
		boxRun(b, box, sandbox.Cmd{Argv: []string{"/bin/sh", "-c", "echo text >/tmp/file; echo text >/dev/shm/file"}})
	}
	used := difference(settled(b), before)
	usedShare := proportional(b)
	begin = time.Now()
	for i, box := range open {
		if !box.Park(10 * time.Second) {
			b.Fatalf("box %d is not parked", i)
		}
	}
	parking := time.Since(begin)
	parked := difference(settled(b), before)
	parkedShare, parkedFDs := proportional(b), float64(descriptors(b)-files)/boxes

	var created, woken sample
	for i := range calls {
		begin := time.Now()
		box, err := s.Open(context.Background(), "new", grants[0])
		if err != nil {
			b.Fatal(err)
		}
		boxRun(b, box, sandbox.Cmd{Argv: []string{"/bin/true"}})
		created = append(created, time.Since(begin))
		if err := box.Close(); err != nil {
			b.Fatal(err)
		}
		begin = time.Now()
		boxRun(b, open[i], sandbox.Cmd{Argv: []string{"/bin/true"}})
		woken = append(woken, time.Since(begin))
	}

	var raw, call sample
	for range calls {
		begin := time.Now()
		rawRun(b, "/", nil, "/bin/true")
		between := time.Now()
		boxRun(b, open[rand.IntN(calls)], sandbox.Cmd{Argv: []string{"/bin/true"}})
		raw, call = append(raw, between.Sub(begin)), append(call, time.Since(between))
	}

	begin = time.Now()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	closing := time.Since(begin)

	b.Run("open", func(b *testing.B) {
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(boxes/opening.Seconds(), "boxes/s")
		b.ReportMetric(150, "boxes/s-limit")
		b.ReportMetric(fds, "fds/box")
	})
	for _, m := range []struct {
		state string
		held  footprint
		share int64
		limit float64 // MB; 0 if there is no limit
	}{{"parked", parked, parkedShare, 500}, {"awake", fresh, freshShare, 0}, {"awake-after-commands", used, usedShare, 0}} {
		b.Run("memory/"+m.state, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(m.held.sum()+m.share)/1e6, "MB-for-all")
			if m.limit > 0 {
				b.ReportMetric(m.limit, "MB-for-all-limit")
			}
			for name, n := range m.held {
				b.ReportMetric(float64(n)/1e6, "MB-"+name)
			}
			b.ReportMetric(float64(m.share)/1e6, "MB-PSS")
		})
	}
	b.Run("park", func(b *testing.B) {
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(boxes/parking.Seconds(), "boxes/s")
		b.ReportMetric(parkedFDs, "fds/box")
	})
	b.Run("wake", func(b *testing.B) {
		figures(b, woken)
		b.ReportMetric(float64(woken.at(0.5))/float64(created.at(0.5)), "x-of-new-box")
	})
	b.Run("call", func(b *testing.B) {
		figures(b, call)
		b.ReportMetric(float64(call.at(0.5))/float64(raw.at(0.5)), "x")
	})
	b.Run("close", func(b *testing.B) {
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(closing.Milliseconds()), "ms-for-all")
	})
}

// footprint is the memory that is used on the machine, in bytes, by the kernel's names for
// it (proc_meminfo(5)).
type footprint map[string]int64

// kernelMemory names the memory that the kernel uses for programs in addition to their own
// pages: its objects, also those in use that it counts as reclaimable; page tables; memory
// that is mapped only for the kernel (stacks and filters of system calls); counters for
// each processor; and files in memory.
var kernelMemory = []string{"Slab", "PageTables", "VmallocUsed", "Percpu", "Shmem"}

// difference returns how much now is above before.
func difference(now, before footprint) footprint {
	for name := range now {
		now[name] -= before[name]
	}
	return now
}

func (m footprint) sum() (sum int64) {
	for _, n := range m {
		sum += n
	}
	return sum
}

// settled returns the memory that the kernel uses, and the anonymous memory of this
// program, after no more memory is freed. The kernel frees much memory only when all
// processors have passed a certain point, and keeps caches that it can free at any time.
// Other programs change the figures as well.
func settled(b *testing.B) footprint {
	b.Helper()
	const near = 1 << 20
	last := int64(0)
	for range 20 {
		debug.FreeOSMemory()
		const slab = "2"
		_ = os.WriteFile("/proc/sys/vm/drop_caches", []byte(slab), 0) // only root can
		m := footprint{"supervisor": field(b, "/proc/self/status", "RssAnon:")}
		for _, name := range kernelMemory {
			m[name] = field(b, "/proc/meminfo", name+":")
		}
		sum := m.sum()
		if max(sum-last, last-sum) < near {
			return m
		}
		last = sum
		testenv.Delay(b.Context(), 200*time.Millisecond) // the kernel frees memory in the background
	}
	b.Fatal("the kernel's memory does not settle")
	return nil
}

// field returns the value of a line "name: n kB" of a file, in bytes.
func field(b *testing.B, path, name string) int64 {
	b.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return n << 10
		}
	}
	b.Fatalf("%s has no %s", path, name)
	return 0
}

func descriptors(b *testing.B) int {
	b.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		b.Fatal(err)
	}
	return len(entries)
}

// proportional returns the memory of all processes below this one. A page that n of these
// processes share counts one n-th for each of them (proc_pid_smaps(5)).
func proportional(b *testing.B) int64 {
	b.Helper()
	var sum int64
	for _, p := range testenv.Below(testenv.Processes(), os.Getpid()) {
		if p.PID != os.Getpid() {
			sum += field(b, fmt.Sprintf("/proc/%d/smaps_rollup", p.PID), "Pss:")
		}
	}
	return sum
}
