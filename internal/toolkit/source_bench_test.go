package toolkit

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// sourceOf is the environment variable with the directory of a project of some 200 files.
// If it is not set, the files are those of Go's standard library.
const sourceOf = "BELLJAR_BENCH_SOURCE"

// corpus returns a directory with 200 files.
func corpus(b *testing.B) string {
	if dir := os.Getenv(sourceOf); dir != "" {
		return dir
	}
	dir := b.TempDir()
	testenv.GoFiles(b, dir)
	return dir
}

// BenchmarkSource compares times with limits. The limits are the times that the toolkit of
// the source states for a project of 200 files, measured on 32 threads and only for the
// analyses. Here each time is that of a whole call in this process: files are listed,
// checked with the server, read and parsed, and nothing is cached. There are two
// exceptions. "dead code" is only the stage of that name. "focused" is the second identical
// call for each directory of the project, which finds its answer in the cache after the
// files were listed, checked, read and hashed.
func BenchmarkSource(b *testing.B) {
	debug.SetGCPercent(400) // as in the helper
	defer debug.SetGCPercent(100)
	dir := corpus(b)
	for _, tt := range []struct {
		name, tool string
		args       map[string]any
		stage      string // empty for the whole call
		limit      time.Duration
	}{
		{"duplicates", "analyze_duplicates", nil, "", 84 * time.Millisecond},
		{"dead code", "analyze_comprehensive", map[string]any{"perf": true, "include_duplicates": false, "include_defects": false, "include_tdg": false}, "dead code", 7 * time.Millisecond},
		{"defects", "analyze_defect_probability", nil, "", 45 * time.Millisecond},
		{"complexity", "analyze_complexity", nil, "", 36 * time.Millisecond},
		{"comprehensive", "analyze_comprehensive", nil, "", 143 * time.Millisecond},
		{"deep context", "analyze_deep_context", nil, "", time.Second},
	} {
		b.Run(tt.name, func(b *testing.B) {
			var all []float64
			before := cpuTime(b)
			for b.Loop() {
				began := time.Now()
				o := analyse(b, dir, tt.tool, tt.args, nil)
				took := time.Since(began)
				if o.err != nil {
					b.Fatal(o.err)
				}
				if tt.stage != "" {
					took = stageOf(b, o.answer.Result, tt.stage)
				}
				all = append(all, float64(took)/float64(time.Millisecond))
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N)/float64(time.Millisecond), "cpu-ms")
			tell(b, all, tt.limit)
		})
	}
	b.Run("focused", func(b *testing.B) {
		h := Host{Workspace: dir, Git: testGit, Cache: b.TempDir()}
		var asks []Request
		for _, name := range directories(b, dir) {
			args, err := json.Marshal(map[string]any{"project_path": name})
			if err != nil {
				b.Fatal(err)
			}
			asks = append(asks, Request{Tool: "analyze_deep_context", Args: args, TimeMS: 60_000})
		}
		for _, ask := range asks {
			converse(b, h, ask, nil)
		}
		var all []float64
		for b.Loop() {
			for _, ask := range asks {
				began := time.Now()
				if o := converse(b, h, ask, nil); o.err != nil {
					b.Fatal(o.err)
				}
				all = append(all, float64(time.Since(began))/float64(time.Millisecond))
			}
		}
		tell(b, all, 2500*time.Microsecond)
	})
}

// tell reports the median of the times in milliseconds, and the median as a part of the
// limit.
func tell(b *testing.B, all []float64, limit time.Duration) {
	median := testenv.Median(all)
	b.ReportMetric(median, "ms")
	b.ReportMetric(median*float64(time.Millisecond)/float64(limit), "of-limit")
}

// directories returns the directories of a project that directly contain a file.
func directories(b *testing.B, dir string) (all []string) {
	seen := make(map[string]bool)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if in := path.Dir(strings.TrimPrefix(name, dir+"/")); err == nil && e.Type().IsRegular() && !seen[in] {
			seen[in] = true
			all = append(all, in)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return all
}

// stageOf returns how long a stage of a result took.
func stageOf(b *testing.B, result []byte, name string) time.Duration {
	b.Helper()
	var v struct{ Perf []Stage }
	if err := json.Unmarshal(result, &v); err != nil {
		b.Fatal(err)
	}
	for _, s := range v.Perf {
		if s.Name == name {
			return time.Duration(s.MS * float64(time.Millisecond))
		}
	}
	b.Fatalf("no stage %s in %.200s", name, result)
	return 0
}

// cpuTime returns the processor time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
