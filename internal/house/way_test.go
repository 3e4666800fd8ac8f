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

// Bounds of the code on the way of a call, which one reader should be able to read.
const (
	wayLines = 600
	wayFiles = 8
)

// indirect contains the functions on the way that are called through a field or a table,
// and the name that their caller uses.
var indirect = map[string]string{
	"bash":      "handle",   // field of a tool
	"startCold": "starters", // table of the ways to start a command
}

// station is a function on the way of a call.
type station struct{ file, name string }

var (
	wayHead = regexp.MustCompile("(?s)\n## The way of one `tools/call Bash`\n.*?```\n(.*?)```")
	wayLine = regexp.MustCompile(`^(\S+\.go) +([A-Za-z, ]+)$`)
)

// stations returns the functions that docs/architecture.md lists as the way of a call.
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

// The way of a call is a chain: each function on it is called by a function above it. The
// chain is short enough to be read in one go.
func TestTheWayOfACallIsShort(t *testing.T) {
	all := stations(t)
	lines, files := 0, make(map[string]bool)
	called := make(map[string]bool) // names that the stations so far call
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

// function returns the number of lines of a function without its comment, and the names of
// the functions that it may call. Every name in its body counts, also in function literals.
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
