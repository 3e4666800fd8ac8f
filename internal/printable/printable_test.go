package printable_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"belljar.dev/internal/printable"
	"belljar.dev/internal/testenv"
)

// shown returns the output for one Write of a text, and a Flush.
func shown(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := printable.NewWriter(&out)
	if n, err := w.Write([]byte(text)); err != nil || n != len(text) {
		t.Fatalf("write: %d, %v", n, err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWriter(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":                 "plain\ttext\n",
		"\x1b]0;title\a":                "^[]0;title^G",
		"\x1b[2Jx\rhidden":              "^[[2Jx^Mhidden",
		"c1 \u009b31m raw \x9b31m":      `c1 \u009b31m raw \x9b31m`,
		"del\x7f nul\x00":               "del^? nul^@",
		"bidi \u202e \u2066 \u200f":     `bidi \u202e \u2066 \u200f`,
		"zero \u200b\u200d\ufeff\u00ad": `zero \u200b\u200d\ufeff\u00ad`,
		"lines \u2028\u2029\u0085":      `lines \u2028\u2029\u0085`,
		"tags \U000e0041 \ufe0f\u3164":  `tags \U000e0041 \ufe0f\u3164`,
		"Grüße, 世界, 🙂, e\u0301":         "Grüße, 世界, 🙂, e\u0301",
		"bad \xff\xc3":                  `bad \xff\xc3`,
	} {
		if got := shown(t, in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// hostile returns a random text with parts that cause problems in terminals and parsers.
func hostile(r *rand.Rand) string {
	kinds := []func() string{
		func() string { return string([]byte{byte(r.IntN(256))}) },
		func() string { return string(rune(r.IntN(0x20))) },
		func() string { return string(rune(0x80 + r.IntN(0x20))) },
		func() string { return string(rune(r.IntN(0x110000))) },
		func() string { return string(rune(0x2000 + r.IntN(0x70))) },
		func() string { return string(rune(0xe0000 + r.IntN(0x200))) },
		func() string { return string([]byte("世\U0001f642")[:1+r.IntN(6)]) },
		func() string { return "\x1b]52;c;AAAA\x07" },
		func() string { return "\xc2\x9b" + strconv.Itoa(r.IntN(50)) + "m" },
		func() string { return "plain text\n" },
	}
	var b strings.Builder
	for range r.IntN(30) {
		b.WriteString(kinds[r.IntN(len(kinds))]())
	}
	return b.String()
}

// harmful reports whether a terminal would do more with a character than show it. It uses
// the tables of Unicode instead of those of the package.
func harmful(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Cs) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Variation_Selector, r)
}

// In whatever pieces a text is written, only its tabs and newlines act on a terminal, and
// nothing is lost: the output contains each character, or an escape for it.
func TestWriterProperty(t *testing.T) {
	cases, r := testenv.Cases(t, 200)
	raw := 0
	for i := range cases {
		in := hostile(r)
		var out bytes.Buffer
		w := printable.NewWriter(&out)
		for rest := in; rest != ""; {
			n := 1 + r.IntN(len(rest))
			if got, err := w.Write([]byte(rest[:n])); err != nil || got != n {
				t.Fatalf("write: %d, %v", got, err)
			}
			rest = rest[n:]
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		if want := shown(t, in); got != want {
			t.Fatalf("case %d: cut into writes %q is %q, at once %q", i, in, got, want)
		}
		for at, c := range got {
			if c != '\n' && c != '\t' && harmful(c) || c == utf8.RuneError && !strings.HasPrefix(got[at:], "\ufffd") {
				t.Fatalf("case %d: %q came out as %q, with %U at %d", i, in, got, c, at)
			}
		}
		rest := got
		for at := 0; at < len(in); {
			c, size := utf8.DecodeRuneInString(in[at:])
			bad := c == utf8.RuneError && size == 1
			want := in[at : at+size]
			switch {
			case bad:
				want = fmt.Sprintf(`\x%02x`, in[at])
			case c == '\n' || c == '\t' || printable.Rune(c):
			case c < 0x80:
				want = "^" + string(c^0x40)
			case c > 0xffff:
				want = fmt.Sprintf(`\U%08x`, c)
			default:
				want = fmt.Sprintf(`\u%04x`, c)
			}
			if harmful(c) {
				raw++
			}
			var ok bool
			if rest, ok = strings.CutPrefix(rest, want); !ok {
				t.Fatalf("case %d: %q lost %q in %q", i, in, in[at:at+size], got)
			}
			at += size
		}
		if rest != "" {
			t.Fatalf("case %d: %q has %q too much", i, in, rest)
		}
		encoded, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var want, back string
		safe := printable.JSON(encoded)
		if err := json.Unmarshal(encoded, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(safe, &back); err != nil || back != want || strings.ContainsFunc(string(safe), harmful) {
			t.Fatalf("case %d: the JSON %q became %q, %v", i, encoded, safe, err)
		}
	}
	if raw < 100 {
		t.Errorf("%d characters would have acted on a terminal: the test proves nothing", raw)
	}
}

// ignorable is Default_Ignorable_Code_Point, copied from DerivedCoreProperties.txt of
// Unicode 16, so that it does not depend on the package's tables.
var ignorable = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x00ad, 0x00ad, 1},
		{0x034f, 0x034f, 1},
		{0x061c, 0x061c, 1},
		{0x115f, 0x1160, 1},
		{0x17b4, 0x17b5, 1},
		{0x180b, 0x180f, 1},
		{0x200b, 0x200f, 1},
		{0x202a, 0x202e, 1},
		{0x2060, 0x206f, 1},
		{0x3164, 0x3164, 1},
		{0xfe00, 0xfe0f, 1},
		{0xfeff, 0xfeff, 1},
		{0xffa0, 0xffa0, 1},
		{0xfff0, 0xfff8, 1},
	},
	R32: []unicode.Range32{{0x1bca0, 0x1bca3, 1}, {0x1d173, 0x1d17a, 1}, {0xe0000, 0xe0fff, 1}},
}

// No character of Unicode shows as itself if it has no shape or changes how other
// characters are seen.
func TestRuneOfAllOfUnicode(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		hidden := unicode.In(r, ignorable, unicode.Bidi_Control, unicode.Join_Control, unicode.Variation_Selector, unicode.C, unicode.Zl, unicode.Zp) ||
			r == 0x2800 || r == 0x1d159 || r == 0x16fe4
		assigned := unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Zs)
		if got := printable.Rune(r); got && hidden || got != (assigned && !hidden) {
			t.Errorf("%U shows as itself: %v", r, got)
		}
	}
}

func TestRawIsWhatAWriterWritesTo(t *testing.T) {
	var out bytes.Buffer
	if printable.Raw(printable.NewWriter(&out)) != &out || printable.Raw(&out) != &out {
		t.Error("raw is another writer")
	}
}

// If a shell would read a name as more than one plain word, or a command would read it as
// an option, a person is not advised to type it.
func TestOperand(t *testing.T) {
	for _, name := range []string{"files", "git.hub", "a_b-c", "@scope/server:1", "7"} {
		if got := printable.Operand(name); got != name {
			t.Errorf("%q: got %q", name, got)
		}
	}
	for _, name := range []string{"", "--all", "-a", "+a", "a b", "a;id", "a$(id)", "a`id`", "a|sh", "a&", "a>b", "~root", "a*", "!!", "a\nb", "'a", "é", "аll", "=ls"} {
		if got := printable.Operand(name); got != "NAME" {
			t.Errorf("%q: got %q, want NAME", name, got)
		}
	}
}

// Any text becomes one line, and is cut between characters.
func TestLine(t *testing.T) {
	for _, tt := range []struct {
		text string
		most int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"äöüx", 3, "äöü…"}, {"a\nb\x1b[2J\u202e\u3164c", 20, "a b [2J  c"}, {"\n a \r\n", 9, "a"}, {"a\xffb", 9, "a\ufffdb"},
	} {
		if got := printable.Line(tt.text, tt.most); got != tt.want {
			t.Errorf("%q, %d: got %q, want %q", tt.text, tt.most, got, tt.want)
		}
	}
}
