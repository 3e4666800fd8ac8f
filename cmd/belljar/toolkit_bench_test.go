package main

import (
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// BenchmarkToolkit starts a process that opens a box, has 200 files measured in it, and
// ends. The benchmark of the analyses alone is in internal/toolkit.
func BenchmarkToolkit(b *testing.B) {
	testenv.Need(b, testenv.UserNamespaces, testenv.Bash)
	for _, tt := range []struct {
		tool  string
		limit time.Duration
	}{
		{"analyze_complexity", 150 * time.Millisecond},
		{"analyze_deep_context", time.Second},
	} {
		b.Run(tt.tool, func(b *testing.B) {
			p := newPlace(b)
			testenv.GoFiles(b, p.ws)
			args := []string{"toolkit", "--workspace", p.ws, "--state", p.state, tt.tool}
			for b.Loop() {
				if out, err := p.command(b.Context(), args...).CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(tt.limit), "of-limit")
		})
	}
}
