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

// clonesOf is the environment variable with the directory in which TestClonesProcess searches.
const clonesOf = "BELLJAR_QUALITY_CLONES"

// BenchmarkClones starts the test binary with this test alone, so that the CPU time and the
// memory of the process are those of the search for clones.
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

// BenchmarkClones compares the search for all four kinds of clones and the complexity of each
// function with jscpd, a clone finder from npm, which searches for exact clones only. Both run
// as whole processes in turn, and the medians count. For the project in BELLJAR_BENCH_SOURCE
// the limits are 0.7 times the CPU time and 0.6 times the memory of jscpd.
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

// against runs belljar's search and jscpd in turn on the files of a directory, and reports
// the results of both.
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

// spentBy is the environment variable with the command line, in JSON, that TestSpentProcess
// runs and measures.
const spentBy = "BELLJAR_QUALITY_SPENT"

// A new process inherits the peak memory of its parent. The benchmark's own process is large,
// so it starts this small test, and the test starts the program that is measured.
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
		t.Fatal("the system does not report the usage of a process")
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Printf("spent %g %g %g\n", float64(cpu.Microseconds())/1000, float64(wall.Microseconds())/1000, float64(usage.Maxrss)/1024)
}

// spent runs a program, and returns its CPU time and its wall time in milliseconds, and its
// peak memory in megabytes.
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
