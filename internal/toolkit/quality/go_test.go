//go:build quality

package quality

import (
	"bufio"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

// The programs that count the metrics of Go.
const (
	gocyclo  = "github.com/fzipp/gocyclo/cmd/gocyclo@v0.6.0"
	gocognit = "github.com/uudashr/gocognit/cmd/gocognit@v1.2.1"
)

// Each function of the standard library has the numbers that gocyclo and gocognit count.
// Functions without a body are left out here: both programs count 1 and 0 for them.
// gocognit does not count variables that are functions.
func TestGoEqualsGocycloAndGocognit(t *testing.T) {
	root := testenv.GoSource(t)
	files := filesBelow(t, root, ".go", "testdata", "vendor")
	cyclomatic := counted(t, root, append([]string{gocyclo}, files...)...)
	cognitive := counted(t, root, append([]string{gocognit, "-over", "-1"}, files...)...)
	total, gaps, unequal := 0, 0, 0
	for _, name := range files {
		f := lex.Parse(name, code.Go, readFile(t, root, name))
		gaps += len(f.Gaps)
		for _, fn := range f.Funcs {
			key := fmt.Sprintf("%s:%d %s", name, fn.First, fn.Label)
			total++
			if a, b := take(cyclomatic, key), take(cognitive, key); a != fn.Cyclomatic || b != fn.Cognitive && b >= 0 {
				unequal++
				t.Errorf("%s: got %d and %d, want %d and %d", key, fn.Cyclomatic, fn.Cognitive, a, b)
			}
		}
	}
	for key, n := range cognitive {
		if n[0] != 0 {
			t.Errorf("%s: not found; gocognit counts %d", key, n)
		}
	}
	for key, n := range cyclomatic {
		for _, n := range n {
			if n != 1 {
				t.Errorf("%s: not found; gocyclo counts %d", key, n)
			}
		}
	}
	if total < 40000 || gaps > 0 {
		t.Errorf("%d functions and %d gaps, want more than 40,000 and none", total, gaps)
	}
	t.Logf("%d functions, of which %d are unequal", total, unequal)
}

// TestGoGolden checks that the golden file of the ordinary tests contains what both
// programs count today.
func TestGoGolden(t *testing.T) {
	const dir = "../code/lex/testdata"
	got := make(map[string]int)
	for _, line := range strings.Split(strings.TrimSpace(readFile(t, dir, "metrics.golden")), "\n") {
		words := strings.Fields(line)
		n, err := strconv.Atoi(words[3])
		if err != nil {
			t.Fatal(err)
		}
		got["metrics.go:"+words[0]+" "+words[1]+" "+words[2]] = n
	}
	want := make(map[string]int)
	for key, n := range counted(t, dir, gocyclo, "metrics.go") {
		want[key+" cyclomatic"] = n[0]
	}
	for key, n := range counted(t, dir, gocognit, "-over", "-1", "metrics.go") {
		want[key+" cognitive"] = n[0]
	}
	if !maps.Equal(got, want) {
		t.Errorf("metrics.golden has\n%v\nwant\n%v", got, want)
	}
}

// The tokens of each file of the standard library are those of Go's own scanner.
func TestGoTokens(t *testing.T) {
	root := testenv.GoSource(t)
	total := 0
	for _, name := range filesBelow(t, root, ".go", "vendor") {
		text := readFile(t, root, name)
		f := lex.Parse(name, code.Go, text)
		files := token.NewFileSet()
		file := files.AddFile(name, -1, len(text))
		var in scanner.Scanner
		in.Init(file, []byte(text), nil, scanner.ScanComments)
		for _, got := range f.Tokens {
			pos, tok, lit := in.Scan()
			for tok == token.SEMICOLON && lit == "\n" {
				pos, tok, lit = in.Scan()
			}
			if in.ErrorCount > 0 {
				break // a file in testdata that is not Go
			}
			want := code.Operator
			switch {
			case tok == token.COMMENT:
				want = code.Comment
			case tok == token.STRING || tok == token.CHAR:
				want = code.String
			case tok == token.IDENT:
				want = code.Name
			case tok.IsLiteral():
				want = code.Number
			case tok.IsKeyword():
				want = code.Keyword
			}
			if lit == "" {
				lit = tok.String()
			}
			total++
			text := strings.ReplaceAll(f.Of(got), "\r", "")
			if int(got.Start) != file.Offset(pos) || got.Kind != want || text != strings.ReplaceAll(lit, "\r", "") {
				t.Errorf("%s:%d: got %q at %d, want %s %q at %d", name, got.Line, text, got.Start, tok, lit, file.Offset(pos))
				break
			}
			if line := file.PositionFor(pos, false).Line; line != int(got.Line) {
				t.Errorf("%s: got line %d of %q, want %d", name, got.Line, text, line)
				break
			}
		}
	}
	t.Logf("%d tokens", total)
}

// counted runs a program that prints a number, the package, the function and the place of
// each function. It returns the numbers by function.
func counted(t *testing.T, dir string, program ...string) map[string][]int {
	all := make(map[string][]int)
	lines := bufio.NewScanner(strings.NewReader(output(t, dir, "go", append([]string{"run"}, program...)...)))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 4 {
			t.Fatalf("%s: %q", program[0], lines.Text())
		}
		n, err := strconv.Atoi(words[0])
		if err != nil {
			t.Fatal(err)
		}
		place := words[3][:strings.LastIndexByte(words[3], ':')]
		key := strings.TrimPrefix(place, "./") + " " + words[2]
		all[key] = append(all[key], n)
	}
	return all
}

// take removes the first number of a key and returns it; -1 if there is none.
func take(all map[string][]int, key string) int {
	n := all[key]
	if len(n) == 0 {
		return -1
	}
	if all[key] = n[1:]; len(n) == 1 {
		delete(all, key)
	}
	return n[0]
}

// output returns what a program prints, without the last line end.
func output(t testing.TB, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	var faults strings.Builder
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if _, ended := err.(*exec.ExitError); err != nil && (!ended || len(out) == 0) {
		t.Fatalf("%s %.200s: %v\n%s", program, strings.Join(args, " "), err, faults.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// filesBelow returns the files below a directory whose names have the given end. It leaves
// out directories whose name is in but, or begins with a dot or an underscore.
func filesBelow(t testing.TB, root, end string, but ...string) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." {
			for _, b := range but {
				if d.Name() == b {
					return fs.SkipDir
				}
			}
			if d.Name()[0] == '.' || d.Name()[0] == '_' {
				return fs.SkipDir
			}
		}
		if d.Type().IsRegular() && strings.HasSuffix(name, end) {
			all = append(all, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readFile(t testing.TB, root, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
