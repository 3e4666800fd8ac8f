//go:build quality

package quality

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

// Texts that are hard to read take at most 2.5 times as long if they are twice as long, and
// at most half a second per megabyte. A tenth of a second is added to the first limit,
// because memory that is allocated for the first time costs more for a longer text.
func TestTimeGrowsAsTheTextDoes(t *testing.T) {
	languages := map[code.Language]string{
		code.Go: "a.go", code.Python: "a.py", code.Rust: "a.rs", code.TypeScript: "a.ts", code.TSX: "a.tsx", code.JavaScript: "a.js",
		code.C: "a.c", code.CPP: "a.cc", code.Java: "a.java", code.Shell: "a.sh", code.Other: "a.lua",
	}
	for _, unit := range []string{
		"(", ")", "[", "[{", "{", "}", "<", ">", "'", "\"", "`", "`${", "/", "/[/", "/*", "/*/", "//", "#", "#{", "r#\"", "\"\"\"", "f'{", "f'{a:{b:", "\\", "\\\n", "\r", "\n", " ", "\x00a", "é",
		"a.", "a(", "a,", "a b ", "a<b>", "<a>", "</a>", "<a b={", "1.", "0x", "if a: ", "if a {} else ", "if (a) ", "else ", "lambda: ", "a && b || ", "a ? b : ", "a => ",
		"def f(a):", "class A(", "class A {", "match a:\n", "case _:", "import a,", "@", "x = ", "fn f() {", "impl A for ", "func f() {", "func f()\n", "function f() {", "int f() {", "template<", "#if a\n", "#define a b\\\n", "public A f() {", "new A() {", "async ", "let a = ",
	} {
		for language, path := range languages {
			size := 512 << 10
			small := least(path, language, strings.Repeat(unit, size/len(unit)))
			large := least(path, language, strings.Repeat(unit, 4*size/len(unit)))
			if large > small*25/4+100*time.Millisecond {
				t.Errorf("%s: %q: %v for 512 KiB, %v for 2 MiB", language, unit, small, large)
			}
			if large > time.Second {
				t.Errorf("%s: %q: %v for 2 MiB", language, unit, large)
			}
		}
	}
}

// least returns the least processor time of two readings of a text, without the time of the
// garbage collector.
func least(path string, language code.Language, text string) time.Duration {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	best := time.Hour
	for range 2 {
		runtime.GC()
		before := processor()
		lex.Halstead(lex.Parse(path, language, text))
		best = min(best, processor()-before)
	}
	return best
}

// processor returns the processor time that this process has used.
func processor() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkGo compares the processor time for two hundred files of the standard library
// with that of gocyclo and gocognit together. It reports both times and their ratio.
func BenchmarkGo(b *testing.B) {
	bin := b.TempDir()
	for _, program := range []string{gocyclo, gocognit} {
		cmd := exec.CommandContext(b.Context(), "go", "install", program)
		cmd.Env = append(os.Environ(), "GOBIN="+bin)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	root := testenv.GoSource(b)
	all := filesBelow(b, root, ".go", "vendor", "testdata")
	var files []string
	size := 0
	for i := 0; i < len(all) && len(files) < 200; i += len(all) / 200 {
		files = append(files, all[i])
		size += len(readFile(b, root, all[i]))
	}
	b.SetBytes(int64(size))
	var own, others time.Duration
	for b.Loop() {
		before := processor()
		for _, name := range files {
			f := lex.Parse(name, code.Go, readFile(b, root, name))
			if lex.Halstead(f); len(f.Funcs) == 0 && len(f.Gaps) > 0 {
				b.Fatal(f.Gaps)
			}
		}
		own += processor() - before
		b.StopTimer()
		for _, program := range []string{"gocyclo", "gocognit"} {
			cmd := exec.CommandContext(b.Context(), filepath.Join(bin, program), files...)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			others += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		}
		b.StartTimer()
	}
	n := float64(b.N) * float64(time.Millisecond)
	b.ReportMetric(float64(own)/n, "cpu-ms/op")
	b.ReportMetric(float64(others)/n, "others-cpu-ms/op")
	ratio := float64(own) / float64(others)
	b.ReportMetric(ratio, "ratio")
	if ratio > 0.6 {
		b.Errorf("%.2f of the time of gocyclo and gocognit, want at most 0.6", ratio)
	}
}
