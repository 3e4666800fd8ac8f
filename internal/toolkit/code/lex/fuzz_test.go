package lex

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"belljar.dev/internal/toolkit/code"
)

// fuzz gives texts to the lexer of a language, and checks that the tokens cover each text.
func fuzz(f *testing.F, language code.Language, seeds ...string) {
	for _, text := range samples() {
		f.Add(text[:min(len(text), 5000)])
	}
	for _, seed := range seeds {
		f.Add(seed)
	}
	path := languages()[language]
	f.Fuzz(func(t *testing.T, text string) { check(t, Parse(path, language, text)) })
}

func FuzzGo(f *testing.F) {
	f.Add("package a\n\nimport b \"c\"\n\ntype T[P any] struct{ U }\n\nfunc (t *T[P]) f(a, b int) { if a && b || f() { t.u.v() } else { for range 3 {} } }\n")
	f.Add("package a\n/*\r\n*/ var s = `a\r\nb` + \"//\"\nvar f = func() { goto x; x: }\n")
	fuzz(f, code.Go)
}

func FuzzPython(f *testing.F) {
	for _, c := range pythonCases() {
		f.Add(c)
	}
	fuzz(f, code.Python)
}

func FuzzShell(f *testing.F) {
	fuzz(f, code.Shell, shellText, "f() { a <<-'E'\nE\n}\n", "x=\"$(a \"`b`\")\" # c\n")
}

func FuzzPlain(f *testing.F) { fuzz(f, "lua", "--[[ a\n]] b -- c\n'd' 1.5e3") }

func FuzzPlainNested(f *testing.F) { fuzz(f, "ocaml", "(* a (* b *) c *) let x' = '\\'' (*) {|\n|}") }

// The number of tokens grows with the text: no lexer reads a text again and again, or makes
// tokens of nothing. The test bounds the tokens and the gaps of each text.
func TestTokensAreBoundedByTheText(t *testing.T) {
	for what, text := range samples() {
		for language, path := range languages() {
			f := Parse(path, language, text)
			if most := 2*len(text) + 300; len(f.Tokens) > most {
				t.Errorf("%s, %s: %d tokens of %d bytes", what, language, len(f.Tokens), len(text))
			}
			if len(f.Gaps) > 4 {
				t.Errorf("%s, %s: %d gaps", what, language, len(f.Gaps))
			}
		}
	}
}

// The work for texts that are hard to read grows in proportion to their length. It is
// measured in allocated bytes, which do not depend on the machine.
func TestWorkGrowsAsTheTextDoes(t *testing.T) {
	for _, unit := range []string{
		"(", ")", "[{(", "f'{", "f'{a:{b:", "f\"\"\"{", "'", "\"\"\"", "`", "/*", "//", "{", "}", "a.", "a(", "a,", "if a: ", "else ", "\\", "\\\n", "\r", "\t", "#", "lambda: ",
		"a and b or ", "def f(a):", "class A(", "match a:\n", "case _:", "import a,", "from . import (", "@", "x = ", "a = b,", "f{", "1.", "0x", "e", "é", "\x00a", "if a {} else ", "func f() {", "package a\n", "!", "&& ",
	} {
		for _, language := range []code.Language{code.Go, code.Python, code.Other, "ruby", "ocaml", "powershell"} {
			path := languages()[language]
			t.Run(fmt.Sprintf("%s/%q", language, unit), func(t *testing.T) {
				size := 40_000
				small := work(path, language, strings.Repeat(unit, size/len(unit)))
				large := work(path, language, strings.Repeat(unit, 4*size/len(unit)))
				if large > 5*small+1<<20 {
					t.Errorf("%d bytes are allocated for %d, and %d for four times as many", small, size, large)
				}
			})
		}
	}
}

// work returns how many bytes are allocated while a text is read.
func work(path string, language code.Language, text string) uint64 {
	// empty pools, because memory of earlier texts would hide what this text needs
	rooms, itemRooms, allWords = sync.Pool{}, sync.Pool{}, sync.Pool{}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	Halstead(Parse(path, language, text))
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The longest text that is read takes at most forty times its length. This counts memory
// that is freed meanwhile, and holds even if each byte is a token.
func TestMemoryIsBounded(t *testing.T) {
	for _, unit := range []string{"(", "a+", "f(\n", "def f(a):"} {
		for _, language := range []code.Language{code.Go, code.Python, code.Other} {
			text := strings.Repeat(unit, MaxText/len(unit))
			if got := work(languages()[language], language, text); got > 40*MaxText {
				t.Errorf("%s, %q: %d MiB for 5 MiB", language, unit, got>>20)
			}
		}
	}
}
