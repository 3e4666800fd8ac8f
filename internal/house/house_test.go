package house

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the top of the tree, relative to this package.
const root = "../.."

// files returns all files of the project, relative to the top of the tree. It leaves out
// .git, bin, node_modules, and the results of builds and tests.
func files(t *testing.T) []string {
	t.Helper()
	skip := []string{".git", "bin", "node_modules"}
	var all []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir() && slices.Contains(skip, name):
			return filepath.SkipDir
		case d.Type().IsRegular() && name != ".git" && name != "belljar" && !strings.HasSuffix(name, ".test") && !strings.HasSuffix(name, ".prof"):
			all = append(all, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sources returns the Go files of all packages, without tests.
func sources(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata/") {
			continue
		}
		if !strings.Contains(read(t, name), "//go:build ignore") {
			all = append(all, name)
		}
	}
	return all
}

// parsed returns the syntax tree of a file.
func parsed(t *testing.T, fset *token.FileSet, file string, text any) *ast.File {
	t.Helper()
	tree, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestEveryPackageHasItsComment(t *testing.T) {
	comments := make(map[string]int) // number of package comments by directory
	for _, name := range sources(t) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Error(err)
			continue
		}
		dir := filepath.Dir(name)
		comments[dir] += 0
		if file.Doc == nil {
			continue
		}
		comments[dir]++
		want := "Package " + file.Name.Name + " "
		if file.Name.Name == "main" {
			want = "Command " + filepath.Base(dir) + " "
		}
		if !strings.HasPrefix(file.Doc.Text(), want) {
			t.Errorf("%s: the package comment must start with %q", name, want)
		}
	}
	for dir, n := range comments {
		if n != 1 {
			t.Errorf("%s: got %d package comments, want 1", dir, n)
		}
	}
}

// roomRow matches a row of the table of rooms in docs/architecture.md: the package, its
// purpose, and the packages of belljar that it imports.
var roomRow = regexp.MustCompile(`(?m)^\| \[([a-z0-9/-]+)\]\(\.\./[a-z0-9/-]+\) \| [^|]+ \| ([^|]+) \|$`)

// The table of rooms is exactly the import graph. .golangci.yml checks the same for each
// file, and also the imports of other modules.
func TestArchitectureIsTheImportGraph(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	rooms, _, _ := strings.Cut(string(text), "\n## Facts and grant")
	said := make(map[string]string)
	for _, m := range roomRow.FindAllStringSubmatch(rooms, -1) {
		if _, twice := said[m[1]]; twice {
			t.Errorf("docs/architecture.md has two rows for %s", m[1])
		}
		said[m[1]] = m[2]
	}
	imports := make(map[string][]string)
	for _, name := range sources(t) {
		from := filepath.Dir(name)
		if strings.HasPrefix(from, "scripts") {
			continue // these have their own modules
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			continue
		}
		imports[from] = append(imports[from], nil...)
		for _, spec := range file.Imports {
			if path, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "belljar.dev/"); ours {
				imports[from] = append(imports[from], path)
				if spec.Name != nil {
					t.Errorf("%s imports %s as %s: a package that needs another name has a wrong one", name, path, spec.Name)
				}
			}
		}
	}
	for from, all := range imports {
		slices.Sort(all)
		want := cmp.Or(strings.Join(slices.Compact(all), ", "), "no other room")
		if got, known := said[from]; !known {
			t.Errorf("docs/architecture.md has no row for %s, which imports %s", from, want)
		} else if got != want {
			t.Errorf("docs/architecture.md: %s imports\n%s, and the row says\n%s", from, want, got)
		}
		delete(said, from)
	}
	for name := range said {
		t.Errorf("docs/architecture.md has a row for %s, which is not a package", name)
	}
}

// The table of rooms contains the import of internal/conformance by cmd/belljar. Only the
// belljar of the conformance suite has this import; the released binary has none of its
// tools.
func TestFixturesNeedTheirBuildTag(t *testing.T) {
	found := 0
	for _, name := range sources(t) {
		text := read(t, name)
		if !strings.Contains(text, `"belljar.dev/internal/conformance"`) {
			continue
		}
		found++
		if !strings.HasPrefix(text, "//go:build conformance\n") {
			t.Errorf("%s imports internal/conformance without the build tag conformance", name)
		}
	}
	if found == 0 {
		t.Error("nothing imports internal/conformance, so nothing was looked at")
	}
}

func TestNoDependencyInExportedSignatures(t *testing.T) {
	for _, name := range sources(t) {
		if strings.HasPrefix(filepath.ToSlash(name), "internal/mcptest/") {
			continue // code for tests with the sdk's client
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		foreign := make(map[string]string) // path by local name
		for _, spec := range file.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			first, _, _ := strings.Cut(path, "/")
			if !strings.Contains(first, ".") || strings.HasPrefix(path, "belljar.dev/") {
				continue
			}
			local := filepath.Base(path)
			if spec.Name != nil {
				local = spec.Name.Name
			}
			foreign[local] = path
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() || fn.Recv != nil && !exportedReceiver(fn.Recv) {
				continue
			}
			ast.Inspect(fn.Type, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); ok && foreign[x.Name] != "" {
					t.Errorf("%s: %s shows a type of %s to other rooms", name, fn.Name.Name, foreign[x.Name])
				}
				return true
			})
		}
	}
}

// exportedReceiver reports whether a method belongs to an exported type.
func exportedReceiver(recv *ast.FieldList) bool {
	exported := false
	ast.Inspect(recv, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.IsExported() {
			exported = true
		}
		return true
	})
	return exported
}

// ownPaths matches paths of a developer's machine. The pattern is put together from parts
// so that this file does not match it.
var ownPaths = regexp.MustCompile(`/(?:wor` + `k|far` + `m|hom` + `e/[a-z]+|Use` + `rs/[A-Za-z]+)/`)

// anybody are the home directories that examples use.
var anybody = []string{"/home/u/", "/home/me/", "/home/user/", "/Users/me/"}

// undated matches a comment that starts with a task for later.
var undated = regexp.MustCompile(`(?://|#|<!--)\s*(?:TODO|FIXME|XXX)\b`)

// aboutTasks reports whether TODO comments are the subject of a file: the toolkit finds
// them in other people's code.
func aboutTasks(name string) bool {
	return strings.HasPrefix(name, "internal/toolkit/code/debt/") || strings.HasPrefix(name, "internal/toolkit/") && strings.HasSuffix(name, "_test.go")
}

func TestNothingStrayStandsInTheTree(t *testing.T) {
	dated := regexp.MustCompile(`\d{4}-\d{2}-\d{2}`)
	for _, name := range files(t) {
		text := read(t, name)
		if strings.Contains(text[:min(len(text), 8000)], "\x00") {
			continue
		}
		n := 0
		for line := range strings.Lines(text) {
			n++
			for rest := line; rest != ""; {
				at := ownPaths.FindStringIndex(rest)
				if at == nil {
					break
				}
				if m := rest[at[0]:at[1]]; !slices.Contains(anybody, m) {
					t.Errorf("%s:%d: %q is a path of one machine", name, n, m)
				}
				rest = rest[at[1]-1:] // the slash at the end of one path may begin the next path
			}
			if undated.MatchString(line) && !dated.MatchString(line) && !aboutTasks(name) {
				t.Errorf("%s:%d: a task without a date or decision file: %s", name, n, strings.TrimSpace(line))
			}
		}
	}
}

func TestScriptsAreExecutable(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(root, "scripts", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(scripts, filepath.Join(root, ".ci", "run")) {
		info, err := os.Stat(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0o111 {
			t.Errorf("%s has mode %v: want it executable for all", path, info.Mode().Perm())
		}
	}
}

func TestTheBinaryNeedsNoCgo(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{if .CgoFiles}}{{.ImportPath}}{{end}}", "../../cmd/belljar")
	list.Stderr = os.Stderr // go list also reports its downloads there
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		// The standard library has pure Go versions of its cgo files.
		if first, _, _ := strings.Cut(pkg, "/"); strings.Contains(first, ".") {
			t.Errorf("%s has cgo files: the binary must be static", pkg)
		}
	}
}

// unfiltered contains the files of the command that may write to a terminal without the
// filter, each with the reason.
var unfiltered = map[string]string{
	"cmd/belljar/screen.go":    "the terminal that run and a form stand on",
	"cmd/belljar/run.go":       "a command's own output, on the terminal of who started it",
	"cmd/belljar/table.go":     "nothing; it asks for the width of the terminal",
	"cmd/belljar/auditplay.go": "a recording, of which play leaves out what does more than draw",
}

// The output of agents and pages reaches a terminal only through the writer that main
// installs.
func TestCommandsPrintThroughOneWriter(t *testing.T) {
	for _, name := range sources(t) {
		if !strings.HasPrefix(name, "cmd/belljar/") {
			continue
		}
		text := read(t, name)
		if name != "cmd/belljar/main.go" && (strings.Contains(text, "os.Stdout") || strings.Contains(text, "os.Stderr")) {
			t.Errorf("%s names os.Stdout or os.Stderr: print to what the command has, as OutOrStdout", name)
		}
		if unfiltered[name] == "" && strings.Contains(text, "printable.Raw") {
			t.Errorf("%s writes to a terminal unfiltered, and is not among those that may", name)
		}
	}
	if text := read(t, "cmd/belljar/main.go"); !strings.Contains(text, "root.SetOut(out)") || !strings.Contains(text, "out = printable.NewWriter(out)") {
		t.Error("cmd/belljar/main.go gives the commands a terminal without the writer between")
	}
}
