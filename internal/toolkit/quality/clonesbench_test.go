//go:build quality

package quality

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
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
// 0.6 times the memory are wanted, of the project that BELLJAR_BENCH_SOURCE names.
func BenchmarkClones(b *testing.B) {
	program := jscpd(b)
	if dir := os.Getenv("BELLJAR_BENCH_SOURCE"); dir != "" {
		b.Run("source", func(b *testing.B) { against(b, program, dir) })
	}
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
		for i, x := range spent(b, []string{clonesOf + "=" + dir}, os.Args[0], "-test.run=TestClonesProcess$") {
			ours[i] = append(ours[i], x)
		}
		for i, x := range spent(b, nil, program, "-m", "weak", "-r", "silent", dir) {
			theirs[i] = append(theirs[i], x)
		}
	}
	for i, name := range []string{"cpu-ms", "wall-ms", "MB"} {
		x, y := testenv.Median(ours[i]), testenv.Median(theirs[i])
		b.ReportMetric(x, name)
		b.ReportMetric(y, "jscpd-"+name)
		b.ReportMetric(x/y, name+"-ratio")
	}
}

// spentBy names the program that the test binary runs and measures in place of tests.
const spentBy = "BELLJAR_QUALITY_SPENT"

// A process begins with the peak of memory of the one that started it. So that a large one
// can measure small ones, it has them started by a process in between.
func TestSpentProcess(t *testing.T) {
	var args []string
	if os.Getenv(spentBy) == "" {
		t.Skip("runs only as a child of the benchmark")
	}
	if err := json.Unmarshal([]byte(os.Getenv(spentBy)), &args); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	begin := time.Now()
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", args, err, said)
	}
	wall := time.Since(begin)
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("no usage of a process")
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Printf("spent %g %g %g\n", float64(cpu.Microseconds())/1000, float64(wall.Microseconds())/1000, float64(usage.Maxrss)/1024)
}

// spent runs a program, and returns its CPU time and its wall time in milliseconds, and
// the most memory that it had in megabytes.
func spent(b *testing.B, env []string, args ...string) (all [3]float64) {
	text, err := json.Marshal(args)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=TestSpentProcess$")
	cmd.Env = append(append(os.Environ(), spentBy+"="+string(text)), env...)
	said, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v\n%s", args, err, said)
	}
	if _, err := fmt.Sscanf(string(said), "spent %g %g %g", &all[0], &all[1], &all[2]); err != nil {
		b.Fatalf("%s: %v in %q", args, err, said)
	}
	return all
}
