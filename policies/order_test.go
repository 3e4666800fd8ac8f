package policies_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// noPackages leaves out what other packages declare: only calls between the files of
// this one are looked at.
type noPackages struct{}

func (noPackages) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

// The package comment lists the files, and calls run down that list: a reader who goes
// through it never has to turn back.
func TestCallsRunDownTheListOfFiles(t *testing.T) {
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		if name == "doc.go" {
			listed = regexp.MustCompile(`[a-z_]+\.go`).FindAllString(file.Doc.Text(), -1)
		}
	}
	for _, name := range names {
		if slices.Contains(listed, name) == (strings.HasSuffix(name, "_test.go") || name == "doc.go") {
			t.Errorf("%s: doc.go must list each file that has code, and no other", name)
		}
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: noPackages{}, Error: func(error) {}}
	_, _ = config.Check("policies", fset, files, info) // it lacks the other packages
	calls := 0
	for use, what := range info.Uses {
		called, ok := what.(*types.Func)
		if !ok || !called.Pos().IsValid() {
			continue
		}
		from, to := fset.Position(use.Pos()), fset.Position(called.Origin().Pos())
		if from.Filename == to.Filename {
			continue
		}
		calls++
		if slices.Index(listed, from.Filename) > slices.Index(listed, to.Filename) {
			t.Errorf("%s: calls %s of %s, which stands above it in doc.go", from, called.Name(), to.Filename)
		}
	}
	if calls < 900 {
		t.Errorf("found %d calls between files, want more: there is nothing to compare", calls)
	}
	t.Logf("%d calls between %d files", calls, len(files)-1)
}
