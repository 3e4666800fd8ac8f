//go:build quality

package quality

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

// debianPython is the interpreter for which python3-mccabe is installed. The tests use its
// standard library.
const debianPython = "/usr/bin/python3"

// pythonFiles returns the directory of Python's standard library and its files. The
// environment variable BELLJAR_QUALITY_PYTHON names another directory.
func pythonFiles(t *testing.T) (root string, files []string) {
	t.Helper()
	root = os.Getenv("BELLJAR_QUALITY_PYTHON")
	if root == "" {
		root = output(t, "", debianPython, "-c", "import os; print(os.path.dirname(os.__file__))")
	}
	return root, filesBelow(t, root, ".py")
}

// Functions of Python's standard library have the first and last lines and the parameters
// that Python's own parser reports, and the number that mccabe counts. The number may
// differ only in a function with a statement that mccabe does not know: match, or try with
// except*. mccabe does not count such a statement; here each case and each handler counts,
// and so do the statements within them.
func TestPythonEqualsMccabe(t *testing.T) {
	root, files := pythonFiles(t)
	cmd := exec.CommandContext(t.Context(), debianPython, "testdata/functions.py")
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = root + "/" + f
	}
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v; install python3-mccabe", err)
	}
	want := make(map[string][]string) // lines of the output, by path and first line
	for line := range strings.Lines(string(out)) {
		word := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		path := strings.TrimPrefix(word[0], root+"/")
		key := path + ":" + word[1]
		if word[1] == "refused" {
			key = path
		}
		want[key] = word
	}
	total, places, params, numbers, reasons := 0, 0, 0, 0, map[string]int{}
	for _, name := range files {
		if want[name] != nil {
			continue // Python itself cannot parse the file
		}
		f := lex.Parse(name, code.Python, readFile(t, root, name))
		for _, g := range f.Gaps {
			t.Errorf("%s: %+v", name, g)
		}
		for _, fn := range f.Funcs {
			key := fmt.Sprintf("%s:%d", name, fn.First)
			w := want[key]
			delete(want, key)
			total++
			if w == nil || w[3] != fn.Name || w[2] != strconv.Itoa(fn.Last) {
				places++
				t.Errorf("%s: got %s to %d, want %v", key, fn.Name, fn.Last, w)
				continue
			}
			if w[4] != strconv.Itoa(fn.Params) {
				params++
				t.Errorf("%s: %s: got %d parameters, want %s", key, fn.Name, fn.Params, w[4])
			}
			if w[5] != strconv.Itoa(fn.Cyclomatic) {
				why := reason(f, fn)
				reasons[why]++
				numbers++
				if why == "" {
					t.Errorf("%s: %s: got %d, mccabe counts %s", key, fn.Name, fn.Cyclomatic, w[5])
				}
			}
		}
	}
	for key, w := range want {
		if w[1] != "refused" {
			places++
			t.Errorf("%s: %v was not found", key, w)
		}
	}
	t.Logf("%d files, %d functions: %d with other places, %d with other parameters, %d with other numbers, for %v", len(files), total, places, params, numbers, reasons)
	if total < 5000 || places > 0 || params > 0 || numbers*1000 > total*5 {
		t.Errorf("of %d functions %d have other places, %d other parameters, %d other numbers; want more than 5,000, none, none, and at most 0.5 %%", total, places, params, numbers)
	}
}

// reason returns the statement of a function because of which mccabe counts less; empty if
// there is none.
func reason(f *code.File, fn code.Func) string {
	for i, t := range f.Tokens[fn.Start:fn.End] {
		if t.Kind == code.Keyword {
			switch word := f.Of(t); word {
			case "match":
				return word
			case "except":
				if f.Of(f.Tokens[fn.Start+i+1]) == "*" {
					return "except*"
				}
			}
		}
	}
	return ""
}
