package shell_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/policies/shell"
)

// Whatever the text is, Analyze returns, stays within its bounds, and returns the same
// twice.
func FuzzAnalyze(f *testing.F) {
	for _, s := range []string{
		"git status", "echo \"$(a `b` 'c')\" > d 2>&1 & <(e)", "a=(1) b[1]=2 ${c:-d} $((e)) {f,g} # h",
		"for x in y; do case z in z) ;; esac; done", "f() { env -S 'a b' timeout 5 c; }; coproc d", "cat <<E\n$(a)\nE",
		"find . -exec a {} + -exec b \\;", "bash -c 'eval \"a b\"'", "[[ a =~ (b) && -v c ]]", "${x@P} ${!y} $'\\x41' @(a)",
		"git -c alias.x=!y -C z push", "xargs -I{} a {}", "a {1..9}{b,c}", "time ! a | time b", "select x in y; do z; done",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := shell.Analyze(text)
		if len(s.Commands) > shell.MaxCommands {
			t.Fatalf("%q: %d commands", text, len(s.Commands))
		}
		size := 0
		for _, c := range s.Commands {
			if c.Start < 0 || c.End > len(text) || c.Start > c.End || c.Line < 0 {
				t.Fatalf("%q: command %q stands at %d to %d, line %d", text, c.Text, c.Start, c.End, c.Line)
			}
			for _, w := range c.Words {
				size += len(w.Text)
			}
		}
		if size > 1<<20+64*len(text) {
			t.Fatalf("%q: %d bytes of words", text, size)
		}
		again, errAgain := shell.Analyze(text)
		if show(s) != show(again) || (err == nil) != (errAgain == nil) {
			t.Fatalf("%q: got %s (%v), then %s (%v)", text, show(s), err, show(again), errAgain)
		}
		// A text behind a comment is read in the same way as without the comment.
		if more, moreErr := shell.Analyze("# x\n" + text); err == nil && moreErr == nil && show(more) != show(s) {
			t.Fatalf("%q behind a comment: got %s, want %s", text, show(more), show(s))
		}
	})
}

// Parsers and their state are not shared between goroutines.
func TestConcurrent(t *testing.T) {
	scripts := []string{"git log $'\\x61' {a,b}", "rm -rf \"$x\" | tee f", "bash -c 'c {d,e} $'\"'\\x66'\"", strings.Repeat("$(", 100), "for f in a b; do c $f; done", "a <<E\n$(b)\nE"}
	want := make([]string, len(scripts))
	for i, script := range scripts {
		s, _ := shell.Analyze(script)
		want[i] = show(s)
	}
	var wg sync.WaitGroup
	for n := range 64 {
		wg.Go(func() {
			for k := range 200 {
				i := (n + k) % len(scripts)
				if s, _ := shell.Analyze(scripts[i]); show(s) != want[i] {
					t.Errorf("%q: got %s, want %s", scripts[i], show(s), want[i])
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkTail reports the 99th percentile over ordinary scripts of up to 2 KB.
func BenchmarkTail(b *testing.B) {
	scripts := []string{
		"git status", "ls -la src | head", "go test ./... 2>&1 | tail -20", "cd /workspace && npm run build",
		`for f in *.go; do gofmt -l "$f"; done`, "timeout 60 make -j4", "grep -rn TODO . | wc -l", "sed -n '1,40p' main.go",
		"cat > f <<'E'\n" + strings.Repeat("some text of a file with $x and no command\n", 45) + "E\ngo build ./...",
		`python3 - <<'E'` + "\n" + strings.Repeat("print('some text of a program')\n", 60) + "E",
		`if [ -f go.mod ]; then go vet ./... && go build -o /tmp/x ./cmd/x; else echo "no module" >&2; exit 1; fi`,
		strings.Repeat("echo \"step $i of the work\" && ./run.sh --name=value $i\n", 20),
	}
	var all []time.Duration
	for b.Loop() {
		script := scripts[len(all)%len(scripts)]
		start := time.Now()
		_, _ = shell.Analyze(script)
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
}

func BenchmarkAnalyze(b *testing.B) {
	body := strings.Repeat("some text of a file with $x and no command\n", 45)
	for _, bb := range []struct{ name, script string }{
		{"simple", "git status"},
		{"pipeline-140B", `for f in a b c; do cat "$f" | head -5; done && go test ./... 2>&1 | tail -20 && echo "$(git log -1 --format=%H)" && cd /workspace/sub`},
		{"chain-51", strings.Repeat("true && ", 50) + "curl evil.example"},
		{"heredoc-2KB", "cat > f <<'E'\n" + body + "E\ngo build ./..."},
		{"commands-2KB", strings.Repeat("timeout 5 git log --oneline -- file; ", 55)},
		{"commands-32KB", strings.Repeat("git log --oneline -- some/file-a; ", 963)},
		{"heredoc-64KB", "cat > f <<'E'\n" + strings.Repeat("some text of a file\n", 3200) + "E"},
		{"crash-600KB", strings.Repeat("$(", 300_000)},
		{"crash-arithmetic-400KB", strings.Repeat("((", 200_000)},
		{"crash-1MB", strings.Repeat("{a,", 350_000)},
		{"crash-quotes-1MB", strings.Repeat("\"$(", 350_000)},
		{"deep-64KB", strings.Repeat("$(\")\"", 13_000)},
		{"deep-keywords-64KB", strings.Repeat("if ", 21_000)},
		{"deep-bang-64KB", "((" + strings.Repeat("!", 65_000)},
		{"deep-quotes-64KB", strings.Repeat("\"$(\\\n", 13_000)},
		{"braces", "a " + strings.Repeat("{1..1000000000}", 4000)},
		{"backticks", "a " + strings.Repeat("`b `", 8000)},
		{"pipes-64KB", strings.Repeat("a|", 32_000) + "a"},
		{"open-quotes-64KB", strings.Repeat("a '", 21_000)},
		{"heredocs-64KB", strings.Repeat("a <<E;", 10_000)},
		{"texts", "eval " + strings.Repeat("'eval '", 9000) + "a"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = shell.Analyze(bb.script)
			}
		})
	}
}
