package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
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

	free, kernel, files := available(b), kernelMemory(b), descriptors(b)
	open := make([]*sandbox.Box, boxes)
	begin := time.Now()
	for i := range open {
		if open[i], err = s.Open(context.Background(), strconv.Itoa(i), grants[i%len(grants)]); err != nil {
			b.Fatalf("box %d: %v", i, err)
		}
	}
	opening := time.Since(begin)
	held, kernels, fds, share := free-available(b), kernelMemory(b)-kernel, float64(descriptors(b)-files)/boxes, proportional(b)

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
		b.ReportMetric(float64(held)/1e6, "MB-for-all")
		b.ReportMetric(500, "MB-for-all-limit")
		b.ReportMetric(float64(kernels)/1e6, "MB-kernel")
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

// available is MemAvailable in bytes, once caches that can be had back at any
// time are given back: of those for files' names the kernel counts half
// (proc_meminfo(5)), and the making of a box fills them.
func available(b *testing.B) int64 {
	b.Helper()
	debug.FreeOSMemory()
	const slab = "2"
	_ = os.WriteFile("/proc/sys/vm/drop_caches", []byte(slab), 0) // only root can
	return field(b, "/proc/meminfo", "MemAvailable:")
}

// kernelMemory is what the kernel holds for all programs, in bytes: its
// objects, page tables, stacks, counters for each processor, and files in
// memory. The memory of other programs does not move it, as it moves what is
// available; what they have the kernel hold does, and what it frees late. Twice
// the same is a figure, once is none.
func kernelMemory(b *testing.B) int64 {
	b.Helper()
	var sum int64
	for _, name := range []string{"Slab:", "PageTables:", "KernelStack:", "Percpu:", "Shmem:"} {
		sum += field(b, "/proc/meminfo", name)
	}
	return sum
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
