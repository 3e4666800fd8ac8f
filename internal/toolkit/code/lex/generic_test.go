package lex

import (
	"fmt"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
)

// plainCase is a text in a language without a lexer.
type plainCase struct {
	language code.Language
	path     string
	text     string
	want     code.Lines
	comments string // expected comments, with a bar between them
}

func plainCases() []plainCase {
	return []plainCase{
		{"csharp", "a.cs", "using System; // x\n/* a\n */\nvar s = @\"C:\\\";\nvar c = '\"'; // \"\nvar u = \"// no\";\n", code.Lines{Code: 4, Comment: 2}, "// x|/* a\n */|// \""},
		{"kotlin", "a.kt", "/* a /* b */ c */\nval s = \"\"\"\n// text\n\"\"\"\nval c = '\\''\n// d\n", code.Lines{Code: 4, Comment: 2}, "/* a /* b */ c */|// d"},
		{"swift", "a.swift", "let a = \"/* no\" /* x */\n\n// y\n", code.Lines{Code: 1, Comment: 1, Blank: 1}, "/* x */|// y"},
		{"scala", "a.scala", "val a = 'x' // b\nval s = 'sym\n/* /* */ */\n", code.Lines{Code: 2, Comment: 1}, "// b|/* /* */ */"},
		{"groovy", "build.gradle", "a = '''\n// no\n'''\n// x\n", code.Lines{Code: 3, Comment: 1}, "// x"},
		{"dart", "a.dart", "/// doc\nvar a = '//';\n", code.Lines{Code: 1, Comment: 1}, "/// doc"},
		{"objective-c", "a.m", "#import \"a.h\"\n// x\nchar q = '\"'; /* y */\n", code.Lines{Code: 2, Comment: 1}, "// x|/* y */"},
		{"zig", "a.zig", "// a\nconst b = '\\'';\n", code.Lines{Code: 1, Comment: 1}, "// a"},
		{"php", "a.php", "<?php\n# a\n#[Attr]\n$b = '#'; // c\n/* d */\n", code.Lines{Code: 3, Comment: 2}, "# a|// c|/* d */"},
		{"hcl", "a.tf", "# a\nb = \"# no\" // c\n/* d\n*/\n", code.Lines{Code: 1, Comment: 3}, "# a|// c|/* d\n*/"},
		{"nix", "a.nix", "{ a = ''\n# text\n''; } # b\n", code.Lines{Code: 3}, "# b"},
		{"css", "a.css", "/* a */\nb { c: url(//d) }\n", code.Lines{Code: 1, Comment: 1}, "/* a */"},
		{"sass", "a.scss", "// a\nb { c: url(http://d) }\n", code.Lines{Code: 1, Comment: 1}, "// a"},
		{"ruby", "a.rb", "# a\n=begin\nb\n=end c\nx = \"#{y}\" # d\nz = /#{y}/\n", code.Lines{Code: 2, Comment: 4}, "# a|=begin\nb\n=end c|# d"},
		{"perl", "a.pl", "use strict; # a\n=head1 B\n\ntext\n\n=cut\nmy $n = $#list; # c\n", code.Lines{Code: 2, Comment: 3, Blank: 2}, "# a|=head1 B\n\ntext\n\n=cut|# c"},
		{"r", "a.R", "x <- '#' # a\n# b\n", code.Lines{Code: 1, Comment: 1}, "# a|# b"},
		{"julia", "a.jl", "#= a #= b =# c =#\ny = x' # d\n", code.Lines{Code: 1, Comment: 1}, "#= a #= b =# c =#|# d"},
		{"elixir", "a.ex", "@doc \"\"\"\n# text\n\"\"\"\n# a\n", code.Lines{Code: 3, Comment: 1}, "# a"},
		{"nim", "a.nim", "#[ a #[ b ]# ]#\nlet c = '\"' # d\n", code.Lines{Code: 1, Comment: 1}, "#[ a #[ b ]# ]#|# d"},
		{"powershell", "a.ps1", "<# a\n#>\n$b = \"C:\\\" # c\n$d = @\"\n# text \"x\"\n\"@\n", code.Lines{Code: 4, Comment: 2}, "<# a\n#>|# c"},
		{"makefile", "Makefile", "# a\nb:\n\tc # d\n\te$#\n", code.Lines{Code: 3, Comment: 1}, "# a|# d"},
		{"dockerfile", "Dockerfile", "# a\nRUN echo it's \\\n  b\n", code.Lines{Code: 2, Comment: 1}, "# a"},
		{"cmake", "CMakeLists.txt", "#[[ a\n]]\nset(b \"#\") # c\n", code.Lines{Code: 1, Comment: 2}, "#[[ a\n]]|# c"},
		{"yaml", "a.yml", "a: it's\nb: c#d # e\n# f\n", code.Lines{Code: 2, Comment: 1}, "# e|# f"},
		{"toml", "a.toml", "a = '''\n# b\n''' # c\n", code.Lines{Code: 3}, "# c"},
		{"sql", "a.sql", "-- a\nSELECT 'it''s -- no', 'C:\\' /* b */\nFROM t;\n", code.Lines{Code: 2, Comment: 1}, "-- a|/* b */"},
		{"lua", "a.lua", "--[[ a\n]] b = [[\n-- c\n]] -- d\n--[=[ ]] ]=]\n", code.Lines{Code: 3, Comment: 2}, "--[[ a\n]]|-- d|--[=[ ]] ]=]"},
		{"haskell", "a.hs", "{- a {- b -} -}\nc = foldl' d '\"' -- e\n", code.Lines{Code: 1, Comment: 1}, "{- a {- b -} -}|-- e"},
		{"ada", "a.adb", "X : Character := '\"'; -- a\nY := T'First; -- b\n", code.Lines{Code: 2}, "-- a|-- b"},
		{"ocaml", "a.ml", "(* a (* b *) *)\nlet f = ( * ) (*) 'a'\nlet c = {|\n(* d *)\n|}\n", code.Lines{Code: 4, Comment: 1}, "(* a (* b *) *)"},
		{"fsharp", "a.fs", "// a\nlet b = @\"C:\\\" (* c *)\n", code.Lines{Code: 1, Comment: 1}, "// a|(* c *)"},
		{"pascal", "a.pas", "{ a }\n{$R x}\nb := 'it''s { no }'; // c\n", code.Lines{Code: 2, Comment: 1}, "{ a }|// c"},
		{"lisp", "a.el", ";; a\n#| b |#\n(c ?\\\" \";\") ; d\n", code.Lines{Code: 1, Comment: 2}, ";; a|#| b |#|; d"},
		{"clojure", "a.clj", "; a\n(b \\\" \\;) ; c\n", code.Lines{Code: 1, Comment: 1}, "; a|; c"},
		{"erlang", "a.erl", "% a\nb() -> $% , $\" , \"%\". % c\n", code.Lines{Code: 1, Comment: 1}, "% a|% c"},
		{"fortran", "a.f90", "! a\nprint *, 'no ! no' ! b\n", code.Lines{Code: 1, Comment: 1}, "! a|! b"},
		{"visual-basic", "a.vb", "' a\nb = \"it's\" ' c\n", code.Lines{Code: 1, Comment: 1}, "' a|' c"},
		{"html", "a.html", "<!-- a\n-->\n<p>it's // text</p>\n", code.Lines{Code: 1, Comment: 2}, "<!-- a\n-->"},
		{"vue", "a.vue", "<!-- a -->\n<a href=\"http://b\">\n// c\n", code.Lines{Code: 1, Comment: 2}, "<!-- a -->|// c"},
	}
}

// TestPlainLanguages checks the comments and lines of languages without a lexer, also next
// to strings and characters that look like comments.
func TestPlainLanguages(t *testing.T) {
	for _, tt := range plainCases() {
		t.Run(string(tt.language), func(t *testing.T) {
			if got := code.Detect(tt.path, ""); got != tt.language {
				t.Fatalf("%s: got the language %q", tt.path, got)
			}
			f := Parse(tt.path, tt.language, tt.text)
			check(t, f)
			var comments []string
			for _, k := range f.Tokens {
				if k.Kind == code.Comment {
					comments = append(comments, f.Of(k))
				}
			}
			if got := strings.Join(comments, "|"); got != tt.comments || f.Lines != tt.want || len(f.Gaps)+len(f.Funcs) > 0 {
				t.Errorf("got comments %q, lines %+v, gaps %v; want %q, %+v", got, f.Lines, f.Gaps, tt.comments, tt.want)
			}
		})
	}
}

// A clone can have other names, but not other keywords. In a language for data, no word can
// differ.
func TestPlainKeywords(t *testing.T) {
	for _, tt := range []struct {
		language   code.Language
		text, want string
	}{
		{"ruby", "if item then limit end", "K.K.K"},
		{"sql", "SELECT a FROM limit", "K.KK"},
		{"kotlin", "IF select", ".."},
		{"yaml", "name: x", "KK"},
		{"lua", "x = elseif_", ".."},
	} {
		got := ""
		for _, k := range Parse("a", tt.language, tt.text).Tokens {
			got += map[code.Kind]string{code.Keyword: "K", code.Name: "."}[k.Kind]
		}
		if got != tt.want {
			t.Errorf("%s, %s: got %s, want %s", tt.language, tt.text, got, tt.want)
		}
	}
}

// The work for nested comments without an end, and for long series of marks, grows in
// proportion to their length. It is measured in allocated bytes.
func TestPlainIsLinear(t *testing.T) {
	for _, l := range []code.Language{"ocaml", "haskell", "ruby", "perl", "lua", "powershell", "ada", "clojure"} {
		for _, unit := range []string{"(*", "{-", "-}", "=begin\n", "\n=pod", "--[[", "@\"", "'", "'\\", "a'", "\\\"", "<#"} {
			t.Run(fmt.Sprintf("%s/%q", l, unit), func(t *testing.T) {
				text := strings.Repeat(unit, 100_000/len(unit))
				small, large := work("a", l, text), work("a", l, strings.Repeat(text, 4))
				if large > 5*small+1<<20 {
					t.Errorf("%d bytes are allocated for %d, and %d for four times as many", small, len(text), large)
				}
			})
		}
	}
}
