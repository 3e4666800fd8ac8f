package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The bounds of what a reader of the way of a call has to read.
const (
	wayLines = 600
	wayFiles = 8
)

// indirect are the functions on the way that a field or a table leads to, by their names. The
// value is what is called in their place.
var indirect = map[string]string{
	"bash":      "handle",   // of a tool
	"startCold": "starters", // the ways to start a command
}

// station is a function through which a call goes.
type station struct{ file, name string }

var (
	wayHead = regexp.MustCompile("(?s)\n## The way of one `tools/call Bash`\n.*?```\n(.*?)```")
	wayLine = regexp.MustCompile(`^(\S+\.go) +([A-Za-z, ]+)$`)
)

// stations are the functions that docs/architecture.md lists as the way of a call.
func stations(t *testing.T) (all []station) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	list := wayHead.FindSubmatch(text)
	if list == nil {
		t.Fatal("docs/architecture.md does not list the way of a call")
	}
	for line := range strings.Lines(string(list[1])) {
		m := wayLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			t.Errorf("docs/architecture.md: %q is not a file with its functions", line)
			continue
		}
		for name := range strings.SplitSeq(m[2], ",") {
			all = append(all, station{m[1], strings.TrimSpace(name)})
		}
	}
	return all
}

// The way of a call is a chain: each function on it is called by one above it. It can be
// read in one sitting.
func TestTheWayOfACallIsShort(t *testing.T) {
	all := stations(t)
	lines, files := 0, make(map[string]bool)
	called := make(map[string]bool) // by the stations so far
	for i, s := range all {
		size, calls, ok := function(t, s)
		if !ok {
			t.Errorf("%s does not have the function %s, which docs/architecture.md names", s.file, s.name)
			continue
		}
		if i > 0 && !called[s.name] && !called[indirect[s.name]] {
			t.Errorf("%s of %s is called by no function above it in docs/architecture.md", s.name, s.file)
		}
		for _, name := range calls {
			called[name] = true
		}
		lines, files[s.file] = lines+size, true
	}
	t.Logf("the way of a call has %d functions, %d lines, %d files", len(all), lines, len(files))
	if lines > wayLines || len(files) > wayFiles {
		t.Errorf("the way of a call has %d lines in %d files, want at most %d in %d", lines, len(files), wayLines, wayFiles)
	}
}

// function returns the lines of a function, its comment not counted, and the names of what
// it calls, or has others call. A literal of a function counts as a call of its names.
func function(t *testing.T, s station) (lines int, calls []string, ok bool) {
	t.Helper()
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, filepath.Join(root, filepath.FromSlash(s.file)), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return 0, nil, false
	}
	for _, decl := range tree.Decls {
		f, isFunc := decl.(*ast.FuncDecl)
		if !isFunc || f.Name.Name != s.name || f.Body == nil {
			continue
		}
		ok = true
		lines += fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if id, isName := n.(*ast.Ident); isName {
				calls = append(calls, id.Name)
			}
			return true
		})
	}
	return lines, calls, ok
}
