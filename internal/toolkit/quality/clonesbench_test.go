//go:build quality

package quality

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/toolkit/code/clone"
)

// clonesOf names the directory whose files the test binary compares in place of tests.
const clonesOf = "BELLJAR_QUALITY_CLONES"

// A process of its own has the CPU time and the memory of clones alone.
func TestClonesProcess(t *testing.T) {
	dir := os.Getenv(clonesOf)
	if dir == "" {
		t.Skip("runs only as a child of the benchmark")
	}
	var names []string
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	res, err := clone.Find(t.Context(), parse(t, dir, names), clone.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%d clones, %d lines\n", len(res.Clones), res.Lines)
}

// All four kinds of clones and the complexity of each function, against the exact clones
// of jscpd alone: whole processes, in turns, medians. At most 0.7 times the CPU time and
// 0.6 times the memory are wanted.
func BenchmarkClones(b *testing.B) {
	program := jscpd(b)
	b.Run("go", func(b *testing.B) {
		dir, _ := goroot200(b)
		against(b, program, dir)
	})
	b.Run("rust", func(b *testing.B) {
		dir, _ := copied(b, "/", rustFiles(b), 204)
		against(b, program, dir)
	})
}

// against measures the files of a directory in turns.
func against(b *testing.B, program, dir string) {
	var ours, theirs [3][]float64
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=TestClonesProcess$")
		cmd.Env = append(os.Environ(), clonesOf+"="+dir)
		for i, x := range spent(b, cmd) {
			ours[i] = append(ours[i], x)
		}
		for i, x := range spent(b, exec.CommandContext(b.Context(), program, "-m", "weak", "-r", "silent", dir)) {
			theirs[i] = append(theirs[i], x)
		}
	}
	for i, name := range []string{"cpu-ms", "wall-ms", "MB"} {
		slices.Sort(ours[i])
		slices.Sort(theirs[i])
		x, y := ours[i][len(ours[i])/2], theirs[i][len(theirs[i])/2]
		b.ReportMetric(x, name)
		b.ReportMetric(y, "jscpd-"+name)
		b.ReportMetric(x/y, name+"-ratio")
	}
}

// spent runs a program, and returns its CPU time and its wall time in milliseconds, and
// the most memory that it had in megabytes.
func spent(b *testing.B, cmd *exec.Cmd) [3]float64 {
	begin := time.Now()
	if said, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", cmd.Path, err, said)
	}
	wall := time.Since(begin)
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		b.Fatal("no usage of a process")
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return [3]float64{float64(cpu.Microseconds()) / 1000, float64(wall.Microseconds()) / 1000, float64(usage.Maxrss) / 1024}
}
