//go:build quality

package quality

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/graph"
	"belljar.dev/internal/toolkit/code/lex"
)

var update = flag.Bool("update", false, "write internal/toolkit/code/graph/testdata/gonum.json anew")

// task is a graph for testdata/gonum, and answer is what testdata/gonum measures of it.
type task struct {
	Nodes  int
	Links  [][2]int
	Groups []int
}

type answer struct {
	PageRank, Betweenness, Closeness []float64
	Modularity                       float64
	Components, Cycles               int
}

// tasks are random graphs. Each second graph is strongly connected.
func tasks(count, largest int, seed uint64) (all []task) {
	r := rand.New(rand.NewPCG(seed, 22))
	for i := range count {
		n := 3 + r.IntN(largest)
		t := task{Nodes: n}
		links := map[[2]int]bool{}
		for range 1 + r.IntN(3*n) {
			links[[2]int{r.IntN(n), r.IntN(n)}] = true
		}
		for v := range n {
			if delete(links, [2]int{v, v}); i%2 == 0 {
				links[[2]int{v, (v + 1) % n}] = true
			}
			t.Groups = append(t.Groups, r.IntN(1+n/4))
		}
		for l := range links {
			t.Links = append(t.Links, l)
		}
		if len(t.Links) == 0 {
			t.Links = [][2]int{{0, 1}}
		}
		slices.SortFunc(t.Links, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
		all = append(all, t)
	}
	return all
}

// gonum measures graphs in a module of its own, because this module does not depend on
// gonum.
func gonum(t *testing.T, all []task) (answers []answer) {
	t.Helper()
	dir := t.TempDir()
	program, err := os.ReadFile("testdata/gonum/main.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), program, 0o600); err != nil {
		t.Fatal(err)
	}
	var in bytes.Buffer
	for _, c := range all {
		if err := json.NewEncoder(&in).Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	var out []byte
	for _, args := range [][]string{{"mod", "init", "oracle"}, {"get", "gonum.org/v1/gonum@v0.17.0"}, {"run", "."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if args[0] == "run" {
			cmd.Stdin = &in
		}
		var said bytes.Buffer
		cmd.Stderr = &said
		if out, err = cmd.Output(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, said.String())
		}
	}
	lines := json.NewDecoder(bytes.NewReader(out))
	for range all {
		var a answer
		if err := lines.Decode(&a); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	return answers
}

// reaching returns how many other nodes have a path to v. gonum's closeness is 1 divided by
// the sum of their distances, and does not depend on their number.
func reaching(t task, v int) float64 {
	seen := make([]bool, t.Nodes)
	seen[v] = true
	count := 0.0
	for more := true; more; {
		more = false
		for _, l := range t.Links {
			if seen[l[1]] && !seen[l[0]] {
				seen[l[0]], more = true, true
				count++
			}
		}
	}
	return count
}

// TestMetricsEqualGonum checks that PageRank, betweenness, closeness, modularity and
// components are those of gonum.
func TestMetricsEqualGonum(t *testing.T) {
	if *update {
		small := tasks(24, 10, 1)
		var out bytes.Buffer
		for i, a := range gonum(t, small) {
			if err := json.NewEncoder(&out).Encode(struct {
				task
				answer
			}{small[i], a}); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile("../code/graph/testdata/gonum.json", out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := tasks(60, 300, 2)
	worst := 0.0
	for i, want := range gonum(t, all) {
		g := &graph.Graph{}
		for v := range all[i].Nodes {
			g.Nodes = append(g.Nodes, graph.Node{Path: fmt.Sprintf("d%d/%d", all[i].Groups[v], v)})
		}
		for _, l := range all[i].Links {
			g.Links = append(g.Links, graph.Link{From: l[0], To: l[1]})
		}
		m, err := g.Measure(t.Context(), graph.Want{Centrality: true, PageRank: true, Clustering: true, Components: true})
		if err != nil {
			t.Fatal(err)
		}
		off := math.Abs(*m.Modularity - want.Modularity)
		for v := range g.Nodes {
			off = max(off, math.Abs(m.PageRank[v]-want.PageRank[v]), math.Abs(m.Betweenness[v]-want.Betweenness[v])/max(1, want.Betweenness[v]))
			r := reaching(all[i], v)
			off = max(off, math.Abs(m.Closeness[v]-want.Closeness[v]*r*r/float64(len(g.Nodes)-1)))
		}
		if worst = max(worst, off); off > 1e-9 || len(m.Components) != want.Components || len(m.Cycles) != want.Cycles {
			t.Errorf("graph %d: off by %v; %d components and %d cycles, want %d and %d", i, off, len(m.Components), len(m.Cycles), want.Components, want.Cycles)
		}
	}
	t.Logf("%d graphs, off by at most %v", len(all), worst)
}

// listed is what go list prints about a package.
type listed struct {
	Dir, ImportPath                   string
	GoFiles, CgoFiles                 []string
	Imports                           []string
	TestGoFiles, XTestGoFiles         []string
	TestImports, XTestImports         []string
	IgnoredGoFiles, IgnoredOtherFiles []string
}

// Each import between packages of the standard library and of this project is a link, and
// there are no other links.
func TestImportGraphEqualsGoList(t *testing.T) {
	for _, c := range []struct{ name, dir, pattern, mod string }{
		{"standard library", testenv.GoSource(t), "std", "go.mod"},
		{"this project", strings.TrimSpace(output(t, "", "go", "list", "-m", "-f", "{{.Dir}}")), "./...", "go.mod"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := []*code.File{lex.Parse(c.mod, code.Other, readFile(t, c.dir, c.mod))}
			in := json.NewDecoder(strings.NewReader(output(t, c.dir, "go", "list", "-json", c.pattern)))
			want, known := map[string]bool{}, map[string]bool{}
			var all []listed
			for in.More() {
				var p listed
				if err := in.Decode(&p); err != nil {
					t.Fatal(err)
				}
				all, known[p.ImportPath] = append(all, p), true
			}
			for _, p := range all {
				rel, err := filepath.Rel(c.dir, p.Dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, names := range [][]string{p.GoFiles, p.CgoFiles, p.TestGoFiles, p.XTestGoFiles} {
					for _, name := range names {
						at := filepath.ToSlash(filepath.Join(rel, name))
						files = append(files, lex.Parse(at, code.Go, readFile(t, c.dir, at)))
					}
				}
				for _, im := range p.Imports {
					if known[im] {
						want[p.ImportPath+" -> "+im] = true
					}
				}
				for _, im := range append(p.TestImports, p.XTestImports...) {
					if known[im] {
						want[p.ImportPath+" (tests) -> "+im] = true
					}
				}
			}
			g, err := graph.Build(t.Context(), files, graph.Imports)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for _, l := range g.Links {
				got[g.Nodes[l.From].Name+" -> "+g.Nodes[l.To].Name] = true
			}
			for l := range want {
				if !got[l] {
					t.Errorf("missing: %s", l)
				}
			}
			for l := range got {
				if !want[l] {
					t.Errorf("not in go list: %s", l)
				}
			}
			t.Logf("%d packages, %d imports", len(all), len(want))
		})
	}
}

// A function that is reported as dead with high confidence is also dead for deadcode of
// golang.org/x/tools, which knows the types: in this project and in two others.
func TestDeadEqualsDeadcode(t *testing.T) {
	own := strings.TrimSpace(output(t, "", "go", "list", "-m", "-f", "{{.Dir}}"))
	roots := map[string]string{"this project": own}
	for _, m := range []string{"golang.org/x/tools@v0.52.0", "github.com/rogpeppe/go-internal@v1.16.0"} {
		var at struct{ Dir string }
		if err := json.Unmarshal([]byte(output(t, "", "go", "mod", "download", "-json", m)), &at); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir() // a copy, because go list writes a go.sum
		if err := os.CopyFS(dir, os.DirFS(at.Dir)); err != nil {
			t.Fatal(err)
		}
		roots[m] = dir
	}
	all, right := 0, 0
	for name, root := range roots {
		tool := filepath.Join(t.TempDir(), "deadcode")
		build := exec.CommandContext(t.Context(), "go", "install", "golang.org/x/tools/cmd/deadcode@v0.52.0")
		build.Env = append(os.Environ(), "GOBIN="+filepath.Dir(tool), "GOFLAGS=")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, tests := range []bool{true, false} { // without tests, more functions are dead
			high, hit, of := compareDead(t, name, root, tool, tests)
			all, right = all+high, right+hit
			t.Logf("%s, with tests %v: %d of %d of high confidence, deadcode has %d", name, tests, hit, high, of)
		}
	}
	if t.Logf("%d of %d are dead for deadcode", right, all); all < 10 || float64(right) < 0.9*float64(all) {
		t.Errorf("precision %d of %d, want at least 90 %%", right, all)
	}
}

// compareDead compares one project. It returns how many functions are dead with high
// confidence, how many of these deadcode reports, and how many deadcode reports in all.
func compareDead(t *testing.T, name, root, tool string, tests bool) (high, hit, of int) {
	dead := map[string]bool{}
	args := []string{"-generated", "-f", `{{range .Funcs}}{{println .Position.File .Position.Line}}{{end}}`, "./..."}
	if tests {
		args = append([]string{"-test"}, args...)
	}
	for line := range strings.Lines(output(t, root, tool, args...)) {
		if w := strings.Fields(line); len(w) == 2 {
			dead[strings.TrimPrefix(w[0], root+"/")+":"+w[1]] = true
		}
	}
	var files []*code.File
	names := append(filesBelow(t, root, ".go", "testdata", "vendor"), filesBelow(t, root, ".s", "testdata", "vendor")...)
	sort.Strings(names)
	for _, n := range append(names, "go.mod") {
		if !tests && strings.HasSuffix(n, "_test.go") {
			continue
		}
		l := code.Other
		if strings.HasSuffix(n, ".go") {
			l = code.Go
		}
		files = append(files, lex.Parse(n, l, readFile(t, root, n)))
	}
	found, err := graph.Dead(t.Context(), files)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range found {
		if u.Confidence != graph.High {
			continue
		}
		high++
		if dead[fmt.Sprintf("%s:%d", u.Path, u.Line)] {
			hit++
		} else {
			t.Logf("%s: deadcode reaches %s:%d %s", name, u.Path, u.Line, u.Name)
		}
	}
	return high, hit, len(dead)
}
