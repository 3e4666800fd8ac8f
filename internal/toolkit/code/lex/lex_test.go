package lex

import (
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
)

// samples are texts of many kinds, including hostile ones.
func samples() map[string]string {
	return map[string]string{
		"empty":           "",
		"blank":           " \n\t\r\n",
		"CRLF":            "a = 1\r\n# b\r\nc\r\n",
		"lone CR":         "a = 1\rb = 2\r",
		"BOM":             "\ufeffpackage a\n",
		"not UTF-8":       "a\xffb = '\xfe'\n",
		"NUL":             "a = 1\n" + strings.Repeat(" ", 8000) + "\x00b\n",
		"open string":     "a = \"b\nc = 'd",
		"open comment":    "/* a\n b",
		"open triple":     "a = \"\"\"b\n\nc",
		"open raw string": "a = `b\n",
		"backslash":       "a = '\\",
		"no last newline": "def f(): pass",
		"brackets":        strings.Repeat("(", 20000),
		"nested brackets": strings.Repeat("[{(", 1000) + strings.Repeat(")}]", 1000),
		"one line":        strings.Repeat("a+b;", 50000),
		"one name":        strings.Repeat("a", 200000),
		"quotes":          strings.Repeat("'\"`", 20000),
		"slashes":         strings.Repeat("/*/", 20000),
		"else":            strings.Repeat("if a {} else ", 10000),
		"indents":         indents(200),
	}
}

func indents(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "if a:\n")
	}
	return b.String()
}

// languages returns the languages that the tests try, with a path of a file in each.
func languages() map[code.Language]string {
	return map[code.Language]string{
		code.Go: "a.go", code.Rust: "a.rs", code.Python: "a.py", code.TypeScript: "a.ts", code.TSX: "a.tsx", code.JavaScript: "a.js",
		code.C: "a.c", code.CPP: "a.cc", code.Java: "a.java", code.Shell: "a.sh", code.Other: "a.txt", "unheard": "a.unheard",
		"lua": "a.lua", "ruby": "a.rb", "ocaml": "a.ml", "powershell": "a.ps1", "kotlin": "a.kt", "yaml": "a.yaml",
	}
}

// TestEachLanguageIsTried checks that languages has a path for each language with
// functions, that Detect returns the language for the path, and that its lexer finds a
// function.
func TestEachLanguageIsTried(t *testing.T) {
	functions := map[code.Language]string{
		code.Go: "package a\nfunc f() {}\n", code.Rust: "fn f() {}", code.Python: "def f(): pass\n", code.C: "int f() { return 1; }", code.CPP: "int f() { return 1; }",
		code.Java: "class A { void f() {} }", code.Shell: "f() { :; }\n", code.TypeScript: "function f() {}", code.TSX: "function f() {}", code.JavaScript: "function f() {}",
	}
	for _, l := range code.Lexed() {
		path := languages()[l]
		if path == "" || code.Detect(path, "") != l || !l.Lexed() {
			t.Errorf("%s: %q in languages, which is detected as %q", l, path, code.Detect(path, ""))
		}
		if f := Parse(path, l, functions[l]); len(f.Funcs) != 1 || f.Funcs[0].Name != "f" || len(f.Gaps) > 0 {
			t.Errorf("%s: got %+v of %q, want the function f", l, f.Funcs, functions[l])
		}
	}
}

// TestTokensCoverTheText checks for all texts that the tokens follow each other and leave
// out only white space, that each line is counted once, and that functions and calls are
// within the file.
func TestTokensCoverTheText(t *testing.T) {
	for what, text := range samples() {
		for language, path := range languages() {
			t.Run(what+"/"+string(language), func(t *testing.T) { check(t, Parse(path, language, text)) })
		}
	}
}

// check reports faults in the result of Parse, whatever the text is.
func check(t *testing.T, f *code.File) {
	t.Helper()
	Halstead(f)
	for _, fn := range f.Funcs {
		if h := fn.Halstead; h.DistinctOperators > h.Operators || h.DistinctOperands > h.Operands || h.Operators+h.Operands > fn.End-fn.Start {
			t.Fatalf("function %s of %d tokens has %+v", fn.Label, fn.End-fn.Start, h)
		}
	}
	at, line := 0, int32(1)
	for i, k := range f.Tokens {
		if int(k.Start) < at || k.End < k.Start || int(k.End) > len(f.Text) {
			t.Fatalf("token %d is from %d to %d; the one before ends at %d, the text at %d", i, k.Start, k.End, at, len(f.Text))
		}
		if between := f.Text[at:k.Start]; strings.Trim(strings.TrimPrefix(between, "\ufeff"), " \t\r\n\f\v\\\x00") != "" {
			t.Fatalf("token %d: %q before it belongs to no token", i, between)
		}
		if line += int32(strings.Count(f.Text[at:k.Start], "\n")); f.Language != code.Python && k.Line != line {
			t.Fatalf("token %d, %q, is of line %d, want %d", i, f.Of(k), k.Line, line)
		}
		line += int32(strings.Count(f.Of(k), "\n"))
		at = int(k.End)
	}
	lines := strings.Count(f.Text, "\n")
	if f.Text != "" && !strings.HasSuffix(f.Text, "\n") {
		lines++
	}
	if got := f.Lines.Code + f.Lines.Comment + f.Lines.Blank; got != lines {
		t.Errorf("got %+v, %d lines, want %d", f.Lines, got, lines)
	}
	for i, fn := range f.Funcs {
		if fn.Start < 0 || fn.Start >= fn.End || fn.End > len(f.Tokens) {
			t.Fatalf("function %s has the tokens from %d to %d of %d", fn.Label, fn.Start, fn.End, len(f.Tokens))
		}
		if fn.First < 1 || fn.Line < fn.First || fn.Last < fn.Line || fn.Last > lines {
			t.Errorf("function %s is from line %d over %d to %d of %d", fn.Label, fn.First, fn.Line, fn.Last, lines)
		}
		if i > 0 && fn.Start < f.Funcs[i-1].Start {
			t.Errorf("function %s comes after %s, which begins later", fn.Label, f.Funcs[i-1].Label)
		}
		for _, c := range fn.Calls {
			if c.Token < fn.Start || c.Token >= fn.End || f.Of(f.Tokens[c.Token]) != c.Name {
				t.Errorf("function %s: the call of %s is token %d", fn.Label, c.Name, c.Token)
			}
		}
	}
}

// For a text that is not a program, the result contains only the reason.
func TestParseRefuses(t *testing.T) {
	for want, text := range map[string]string{
		"larger than 5 MiB":                              strings.Repeat(" ", MaxText+1),
		"text in UTF-16; only UTF-8 is read":             "\xff\xfea\x00",
		"binary: a NUL byte among its first 8,000 bytes": "\x7fELF\x00",
	} {
		f := Parse("a.go", code.Go, text)
		if len(f.Gaps) != 1 || f.Gaps[0] != (code.Gap{Path: "a.go", Field: "file", Reason: want}) || f.Tokens != nil || f.Lines != (code.Lines{}) {
			t.Errorf("got %+v, %d tokens, want only a gap that says %q", f.Gaps, len(f.Tokens), want)
		}
	}
}
