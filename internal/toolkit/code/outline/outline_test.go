package outline

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/graph"
	"belljar.dev/internal/toolkit/code/lex"
)

func full(t testing.TB, files []*code.File) *graph.Graph {
	t.Helper()
	g, err := graph.Build(t.Context(), files, graph.Full)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func outlined(t testing.TB, files []*code.File, tokens int, seeds ...string) Outline {
	t.Helper()
	o, err := mapOf(t.Context(), files, full(t, files), tokens, seeds...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func small() []*code.File {
	return []*code.File{
		lex.Parse("go.mod", code.Other, "module m\n"),
		lex.Parse("a.go", code.Go, "package m\n\nfunc one() { help() }\nfunc two() { help() }\nfunc three(\n\ta int) { help() }\n"),
		lex.Parse("x/y/help.go", code.Go, "package y\n\n// T is.\ntype T struct {\n\ta int\n}\n"),
		lex.Parse("b.go", code.Go, "package m\nfunc help() {\n}\n"),
		lex.Parse("b_test.go", code.Go, "package m\nfunc TestX() { help() }\n"),
	}
}

func TestMap(t *testing.T) {
	o := outlined(t, small(), 1000)
	want := `./
  a.go
    3 func one() { help() }
    4 func two() { help() }
    5 func three(a int) { help() }
  b.go
    2 func help()
x/y/
  help.go
    4 type T struct
`
	if o.Text != want || o.Symbols != 5 || o.Left != 0 || o.FilesLeft != 0 {
		t.Errorf("got %+v:\n%s\nwant\n%s", o, o.Text, want)
	}
	// With little room, the text contains the function that the others call.
	o = outlined(t, small(), 17)
	if want := "./\n  b.go\n    2 func help()\n(4 more symbols; 2 more files)\n"; o.Text != want || o.Symbols != 1 || o.Left != 4 || o.FilesLeft != 2 {
		t.Errorf("got %+v:\n%s\nwant\n%s", o, o.Text, want)
	}
	// With a seed, the text contains the symbols that the seed depends on.
	if o = outlined(t, small(), 23, "one"); !strings.Contains(o.Text, "func one") || strings.Contains(o.Text, "func two") {
		t.Errorf("from the seed one: got\n%s", o.Text)
	}
}

// A symbol on which only tests depend is not the most important, and a symbol that only its
// own file can name is less important than one that others can name.
func TestMapWithoutTests(t *testing.T) {
	files := []*code.File{
		lex.Parse("go.mod", code.Other, "module m\n"),
		lex.Parse("a.go", code.Go, "package m\n\nfunc Used() { inner() }\n\nfunc user() { Used() }\n\nfunc inner() {}\n\nfunc OnlyTested() {}\n"),
		lex.Parse("a_test.go", code.Go, "package m\n\nfunc TestA() { OnlyTested() }\nfunc TestB() { OnlyTested() }\nfunc TestC() { OnlyTested() }\n\ntype fake struct{}\n"),
		lex.Parse("ui/a.test.ts", code.TypeScript, "export type Fixture = string\nexport function build(f: Fixture) { return f }\n"),
	}
	o := outlined(t, files, 20)
	if want := "./\n  a.go\n    3 func Used() { inner() }\n(3 more"; !strings.HasPrefix(o.Text, want) {
		t.Errorf("got %+v, want %s", o, want)
	}
	if o = outlined(t, files, 1000); strings.Contains(o.Text, "fake") || strings.Contains(o.Text, "ui/") || o.Symbols != 4 {
		t.Errorf("got %+v, want no symbol of a test", o)
	}
}

// A declaration is read to its end, and the declaration of a method names the method's
// type.
func TestDeclarations(t *testing.T) {
	o := outlined(t, []*code.File{lex.Parse("h.py", code.Python, "class Headers:\n    def update(\n        self,\n        other: dict,\n    ) -> None:\n        pass\n\n    def of(self, headers: \"Headers\"): pass\n")}, 1000)
	want := "./\n  h.py\n    1 class Headers:\n    2 Headers: def update(self, other: dict) -> None:\n    8 def of(self, headers: \"Headers\"): pass\n"
	if o.Text != want {
		t.Errorf("got\n%s\nwant\n%s", o.Text, want)
	}
}

// The text is never longer than the budget, more tokens show no fewer symbols, and the
// same project gives the same text.
func TestMapFits(t *testing.T) {
	var files []*code.File
	for i := range 40 {
		files = append(files, lex.Parse(fmt.Sprintf("d%d/päth %d.go", i%7, i), code.Go, fmt.Sprintf("package p\nfunc f%d() { f%d() }\nfunc g%d(a, b, c int) error { f%d(); return nil }\ntype T%d struct{}\n", i, i*7%40, i, i*3%40, i)))
	}
	before := 0
	for tokens := -5; tokens < 2000; tokens += 7 {
		o, again := outlined(t, files, tokens), outlined(t, files, tokens)
		if len(o.Text) > max(0, tokens)*CharsPerToken || o.Tokens > max(0, tokens) {
			t.Fatalf("%d bytes for %d tokens", len(o.Text), tokens)
		}
		if o != again {
			t.Fatalf("two texts of %d tokens differ", tokens)
		}
		if o.Symbols < before-2 { // a longer line may take the room of two others
			t.Fatalf("%d symbols in %d tokens, and %d in fewer", o.Symbols, tokens, before)
		}
		if o.Symbols+o.Left != 120 {
			t.Fatalf("%d and %d symbols, want 120", o.Symbols, o.Left)
		}
		before = o.Symbols
	}
}

// Each changed line changes the part of the map that depends on it.
func TestOneLineChangesTheMap(t *testing.T) {
	before := outlined(t, small(), 1000)
	files := small()
	files[3] = lex.Parse("b.go", code.Go, "package m\nfunc help() {\n}\nfunc more() {}\n")
	after := outlined(t, files, 1000)
	if after.Symbols != before.Symbols+1 || after.Text == before.Text || after.Tokens <= before.Tokens {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if few := outlined(t, files, 17); few.Left != 5 {
		t.Errorf("left out %d, want 5", few.Left)
	}
	files = append(files, lex.Parse("z/z.go", code.Go, "package z\nfunc z() {}\n"))
	if few := outlined(t, files, 17); few.FilesLeft != 3 {
		t.Errorf("left out %d files, want 3", few.FilesLeft)
	}
}

func TestHostileNames(t *testing.T) {
	name := "a\n\x1b[2J\u202e\"]; click n0 href \"javascript:x\" <b>`&#"
	g := &graph.Graph{Nodes: []graph.Node{{Kind: "function", Name: name, Path: name + ".py", Line: 99}, {Kind: "type", Name: strings.Repeat("long", 1000), Path: "b.py"}}, Links: []graph.Link{{From: 0, To: 1}}}
	o, err := mapOf(t.Context(), nil, g, 1000)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Mermaid(t.Context(), g, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{o.Text, d.Text} {
		if strings.ContainsAny(text, "\x1b\u202e\r") {
			t.Errorf("control characters in %q", text)
		}
		if len(text) > 1000 {
			t.Errorf("%d bytes for two names", len(text))
		}
	}
	if n := strings.Count(o.Text, "\n"); n != 6-1 {
		t.Errorf("%d lines: %q", n, o.Text)
	}
	shape := regexp.MustCompile(`^flowchart LR\n(  n\d+\["[^"\n<>` + "`" + `\[\]{}()|]*"\]\n)*(  n\d+ (-->|-\.->) n\d+\n)*$`)
	if !shape.MatchString(d.Text) {
		t.Errorf("got %q", d.Text)
	}
}

func TestMermaid(t *testing.T) {
	g := full(t, small())
	d, err := Mermaid(t.Context(), g, 3)
	if err != nil {
		t.Fatal(err)
	}
	if d.Nodes != 3 || d.NodesLeft != len(g.Nodes)-3 || d.Links+d.LinksLeft != len(g.Links) || !strings.Contains(d.Text, "help") {
		t.Errorf("got %+v of %d nodes and %d links", d, len(g.Nodes), len(g.Links))
	}
	if d, err = Mermaid(t.Context(), g, -1); err != nil || d.Nodes != 0 {
		t.Errorf("got %+v, %v", d, err)
	}
	// This graph is larger than Mermaid accepts.
	large := &graph.Graph{}
	for i := range 1000 {
		large.Nodes = append(large.Nodes, graph.Node{Kind: "file", Name: strings.Repeat("_", 200), Path: fmt.Sprint(i)})
		for j := range i % 10 {
			large.Links = append(large.Links, graph.Link{From: i, To: j, Sure: graph.Certain})
		}
	}
	if d, err = Mermaid(t.Context(), large, 1000); err != nil || d.Links > 500 || len(d.Text) > 50_000 || d.Nodes > MaxDiagramNodes || d.Nodes+d.NodesLeft != 1000 || d.Links+d.LinksLeft != len(large.Links) {
		t.Errorf("%d links, %d bytes, %d nodes, %v", d.Links, len(d.Text), d.Nodes, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Mermaid(ctx, large, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := mapOf(ctx, nil, large, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// mapOf ranks the symbols of a graph and writes the most important ones.
func mapOf(ctx context.Context, files []*code.File, g *graph.Graph, tokens int, seeds ...string) (Outline, error) {
	r, err := Rank(ctx, files, g, seeds...)
	if err != nil {
		return Outline{}, err
	}
	return r.Map(tokens), nil
}
