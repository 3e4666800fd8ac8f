package graph

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

// language returns the language of a path in these tests.
func language(path string) code.Language {
	for ext, l := range map[string]code.Language{
		".go": code.Go, ".py": code.Python, ".rs": code.Rust, ".ts": code.TypeScript, ".tsx": code.TSX,
		".js": code.JavaScript, ".c": code.C, ".h": code.C, ".cpp": code.CPP, ".java": code.Java, ".sh": code.Shell,
	} {
		if strings.HasSuffix(path, ext) {
			return l
		}
	}
	return code.Other
}

// parsed parses files, in the order of their names.
func parsed(texts map[string]string) (files []*code.File) {
	var names []string
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		files = append(files, lex.Parse(name, language(name), texts[name]))
	}
	return files
}

// declared returns files whose imports are the lines with the mark "import:". So these
// tests do not depend on how the lexer of each language reads imports.
func declared(texts map[string]string) []*code.File {
	files := parsed(texts)
	for _, f := range files {
		f.Imports = nil
		n := 0
		for line := range strings.Lines(f.Text) {
			n++
			if _, rest, ok := strings.Cut(line, "import:"); ok {
				w := strings.Fields(rest)
				f.Imports = append(f.Imports, code.Import{Path: w[0], Line: n, Used: w[1:]})
			}
		}
	}
	return files
}

// links returns the links of a graph as text.
func links(t testing.TB, files []*code.File, kind Kind) (all []string) {
	t.Helper()
	g, err := Build(t.Context(), files, kind)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range g.Links {
		from, to := g.Nodes[l.From], g.Nodes[l.To]
		name := func(n Node) string {
			if n.Kind == "function" || n.Kind == "type" {
				return n.Path + ":" + n.Name
			}
			return n.Name
		}
		all = append(all, fmt.Sprintf("%s -> %s %s", name(from), name(to), l.Sure))
	}
	return all
}

func TestImportsOfGo(t *testing.T) {
	files := parsed(map[string]string{
		"go.mod":                  "module example.org/m // a comment\n\nrequire (\n\texample.org/other v1.0.0\n)\nreplace example.org/other => ./other\n",
		"a.go":                    "package m\nimport (\n\t\"fmt\"\n\t\"example.org/m/x\"\n\t\"example.org/other/y\"\n)\n",
		"a_test.go":               "package m_test\nimport \"example.org/m\"\nimport \"example.org/m/z\"\n",
		"gen.go":                  "//go:build ignore\n\npackage main\nimport \"example.org/m/z\"\n",
		"x/x.go":                  "package x\nimport \"third.org/v\"\n",
		"x/more.go":               "package x\nimport \"example.org/m/z\"\n",
		"z/z.go":                  "package z\nimport \"example.org/mx\"\n",
		"other/go.mod":            "module example.org/other\n",
		"other/y/y.go":            "package y\nimport \"example.org/m/z\"\n",
		"vendor/third.org/v/v.go": "package v\n",
	})
	want := []string{
		"example.org/m -> example.org/m/x certain",
		"example.org/m -> example.org/other/y certain",
		"example.org/m (tests) -> example.org/m certain",
		"example.org/m (tests) -> example.org/m/z certain",
		"gen.go -> example.org/m/z certain",
		"example.org/other/y -> example.org/m/z likely",
		"example.org/m/x -> example.org/m/vendor/third.org/v certain",
		"example.org/m/x -> example.org/m/z certain",
	}
	got := links(t, files, Imports)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	g, err := Build(t.Context(), files, Imports)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Outside{{"example.org/mx", 1}, {"fmt", 1}}, g.Outside); diff != "" {
		t.Error(diff)
	}
	// Without a go.mod, a directory matches if the import path ends with its path.
	if got = links(t, parsed(map[string]string{"cmd/a.go": "package main\nimport \"example.org/m/lib/x\"\n", "lib/x/x.go": "package x\n"}), Imports); len(got) != 1 || !strings.HasSuffix(got[0], "likely") {
		t.Errorf("got %q", got)
	}
}

func TestImportsOfPython(t *testing.T) {
	files := parsed(map[string]string{
		"pkg/__init__.py":     "from .a import f\n",
		"pkg/a.py":            "import os\nfrom . import b\nfrom .sub import c, thing\n",
		"pkg/b.py":            "import pkg.a as x\nfrom ..outside import y\n",
		"pkg/sub/__init__.py": "from .. import b\n",
		"pkg/sub/c.py":        "from pkg import *\nimport pkg.sub\n",
		"main.py":             "import pkg, helper\nfrom pkg.sub.c import d\n",
		"helper.py":           "",
		"src/lib/__init__.py": "",
		"tests/t.py":          "import lib\n",
	})
	want := []string{
		"main.py -> helper.py certain",
		"main.py -> pkg/__init__.py certain",
		"main.py -> pkg/sub/c.py certain",
		"pkg/__init__.py -> pkg/a.py certain",
		"pkg/a.py -> pkg/b.py certain",
		"pkg/a.py -> pkg/sub/__init__.py certain",
		"pkg/a.py -> pkg/sub/c.py certain",
		"pkg/b.py -> pkg/a.py certain",
		"pkg/sub/__init__.py -> pkg/b.py certain",
		"pkg/sub/c.py -> pkg/__init__.py certain",
		"pkg/sub/c.py -> pkg/sub/__init__.py certain",
		"tests/t.py -> src/lib/__init__.py certain",
	}
	if diff := cmp.Diff(want, links(t, files, Imports)); diff != "" {
		t.Error(diff)
	}
}

func TestImportsOfOtherLanguages(t *testing.T) {
	for _, c := range []struct {
		name  string
		texts map[string]string
		want  []string
	}{
		{"rust", map[string]string{
			"Cargo.toml":          "[package]\nname = \"my-crate\"\n[dependencies]\nname = \"no\"\n",
			"src/lib.rs":          "mod a; // import: self::a\n#[path = \"odd/place.rs\"]\npub mod odd;\nmod inner {\n mod deep;\n}\n",
			"src/a.rs":            "// import: crate::a::b::Thing\n// import: super::odd\n// import: std::fmt\nmod tests {\n// import: super::*\n}\n",
			"src/a/b.rs":          "// import: super::x\n// import: crate::Root\n// import: self::c::d\n",
			"src/a/b/c.rs":        "// import: super::super::super::a\n",
			"src/odd/place.rs":    "",
			"src/inner/deep.rs":   "",
			"src/main.rs":         "// import: my_crate::a::b\n",
			"tests/common/mod.rs": "",
			"tests/it.rs":         "mod common; // import: self::common\n// import: my_crate::a\n",
		}, []string{
			"src/a/b/c.rs -> src/a.rs certain",
			"src/a/b.rs -> src/a/b/c.rs certain",
			"src/a/b.rs -> src/a.rs certain",
			"src/a/b.rs -> src/lib.rs certain",
			"src/a.rs -> src/a/b.rs certain",
			"src/a.rs -> src/lib.rs certain",
			"src/lib.rs -> src/a.rs certain",
			"src/lib.rs -> src/inner/deep.rs certain",
			"src/lib.rs -> src/odd/place.rs certain",
			"src/main.rs -> src/a/b.rs certain",
			"tests/it.rs -> src/a.rs certain",
			"tests/it.rs -> tests/common/mod.rs certain",
		}},
		{"typescript", map[string]string{
			"tsconfig.json":         "{ // settings\n \"compilerOptions\": { \"baseUrl\": \"./src\", /* x */ \"paths\": { \"@/*\": [\"nowhere/*\", \"app/*\"], \"exact\": [\"app/one\"], }, },\n}",
			"src/index.ts":          "// import: ./app/one\n// import: @/two\n// import: exact\n// import: app/three\n// import: react\n",
			"src/app/one.tsx":       "// import: ../index.js\n// import: ./dir\n// import: ../../../out\n",
			"src/app/two.d.ts":      "// import: .\n",
			"src/app/three.js":      "// import: './one'\n",
			"src/app/index.ts":      "",
			"src/app/dir/index.js":  "// import: ./style.css\n",
			"src/app/dir/style.css": "",
			"web/deno.json":         "{\"imports\": {\"lib/\": \"./deep/lib/\", \"far\": \"https://example.org/x.ts\"}}",
			"web/main.ts":           "// import: lib/x.ts\n// import: far\n",
			"web/deep/lib/x.ts":     "",
		}, []string{
			"src/app/dir/index.js -> src/app/dir/style.css certain",
			"src/app/one.tsx -> src/app/dir/index.js certain",
			"src/app/one.tsx -> src/index.ts certain",
			"src/app/three.js -> src/app/one.tsx certain",
			"src/app/two.d.ts -> src/app/index.ts certain",
			"src/index.ts -> src/app/one.tsx certain",
			"src/index.ts -> src/app/three.js certain",
			"src/index.ts -> src/app/two.d.ts certain",
			"web/main.ts -> web/deep/lib/x.ts certain",
		}},
		{"typescript settings that extend others", map[string]string{
			"tsconfig.base.json":       `{"compilerOptions": {"paths": {"@/*": ["lib/*"], "~": ["lib/x.ts"]}}}`,
			"lib/x.ts":                 "",
			"packages/a/tsconfig.json": `{"extends": "../../tsconfig.base"}`,
			"packages/a/main.ts":       "// import: @/x\n// import: b\n",
			"packages/b/tsconfig.json": `{"extends": ["./more.json", "../../tsconfig.base.json", "@tsconfig/node20"], "compilerOptions": {"paths": {"@/*": ["own/*"]}}}`,
			"packages/b/more.json":     `{"extends": "./tsconfig.json", "compilerOptions": {"baseUrl": "src"}}`,
			"packages/b/main.ts":       "// import: @/y\n// import: z\n// import: ~\n",
			"packages/b/src/own/y.ts":  "",
			"packages/b/src/z.ts":      "",
			"packages/c/deno.json":     `{"imports": {"d/": "./deno/"}}`,
			"packages/c/tsconfig.json": `{"compilerOptions": {"paths": {"t/*": ["./ts/*"]}}}`,
			"packages/c/main.ts":       "// import: d/one.ts\n// import: t/two\n",
			"packages/c/deno/one.ts":   "",
			"packages/c/ts/two.ts":     "",
			"packages/d/jsconfig.json": `{"compilerOptions": {"paths": {"@/*": ["any/*"], "@/*.js": ["js/*.ts"], "@/*s": ["s/*"]}}}`,
			"packages/d/main.js":       "// import: @/a.js\n",
			"packages/d/any/a.ts":      "",
			"packages/d/js/a.ts":       "",
			"packages/d/s/a.j.ts":      "",
		}, []string{
			"packages/a/main.ts -> lib/x.ts certain",
			"packages/b/main.ts -> packages/b/src/own/y.ts certain",
			"packages/b/main.ts -> packages/b/src/z.ts certain",
			"packages/c/main.ts -> packages/c/deno/one.ts certain",
			"packages/c/main.ts -> packages/c/ts/two.ts certain",
			"packages/d/main.js -> packages/d/js/a.ts certain",
		}},
		{"c", map[string]string{
			"src/a.c":           "// import: \"a.h\"\n// import: \"net/n.h\"\n// import: <stdio.h>\n// import: \"twice.h\"\n// import: <lib/sys.h>\n",
			"src/a.h":           "// import: \"../include/lib/sys.h\"\n",
			"include/net/n.h":   "",
			"include/lib/sys.h": "",
			"x/twice.h":         "",
			"y/twice.h":         "",
			"y/stdio.h":         "",
		}, []string{
			"src/a.c -> include/lib/sys.h likely",
			"src/a.c -> include/net/n.h likely",
			"src/a.c -> src/a.h certain",
			"src/a.h -> include/lib/sys.h certain",
		}},
		{"java", map[string]string{
			"src/main/java/org/e/A.java":      "/* c */ package org.e;\n// import: org.e.util.B\n// import: org.e.util.B.Inner\n// import: java.util.List\n",
			"src/main/java/org/e/util/B.java": "package org.e.util;\n// import: org.e.*\n",
			"src/main/java/org/e/util/C.java": "package org.e.util;\n// import: org.e.A.method\n",
		}, []string{
			"src/main/java/org/e/A.java -> src/main/java/org/e/util/B.java certain",
			"src/main/java/org/e/util/B.java -> src/main/java/org/e/A.java certain",
			"src/main/java/org/e/util/C.java -> src/main/java/org/e/A.java certain",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := declared(c.texts)
			for _, f := range files {
				if strings.HasSuffix(f.Path, ".css") {
					f.Language = code.TypeScript // any language whose files are nodes
				}
			}
			got := links(t, files, Imports)
			slices.Sort(got)
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCallsOfGo(t *testing.T) {
	files := parsed(map[string]string{
		"go.mod": "module m\n",
		"a.go": `package m
import "m/x"
import other "fmt"
func top() { helper(); x.Do(); x.Missing(); other.Print(); undefined() }
func helper() { helper() }
type T struct{ base }
type base struct{}
func (t *T) one(p *x.P, q T, r, s []T) { t.two(); t.deep(); p.Run(); q.two(); v := 1; v.Odd() }
func (t *T) two() {}
func (b base) deep() {}
`,
		"b.go":      "package m\nfunc init() { top() }\n",
		"x/x.go":    "package x\nfunc Do() {}\nfunc helper() {}\ntype P struct{}\nfunc (P) Run() {}\nfunc (P) Odd() {}\n",
		"b_test.go": "package m_test\nimport \"m\"\nfunc TestX() { helper(); m.Top() }\nfunc helper() {}\n",
	})
	want := []string{
		"a.go:top -> a.go:helper certain",
		"a.go:top -> x/x.go:Do certain",
		"a.go:helper -> a.go:helper certain",
		"a.go:(*T).one -> a.go:(*T).two certain",
		"a.go:(*T).one -> a.go:(base).deep likely",
		"a.go:(*T).one -> x/x.go:(P).Run certain",
		"a.go:(*T).one -> x/x.go:(P).Odd possible",
		"b.go:init -> a.go:top certain",
		"b_test.go:TestX -> b_test.go:helper certain",
	}
	got := links(t, files, Calls)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	g, err := Build(t.Context(), files, Calls)
	if err != nil || g.Unresolved != 4 { // the calls of x.Missing, Print, undefined and m.Top
		t.Errorf("%d calls are not resolved, %v, want 4", g.Unresolved, err)
	}
}

func TestCallsOfPython(t *testing.T) {
	files := parsed(map[string]string{
		"a.py": "import b\nfrom c import f as g, h\nclass K(b.Base):\n  def one(self):\n    self.two()\n    self.up()\n    b.free()\n    h()\n    K()\n  def two(self): pass\n  def __init__(self): pass\n",
		"b.py": "def free(): pass\nclass Base:\n  def up(self): pass\n",
		"c.py": "def h(): pass\n",
	})
	want := []string{
		"a.py:K.one -> a.py:K.__init__ likely",
		"a.py:K.one -> a.py:K.two certain",
		"a.py:K.one -> b.py:Base.up likely",
		"a.py:K.one -> b.py:free certain",
		"a.py:K.one -> c.py:h certain",
	}
	got := links(t, files, Calls)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestCallsOfChangedNames checks calls by names that an import changed, calls of nested
// functions, and calls of methods that only a base has.
func TestCallsOfChangedNames(t *testing.T) {
	files := parsed(map[string]string{
		"a.py": "from b import (\n  first as one,\n  Base as B)\ndef f():\n  def g(): pass\n  g()\n  one()\n  B.make()\nclass K(B):\n  def g(self): one()\n",
		"b.py": "def first(): pass\ndef one(): pass\nclass Base:\n  def make(): pass\n",
	})
	want := []string{"a.py:K.g -> b.py:first certain", "a.py:f -> a.py:f.g certain", "a.py:f -> b.py:Base.make certain", "a.py:f -> b.py:first certain"}
	got := links(t, files, Calls)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := links(t, files, Inheritance); !slices.Equal(got, []string{"a.py:K -> b.py:Base certain"}) {
		t.Errorf("got %q", got)
	}
	// In a call, super means the method of a base, and never the method of the type itself.
	script := []*code.File{{
		Path: "a.ts", Language: code.TypeScript,
		Types: []code.Symbol{{Name: "K", Bases: []string{"L"}}, {Name: "L"}},
		Funcs: []code.Func{
			{Symbol: code.Symbol{Name: "go", Owner: "K", Line: 1}, Label: "K.go", Calls: []code.Call{{Name: "go", Of: "super"}}},
			{Symbol: code.Symbol{Name: "go", Owner: "L", Line: 2}, Label: "L.go"},
		},
	}}
	if got := links(t, script, Calls); !slices.Equal(got, []string{"a.ts:K.go -> a.ts:L.go likely"}) {
		t.Errorf("got %q", got)
	}
	// The functions of an inline module of Rust call each other by their names.
	module := []*code.File{{Path: "a.rs", Language: code.Rust, Funcs: []code.Func{
		{Symbol: code.Symbol{Name: "a", Owner: "tests", Line: 1}, Label: "tests::a", Calls: []code.Call{{Name: "b"}}},
		{Symbol: code.Symbol{Name: "b", Owner: "tests", Line: 2}, Label: "tests::b"},
	}}}
	if got := links(t, module, Calls); !slices.Equal(got, []string{"a.rs:tests::a -> a.rs:tests::b certain"}) {
		t.Errorf("got %q", got)
	}
}

func TestInheritance(t *testing.T) {
	files := parsed(map[string]string{
		"go.mod": "module m\n",
		"a.go":   "package m\nimport \"m/x\"\nimport \"io\"\ntype A struct{ *x.B; io.Reader }\ntype I interface{ J }\ntype J interface{}\n",
		"x/x.go": "package x\ntype B struct{}\n",
		"k.py":   "import l\nclass K(l.Base, Other): pass\n",
		"l.py":   "class Base: pass\n",
		"o.py":   "class Other: pass\n",
	})
	want := []string{
		"a.go:A -> x/x.go:B certain",
		"a.go:I -> a.go:J certain",
		"k.py:K -> l.py:Base certain",
		"k.py:K -> o.py:Other possible",
	}
	if diff := cmp.Diff(want, links(t, files, Inheritance)); diff != "" {
		t.Error(diff)
	}
	// An impl gives bases to a type that is declared elsewhere.
	impl := []*code.File{
		{Path: "t.rs", Language: code.Rust, Types: []code.Symbol{{Name: "Trait", Kind: "trait", Line: 1}, {Name: "S", Kind: "struct", Line: 2}, {Name: "S", Kind: "impl", Line: 3, Bases: []string{"Trait<u8>"}}}},
	}
	if got := links(t, impl, Inheritance); !slices.Equal(got, []string{"t.rs:S -> t.rs:Trait certain"}) {
		t.Errorf("got %q", got)
	}
}

func TestFullHasAllLinks(t *testing.T) {
	files := parsed(map[string]string{
		"go.mod": "module m\n",
		"a.go":   "package m\nimport \"m/x\"\ntype A struct{ x.B }\nfunc f() { var v x.B; g(v) }\nfunc g(any) {}\n",
		"x/x.go": "package x\ntype B struct{}\n",
	})
	g, err := Build(t.Context(), files, Full)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, l := range g.Links {
		kinds = append(kinds, l.Kind)
	}
	slices.Sort(kinds)
	if want := []string{"calls", "imports", "inherits", "uses"}; !slices.Equal(kinds, want) {
		t.Errorf("got %q, want %q", kinds, want)
	}
}

// Each change of one line changes the part of the graph that depends on this line.
func TestOneLineChangesEachPart(t *testing.T) {
	base := map[string]string{
		"go.mod": "module m\n",
		"a.go":   "package m\nimport \"m/x\"\ntype A struct{ x.B }\nfunc f() { x.G() }\n",
		"x/x.go": "package x\ntype B struct{}\nfunc G() {}\nfunc H() {}\n",
	}
	graph := func(texts map[string]string) *Graph {
		g, err := Build(t.Context(), parsed(texts), Full)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	with := func(name, old, now string) *Graph {
		texts := maps.Clone(base)
		texts[name] = strings.Replace(texts[name], old, now, 1)
		if texts[name] == base[name] {
			t.Fatalf("%s has no %q", name, old)
		}
		return graph(texts)
	}
	before := graph(base)
	for _, c := range []struct {
		what string
		now  *Graph
		part func(g *Graph) any
	}{
		{"a function more: nodes", with("x/x.go", "func H", "func I() {}\nfunc H"), func(g *Graph) any { return len(g.Nodes) }},
		{"another callee: links", with("a.go", "x.G()", "x.H()"), func(g *Graph) any { return g.Links }},
		{"a call twice: count", with("a.go", "x.G()", "x.G(); x.G()"), func(g *Graph) any { return g.Links }},
		{"a base less: links", with("a.go", "{ x.B }", "{}"), func(g *Graph) any { return g.Links }},
		{"an import outside", with("a.go", "import \"m/x\"", "import \"m/x\"\nimport \"os\""), func(g *Graph) any { return g.Outside }},
		{"an unknown callee", with("a.go", "x.G()", "x.G(); y()"), func(g *Graph) any { return g.Unresolved }},
		{"an exported name", with("a.go", "func f", "func F"), func(g *Graph) any { return g.Nodes }},
		{"a line more", with("a.go", "x.G() }", "x.G()\n}"), func(g *Graph) any { return g.Nodes }},
		{"broken Go: a gap", with("a.go", "func f()", "func f("), func(g *Graph) any { return g.Gaps }},
	} {
		if cmp.Equal(c.part(before), c.part(c.now)) {
			t.Errorf("%s: nothing changed", c.what)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	if _, err := Build(t.Context(), nil, "other"); err == nil {
		t.Error("an unknown kind was built")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Build(ctx, parsed(map[string]string{"a.go": "package a"}), Imports); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
	if g, err := Build(t.Context(), nil, Full); err != nil || len(g.Nodes) != 0 {
		t.Errorf("got %+v, %v of no files", g, err)
	}
}

// A project in which all functions have one name takes time in proportion to its size.
func TestOneNameForAll(t *testing.T) {
	work := func(n int) int {
		var files []*code.File
		for i := range n {
			files = append(files,
				lex.Parse(fmt.Sprintf("d/a%d.go", i), code.Go, "package d\ntype f struct{ f }\nfunc (x T) f() { f(); y.f(); f.f() }\nfunc f() { f(); y.f() }\n"),
				lex.Parse(fmt.Sprintf("a%d.py", i), code.Python, "def f():\n  f()\n  x.f()\nclass f(f):\n  def f(self): self.f()\n"))
		}
		b := newBuilder(newIndex(newResolver(files)))
		b.nodes(Full)
		for _, step := range []func(context.Context) error{b.imports, b.calls, b.inheritance, b.uses} {
			if err := step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Dead(t.Context(), files); err != nil {
			t.Fatal(err)
		}
		return b.work
	}
	if one, two := work(1500), work(3000); float64(two) > 2.5*float64(one) {
		t.Errorf("%d declarations looked at in 1,500 files, and %d in twice as many", one, two)
	}
}

func TestFind(t *testing.T) {
	g := &Graph{Nodes: []Node{{Kind: "file", Name: "a/b.py", Path: "a/b.py"}, {Kind: "function", Name: "(*T).Run", Path: "c.go"}, {Kind: "function", Name: "S::run", Path: "d.rs"}, {Kind: "package", Name: "m/p", Path: "p"}, {Kind: "tests", Name: "m/p (tests)", Path: "p"}}}
	for text, want := range map[string][]int{"a/b.py": {0}, "b.py": {0}, ".py": nil, "Run": {1}, "run": {2}, "c.go": {1}, "(*T).Run": {1}, "py": nil, "": nil, "p": {3, 4}, "p/x.go": {3}, "p/x_test.go": {4}, "q/x.go": nil} {
		if got := g.Find(text); !slices.Equal(got, want) {
			t.Errorf("Find(%q) = %v, want %v", text, got, want)
		}
	}
}

// Whatever the text is, nothing panics and the same text gives the same graph.
func FuzzBuild(f *testing.F) {
	f.Add("a.go", "package a\nimport \"m/b\"\nfunc (t *T) f(a, b c.D) { t.g(); b.h() }\n")
	f.Add("a.rs", "mod x { mod y; }\n#[path=\"..\"] mod z;\nfn f() {}\n")
	f.Add("a.py", "from ... import x\n@d\ndef f(): f()\n")
	f.Add("tsconfig.json", "{\"compilerOptions\":{\"paths\":{\"*\":[\"*\"]}}}//")
	f.Add("go.mod", "module (\nreplace a => ../../..\n")
	f.Add("x.s", "TEXT ·f(SB)")
	f.Fuzz(func(t *testing.T, name, text string) {
		files := append(parsed(map[string]string{"go.mod": "module m", "m.go": "package m\nfunc f() {}\n"}), lex.Parse(name, language(name), text))
		for _, kind := range []Kind{Imports, Calls, Inheritance, Full} {
			one, err := Build(t.Context(), files, kind)
			if err != nil {
				t.Fatal(err)
			}
			two, _ := Build(t.Context(), files, kind)
			if !cmp.Equal(one, two) {
				t.Errorf("%s differs between two runs", kind)
			}
			for _, l := range one.Links {
				if l.From >= len(one.Nodes) || l.To >= len(one.Nodes) {
					t.Errorf("a link to no node: %+v", l)
				}
			}
		}
		if _, err := Dead(t.Context(), files); err != nil {
			t.Error(err)
		}
		if _, _, err := Foreign(t.Context(), files); err != nil {
			t.Error(err)
		}
	})
}
