package lex

import (
	"fmt"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
)

// reader is the reader of a language with braces.
type reader struct {
	language code.Language
	path     string
	read     func(*code.File) *braces
}

func braceReaders() []reader {
	return []reader{
		{code.Rust, "a.rs", readRust},
		{code.TypeScript, "a.ts", readScript},
		{code.TSX, "a.tsx", readScript},
		{code.JavaScript, "a.js", readScript},
		{code.C, "a.c", readC},
		{code.CPP, "a.cc", readC},
		{code.Java, "a.java", readJava},
	}
}

// hostile returns texts that are hard for at least one parser. A larger n makes them
// harder.
func hostile(n int) map[string]string {
	templates := strings.Repeat("`${", 100*n)
	return map[string]string{
		"parens":             strings.Repeat("(", 2000*n),
		"closers":            strings.Repeat(")]}", 2000*n),
		"brackets":           strings.Repeat("[{", 500*n),
		"mixed brackets":     strings.Repeat("({[)}]", 500*n),
		"braces":             strings.Repeat("{", 1000*n) + strings.Repeat("}", 1000*n),
		"else":               "fn f() {" + strings.Repeat("if a {} else ", 1000*n) + "{} }",
		"else in script":     "function f() {" + strings.Repeat("if (a) {} else ", 1000*n) + "{} }",
		"ifs":                "void f() {" + strings.Repeat("if (a) ", 1000*n) + "; }",
		"loops":              "void f() {" + strings.Repeat("do ", 1000*n) + "; }",
		"comments":           strings.Repeat("/*", 2000*n),
		"closed comments":    strings.Repeat("/*", 2000*n) + strings.Repeat("*/", 2000*n),
		"raw":                strings.Repeat("r####\"", 500*n),
		"raw of C++":         strings.Repeat("R\"a(", 500*n),
		"templates":          "x = " + templates + strings.Repeat("}`", 100*n),
		"open templates":     "x = " + templates,
		"functions":          strings.Repeat("fn a() { ", 500*n),
		"headers":            strings.Repeat("fn a<", 500*n),
		"script functions":   strings.Repeat("function a() { ", 500*n),
		"methods":            strings.Repeat("class A { a() { ", 300*n),
		"arrows":             "x = " + strings.Repeat("(a) => ", 1000*n),
		"arrow parameters":   "x = " + strings.Repeat("(a = ", 1000*n),
		"bare arrows":        "x = " + strings.Repeat("a => ", 1000*n),
		"closures":           "fn f() {" + strings.Repeat("|a| ", 1000*n) + "}",
		"bars":               "fn f() { x = " + strings.Repeat("| (", 1000*n),
		"types":              "let x: " + strings.Repeat("(a: ", 1000*n),
		"angles":             "let x: " + strings.Repeat("A<", 1000*n),
		"angles in code":     "x = " + strings.Repeat("a<", 1000*n),
		"calls with angles":  "class A { int f() { " + strings.Repeat("a.<b<", 1000*n),
		"ternaries":          "function f() { x = " + strings.Repeat("a ? ", 1000*n),
		"closed ternaries":   "function f() { x = " + strings.Repeat("a ? b : ", 1000*n) + "c }",
		"conditional types":  "type X = " + strings.Repeat("A extends B ? ", 1000*n),
		"JSX":                "x = " + strings.Repeat("<a>", 1000*n),
		"JSX in braces":      "x = " + strings.Repeat("<a>{", 1000*n),
		"JSX attributes":     "x = " + strings.Repeat("<a b={", 1000*n),
		"regex":              strings.Repeat("=/[", 1000*n),
		"regexes":            strings.Repeat("=/[/]/g;", 500*n),
		"slashes":            strings.Repeat("a / ", 1000*n),
		"labels":             strings.Repeat("a: ", 1000*n),
		"matches":            "fn f() {" + strings.Repeat("match a { _ => ", 500*n),
		"use":                "use " + strings.Repeat("a::{", 1000*n),
		"long path":          "use " + strings.Repeat("a::", 1000*n) + "{" + strings.Repeat("b,", 1000*n) + "};",
		"impl":               strings.Repeat("impl A for ", 1000*n),
		"attributes":         strings.Repeat("#[", 1000*n),
		"decorators":         strings.Repeat("@a(", 1000*n),
		"annotations":        strings.Repeat("@A ", 1000*n) + "class A {}",
		"directives":         strings.Repeat("#if A\n", 1000*n),
		"branches":           strings.Repeat("#if A\n{\n#else\n{\n#endif\n", 300*n),
		"continued":          strings.Repeat("#define A \\\n", 1000*n),
		"C functions":        strings.Repeat("int f(int a) { ", 500*n),
		"declarators":        strings.Repeat("a(b)", 1000*n) + "{}",
		"initialisers":       "A::A() : " + strings.Repeat("a(b), ", 1000*n) + "c() {}",
		"braced initialiser": "A::A() : " + strings.Repeat("a{b}, ", 1000*n) + "c() {}",
		"old parameters":     "f(a) " + strings.Repeat("int a; ", 1000*n) + "{}",
		"lambdas":            "void f() { x = " + strings.Repeat("[](int a) { ", 500*n),
		"classes":            strings.Repeat("class A { ", 500*n),
		"enums":              strings.Repeat("enum A { B { ", 500*n),
		"switches":           "class A { int f() { " + strings.Repeat("switch (a) { case 1 -> ", 300*n),
		"text blocks":        strings.Repeat("\"\"\"\n", 501*n),
		"dots":               "function f() { x" + strings.Repeat(".a()", 1000*n) + "}",
		"words":              strings.Repeat("a ", 3000*n),
		"imports":            strings.Repeat("import ", 1000*n),
		"names of imports":   "import {" + strings.Repeat("a, ", 1000*n),
		"one line":           strings.Repeat("x=a+b;", 1000*n),
		"apostrophes":        strings.Repeat("'", 2000*n),
		"backslashes":        strings.Repeat("'\\", 2000*n),
		"NUL":                strings.Repeat("a\x00", 1000*n),
		"CRLF":               strings.Repeat("int a() {\r\n}\r\n", 300*n),
		"lone CR":            strings.Repeat("int a() {\r}\r", 300*n),
		"BOM":                strings.Repeat("\ufeff", 1000*n),
	}
}

// A reader takes a number of steps in proportion to the length of any text.
func TestReadersAreLinear(t *testing.T) {
	for _, r := range braceReaders() {
		small, large := hostile(1), hostile(4)
		for what, text := range small {
			t.Run(string(r.language)+"/"+what, func(t *testing.T) {
				a, b := r.read(&code.File{Path: r.path, Language: r.language, Text: text}), r.read(&code.File{Path: r.path, Language: r.language, Text: large[what]})
				if limit := 5*a.steps + 200; b.steps > limit {
					t.Errorf("%d steps for %d bytes, %d for %d; want at most %d", a.steps, len(text), b.steps, len(large[what]), limit)
				}
				if limit := 64*len(text) + 2000; a.steps > limit {
					t.Errorf("%d steps for %d bytes, want at most %d", a.steps, len(text), limit)
				}
				check(t, Parse(r.path, r.language, text))
			})
		}
	}
}

// TestReadersEnd checks that the readers finish the hostile texts of full size.
func TestReadersEnd(t *testing.T) {
	for what, text := range map[string]string{
		"parens":    strings.Repeat("(", 200_000),
		"brackets":  strings.Repeat("[{", 50_000),
		"else":      strings.Repeat("if a {} else ", 10_000),
		"comments":  strings.Repeat("/*", 100_000),
		"raw":       `r####"` + strings.Repeat("a", 100_000),
		"templates": strings.Repeat("`${", 1000) + strings.Repeat("}`", 1000),
		"one line":  strings.Repeat("x=a+b;", MaxText/6),
		"cut off":   `("") => {`,
		"branches":  "{{\n#if A\n#else\n#if B\n}}((((((\n#else\n[\n#endif\n#endif\n)})}]\n",
	} {
		for _, r := range braceReaders() {
			t.Run(string(r.language)+"/"+what, func(t *testing.T) { check(t, Parse(r.path, r.language, text)) })
		}
	}
}

func FuzzReaders(f *testing.F) {
	for _, text := range hostile(1) {
		f.Add(text[:min(len(text), 400)])
	}
	for _, text := range []string{rustSample, scriptSample, jsxSample} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range braceReaders() {
			b := r.read(&code.File{Path: r.path, Language: r.language, Text: text})
			if limit := 100*len(text) + 20_000; b.steps > limit {
				t.Errorf("%s: %d steps for %d bytes, want at most %d", r.language, b.steps, len(text), limit)
			}
			check(t, Parse(r.path, r.language, text))
		}
	})
}

// described returns what a file declares, one line for each declaration.
func described(f *code.File) string {
	var b strings.Builder
	for _, i := range f.Imports {
		fmt.Fprintf(&b, "import %s %s %s\n", i.Path, i.Name, strings.Join(i.Used, ","))
	}
	for _, s := range f.Types {
		fmt.Fprintf(&b, "%s %s of %q %d-%d %v %v\n", s.Kind, s.Name, s.Owner, s.First, s.Last, s.Exported, s.Bases)
	}
	for _, s := range f.Vars {
		fmt.Fprintf(&b, "%s %s of %q %d %v\n", s.Kind, s.Name, s.Owner, s.Line, s.Exported)
	}
	for _, fn := range f.Funcs {
		var calls []string
		for _, c := range fn.Calls {
			if c.Of != "" {
				c.Name = c.Of + "|" + c.Name
			}
			calls = append(calls, c.Name)
		}
		fmt.Fprintf(&b, "%s %s %d-%d params %d nesting %d cyclomatic %d cognitive %d exported %v test %v calls %s\n", fn.Kind, fn.Label, fn.First, fn.Last, fn.Params, fn.Nesting, fn.Cyclomatic, fn.Cognitive, fn.Exported, fn.Test, strings.Join(calls, " "))
	}
	for _, g := range f.Gaps {
		fmt.Fprintf(&b, "gap %s: %s\n", g.Field, g.Reason)
	}
	return strings.ReplaceAll(strings.ReplaceAll(b.String(), "  \n", "\n"), " \n", "\n")
}

// compare fails the test if the description of a file is not the wanted one.
func compare(t *testing.T, f *code.File, want string) {
	t.Helper()
	got, expected := strings.Split(described(f), "\n"), strings.Split(strings.TrimPrefix(want, "\n"), "\n")
	for i := range max(len(got), len(expected)) {
		var a, b string
		if i < len(got) {
			a = got[i]
		}
		if i < len(expected) {
			b = expected[i]
		}
		if a != b {
			t.Errorf("line %d:\ngot  %s\nwant %s", i+1, a, b)
		}
	}
}

// metrics are the expected metrics of one function, which is given by its body.
type metrics struct {
	body                           string
	cyclomatic, cognitive, nesting int
}

func checkMetrics(t *testing.T, language code.Language, path, before, after string, all []metrics) {
	t.Helper()
	for _, m := range all {
		f := Parse(path, language, before+m.body+after)
		if len(f.Funcs) == 0 {
			t.Errorf("%s: no function", m.body)
			continue
		}
		fn := f.Funcs[0]
		if fn.Cyclomatic != m.cyclomatic || fn.Cognitive != m.cognitive || fn.Nesting != m.nesting {
			t.Errorf("%s\ngot  cyclomatic %d, cognitive %d, nesting %d\nwant cyclomatic %d, cognitive %d, nesting %d", m.body, fn.Cyclomatic, fn.Cognitive, fn.Nesting, m.cyclomatic, m.cognitive, m.nesting)
		}
	}
}

func benchmarkReader(b *testing.B, language code.Language, path, sample string) {
	text := strings.Repeat(sample, 1+1_000_000/len(sample))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Parse(path, language, text)
	}
}
