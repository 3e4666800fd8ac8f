package house

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

// ordered matches the sentence of a package comment before the list of files.
var ordered = regexp.MustCompile(`files, each calling (?:only )?those\s+below it:\n`)

// unlisted is the most files that a package may have without such a list.
const unlisted = 20

// climbs is the number of calls in a package that go up such a list. The package comments
// give the reasons.
var climbs = map[string]int{"browser/page": 1, "mcp": 1, "policies/shell": 4, "sandbox/protect": 1}

// rest stands in a list for all files that it does not name. No two of these call each other.
const rest = "*.go"

// A package of many files lists them in its comment, in such an order that calls go down the
// list; *.go stands for those that it does not name. A reader of the list never has to turn back.
func TestCallsRunDownTheListOfFiles(t *testing.T) {
	files := make(map[string][]string) // names of the files by directory
	for _, name := range sources(t) {
		dir, file := filepath.Split(filepath.ToSlash(name))
		files[strings.TrimSuffix(dir, "/")] = append(files[strings.TrimSuffix(dir, "/")], file)
	}
	for dir, names := range files {
		fset := token.NewFileSet()
		var listed []string
		var trees []*ast.File
		for _, name := range names {
			tree, err := parser.ParseFile(fset, filepath.Join(root, dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			trees = append(trees, tree)
			if at := ordered.FindStringIndex(tree.Doc.Text()); name == "doc.go" && at != nil {
				listed = listIn(tree.Doc.Text()[at[1]:])
			}
		}
		if listed == nil {
			if len(names) > unlisted {
				t.Errorf("%s: doc.go must list its %d files, each calling those below it; more than %d are too many to find one's way in", dir, len(names), unlisted)
			}
			continue
		}
		for _, name := range names {
			if name != "doc.go" && placeIn(listed, name) < 0 || name == "doc.go" && slices.Contains(listed, name) {
				t.Errorf("%s/%s: doc.go must list each file that has code, and no other", dir, name)
			}
		}
		for _, name := range listed {
			if name != rest && !slices.Contains(names, name) {
				t.Errorf("%s: doc.go lists %s, which does not exist", dir, name)
			}
		}
		total, up := ascents(fset, trees, listed)
		if total == 0 {
			t.Errorf("%s: no call between its files was found", dir)
		}
		if len(up) != climbs[dir] {
			t.Errorf("%s: %d of %d calls do not run down the list of doc.go, want %d:\n%s", dir, len(up), total, climbs[dir], strings.Join(up, "\n"))
		}
	}
}

// listIn returns the files of the list at the beginning of a text.
func listIn(text string) (all []string) {
	for line := range strings.Lines(text) {
		if line != "\n" && !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, " ") {
			break
		}
		all = append(all, regexp.MustCompile(`(\*|[a-z0-9_]+)\.go`).FindAllString(line, -1)...)
	}
	return all
}

// placeIn returns the place of a file in a list, or -1.
func placeIn(listed []string, file string) int {
	if at := slices.Index(listed, file); at >= 0 {
		return at
	}
	return slices.Index(listed, rest)
}

// ascents returns the number of calls between the files of a package, and the calls that go
// up the list of files, or from one file of the rest to another.
func ascents(fset *token.FileSet, trees []*ast.File, listed []string) (total int, up []string) {
	_, objects := usesIn(fset, trees)
	for use, what := range objects {
		called, ok := what.(*types.Func)
		if !ok || !called.Pos().IsValid() {
			continue
		}
		from, to := fset.Position(use.Pos()), filepath.Base(fset.Position(called.Origin().Pos()).Filename)
		file := filepath.Base(from.Filename)
		if file == to {
			continue
		}
		total++
		if placeIn(listed, file) >= placeIn(listed, to) {
			up = append(up, from.String()+": calls "+called.Name()+" of "+to)
		}
	}
	slices.Sort(up)
	return total, up
}

// usesIn type-checks the files of one package without its imports. It returns the package,
// and the object of each name. Errors are ignored, because the other packages are missing.
func usesIn(fset *token.FileSet, trees []*ast.File) (*types.Package, map[*ast.Ident]types.Object) {
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: noPackages{}, Error: func(error) {}}
	checked, _ := config.Check("p", fset, trees, info)
	return checked, info.Uses
}

// noPackages is an importer that imports nothing: these tests check one package at a time.
type noPackages struct{}

func (noPackages) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }
