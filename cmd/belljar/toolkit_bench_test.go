package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// goFiles copies 200 files of Go's standard library into a workspace: every so many of
// those below some directories, in their order.
func goFiles(b *testing.B, to string) {
	b.Helper()
	src := filepath.Join(runtime.GOROOT(), "src") //nolint:staticcheck // the toolchain that builds this test
	var all []string
	for dir := range strings.FieldsSeq("net go encoding crypto database text html image archive compress") {
		err := filepath.WalkDir(filepath.Join(src, dir), func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				all = append(all, path)
			}
			return err
		})
		if err != nil {
			b.Skipf("no source of Go's standard library: %v", err)
		}
	}
	slices.Sort(all)
	for i := range 200 {
		name := all[i*len(all)/200]
		text, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		rest := strings.TrimPrefix(name, src)
		if err := os.MkdirAll(filepath.Join(to, filepath.Dir(rest)), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, rest), text, 0o600); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkToolkit starts a process that opens a box, has 200 files measured in it, and
// ends. The limit of the first analysis is for all of that. Those of the others are the
// figures of the toolkit of the source, on 32 threads: they are for the stages alone
// where it says inside.
func BenchmarkToolkit(b *testing.B) {
	testenv.Need(b, testenv.UserNamespaces, testenv.Bash)
	for _, tt := range []struct {
		tool   string
		inside bool
		limit  time.Duration
	}{
		{"analyze_complexity", false, 150 * time.Millisecond},
		{"analyze_duplicates", true, 84 * time.Millisecond},
		{"analyze_comprehensive", true, 143 * time.Millisecond},
		{"analyze_deep_context", false, time.Second},
	} {
		b.Run(tt.tool, func(b *testing.B) {
			p := newPlace(b)
			goFiles(b, p.ws)
			args := []string{"toolkit", "--workspace", p.ws, "--state", p.state, tt.tool}
			if tt.inside {
				args = append(args, "perf=true", "--format", "json")
			}
			var stages time.Duration
			for b.Loop() {
				out, err := p.command(b.Context(), args...).Output()
				if err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
				if tt.inside {
					stages += stagesIn(b, out)
				}
			}
			took := b.Elapsed()
			if tt.inside {
				took = stages
			}
			b.ReportMetric(float64(took)/float64(b.N)/float64(tt.limit), "of-limit")
		})
	}
}

// stagesIn is how long the stages of a result took.
func stagesIn(b *testing.B, result []byte) (sum time.Duration) {
	b.Helper()
	var v struct {
		Perf []struct {
			MS float64 `json:"ms"`
		} `json:"perf"`
	}
	if err := json.Unmarshal(result, &v); err != nil || len(v.Perf) == 0 {
		b.Fatalf("no stages in %.100s: %v", result, err)
	}
	for _, s := range v.Perf {
		sum += time.Duration(s.MS * float64(time.Millisecond))
	}
	return sum
}
