package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// BenchmarkScale is a thousand idle boxes of many tenants: how fast they come,
// what they hold, what a call in one of them costs, and how fast they go.
func BenchmarkScale(b *testing.B) {
	const boxes, perTenant, calls = 1000, 10, 200
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 1 << 16, Max: 1 << 16}) // as root, where the host allows few files
	s, err := sandbox.New(sandbox.Config{Workspace: b.TempDir(), Boxes: boxes})
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

	// What is made once, for the first box or for the largest number ever.
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
	held, fds, share := settled(b), float64(descriptors(b)-files)/boxes, proportional(b)
	for name := range held {
		held[name] -= before[name]
	}

	var raw, call sample
	for range calls {
		begin := time.Now()
		rawRun(b, "/", nil, "/bin/true")
		between := time.Now()
		boxRun(b, open[rand.IntN(boxes)], sandbox.Cmd{Argv: []string{"/bin/true"}})
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
	b.Run("memory", func(b *testing.B) {
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(held.sum()+share)/1e6, "MB-for-all")
		b.ReportMetric(500, "MB-for-all-limit")
		for name, n := range held {
			b.ReportMetric(float64(n)/1e6, "MB-"+name)
		}
		b.ReportMetric(float64(share)/boxes/(1<<10), "KiB-PSS/init")
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

// footprint is what is held of the machine's, in bytes, by the kernel's names for
// it (proc_meminfo(5)).
type footprint map[string]int64

// kernelMemory is what the kernel holds for programs beside their own pages:
// its objects, with those that it counts as reclaimable and that are in use,
// page tables, what is mapped for it alone (stacks and filters of system calls),
// counters for each processor, and files in memory.
var kernelMemory = []string{"Slab", "PageTables", "VmallocUsed", "Percpu", "Shmem"}

func (m footprint) sum() (sum int64) {
	for _, n := range m {
		sum += n
	}
	return sum
}

// settled is the memory that the kernel holds, and what this program holds of
// its own, once nothing is freed any more: the kernel frees much only when all
// processors have moved on, and keeps caches that can be had back at any time.
// Other programs move it as well.
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
		<-time.After(200 * time.Millisecond)
	}
	b.Fatal("the kernel's memory does not settle")
	return nil
}

// field is a line "name: n kB" of a file, in bytes.
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

// proportional is the memory of all processes below this one, where a page
// that n of them share counts a n-th for each (proc_pid_smaps(5)).
func proportional(b *testing.B) int64 {
	b.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	parent := map[string]string{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // gone meanwhile
		}
		if fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])); len(fields) > 1 {
			parent[filepath.Base(filepath.Dir(path))] = fields[1]
		}
	}
	self := strconv.Itoa(os.Getpid())
	var sum int64
	for pid := range parent {
		for up, depth := parent[pid], 0; up != "" && depth < len(parent); up, depth = parent[up], depth+1 {
			if up == self {
				sum += field(b, "/proc/"+pid+"/smaps_rollup", "Pss:")
				break
			}
		}
	}
	return sum
}
