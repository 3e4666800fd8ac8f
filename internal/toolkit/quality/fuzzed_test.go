//go:build quality

package quality

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

const (
	fuzzedFiles = 100_000 // files of all languages together
	perMegabyte = 50 * time.Millisecond
	// spare is how much longer a single small file may take. The resolution of the kernel's
	// clock and the garbage collector need about as much.
	spare = 3 * time.Millisecond
)

// A hundred thousand files are read without a panic. Each consists of real source with
// parts that were cut, doubled, moved and broken. The reading takes at most 50 ms of
// processor time per megabyte, for all files of a language together and for each file
// alone.
func TestFuzzedFiles(t *testing.T) {
	random := rand.New(rand.NewPCG(20, 26))
	source := testenv.GoSource(t)
	python, pythonNames := pythonFiles(t)
	seeds := map[code.Language][]string{
		code.Go: under(source, filesBelow(t, source, ".go", "testdata", "vendor")), code.Python: under(python, pythonNames), code.Rust: rustFiles(t),
		code.TypeScript: scriptFiles(t, ".ts"), code.TSX: scriptFiles(t, ".tsx"), code.JavaScript: scriptFiles(t, ".js"),
		code.C: cFiles(t), code.CPP: cppFiles(t), code.Java: javaFiles(t), code.Shell: under(source, filesBelow(t, source, ".bash")),
	}
	for language, files := range seeds {
		var texts []string
		for range 60 {
			text, err := os.ReadFile(files[random.IntN(len(files))])
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text[:min(len(text), 16<<10)]))
		}
		bytes, took, worst, slow := 0, time.Duration(0), 0.0, 0
		for range fuzzedFiles / len(seeds) {
			text := mutated(random, texts)
			before := processor()
			lex.Halstead(lex.Parse("a", language, text))
			one := processor() - before
			bytes, took = bytes+len(text), took+one
			if most := spare + perMegabyte*time.Duration(len(text))/1e6; one > most {
				if one = least("a", language, text); one > most {
					slow++
					t.Errorf("%s: %v for %d bytes: %.200q", language, one, len(text), text)
				}
			}
			worst = max(worst, float64(one.Microseconds())/1000)
			if slow > 5 {
				t.Fatal("and so on")
			}
		}
		runtime.GC()
		mean := time.Duration(float64(took) / (float64(bytes) / 1e6)).Round(time.Millisecond / 10)
		t.Logf("%s: %d files, %d MB, %v per MB, the slowest file %.1f ms", language, fuzzedFiles/len(seeds), bytes/1e6, mean, worst)
		if mean > perMegabyte {
			t.Errorf("%s: %v per MB, want at most %v", language, mean, perMegabyte)
		}
	}
}

// under returns the names with the path of their directory.
func under(root string, names []string) (all []string) {
	for _, name := range names {
		all = append(all, filepath.Join(root, name))
	}
	return all
}

// mutated returns one of the texts, changed at random in a few places.
func mutated(random *rand.Rand, texts []string) string {
	units := []string{"(", ")", "[{", "{", "}", "<", ">", "'", "\"", "`", "`${", "/*", "//", "#", "\"\"\"", "f'{", "\\", "\r", "\x00", "\xff", "é", "=>", "r#\"", "<<E\n", "if a {} else "}
	text := texts[random.IntN(len(texts))]
	part := func(of string) (string, int, int) {
		from := random.IntN(len(of) + 1)
		to := min(len(of), from+1+random.IntN(400))
		return of[from:to], from, to
	}
	for range 1 + random.IntN(6) {
		_, from, to := part(text)
		switch random.IntN(5) {
		case 0:
			text = text[:from] + text[to:]
		case 1:
			text = text[:to] + strings.Repeat(text[from:to], random.IntN(8)) + text[to:]
		case 2:
			other, _, _ := part(texts[random.IntN(len(texts))])
			text = text[:from] + other + text[to:]
		case 3:
			text = text[:from] + strings.Repeat(units[random.IntN(len(units))], 1+random.IntN(1<<random.IntN(10))) + text[from:]
		default:
			b := []byte(text)
			for range min(len(b), 20) {
				b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			}
			text = string(b)
		}
	}
	return text
}
