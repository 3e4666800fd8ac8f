package console

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"belljar.dev/internal/golden"
)

// sequences are outputs of ordinary programs and of hostile ones.
var sequences = []string{
	"plain", "two\nlines\n", "tabs\tand\tmore", "\ttab first", "1234567\t8", "12345678\t9", "\n\n\n", "",
	"10%\r20%\r100%", "long text\rshort", "a\r\nb\r\n", "abc\b\bX", "\b\b\bstart", "a\rb\rc\n", "over\ttab\rX\tY",
	"\x1b[31mred\x1b[0m plain", "\x1b[1;31mbold red\x1b[m plain", "\x1b[1m\x1b[3m\x1b[4m\x1b[9m\x1b[7mall\x1b[22m\x1b[23m\x1b[24m\x1b[29m\x1b[27mnone",
	"\x1b[30mk\x1b[37mw\x1b[90mK\x1b[97mW\x1b[39mx", "\x1b[40mk\x1b[47mw\x1b[100mK\x1b[107mW\x1b[49mx",
	"\x1b[38;5;0m0\x1b[38;5;15m15\x1b[38;5;16m16\x1b[38;5;196m196\x1b[38;5;231m231\x1b[38;5;232m232\x1b[38;5;255m255",
	"\x1b[48;5;21mblue", "\x1b[38;2;255;0;0mred\x1b[38;2;1;2;3mblack\x1b[38;2;0;200;0mgreen", "\x1b[48;2;250;250;250mwhite",
	"\x1b[38:5:196mcolons", "\x1b[38:2::255:0:0mspace", "\x1b[38:2:255:0:0mno space", "\x1b[4:3mcurly\x1b[4:0mnone",
	"\x1b[38;5m cut", "\x1b[38m cut", "\x1b[38;2;1m cut", "\x1b[38;5;256m large", "\x1b[38;9;1m unknown", "\x1b[;;1mempty", "\x1b[01;031mzeros",
	"\x1b[2mfaint", "\x1b[8mhidden", "\x1b[5mblinks", "\x1b[21mdouble", "\x1b[999m", "\x1b[65536m", "\x1b[99999999999999999999m",
	"\x1b[" + strings.Repeat("1;", 10_000) + "m", "\x1b[" + strings.Repeat("1;", 31) + "1m31", "\x1b[" + strings.Repeat("1;", 32) + "1m33", "\x1b[" + strings.Repeat("0", 200) + "m",
	"\x1b[2J", "\x1b[H", "\x1b[K", "\x1b[999999999C", "\x1b[?25l", "\x1b[?1049h", "\x1b[6n", "\x1b[>c", "\x1b[1 q", "\x1b[!p", "\x1b[1;2;3", "\x1b[", "\x1b", "\x1b[1\x1b[1mx",
	"\x1b]0;title\a", "\x1b]52;c;aGk=\a", "\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\", "\x1bP1$r\x1b\\", "\x1b_apc\x1b\\", "\x1b^pm\x1b\\", "\x1bc", "\x1b(0qqq", "\x1b7\x1b8", "\x1bM",
	"\x9b31mC1", "\u009b31mC1", "\u0090", "\x00\x01\x02\x07\x0b\x0c\x0e\x0f\x1f\x7f",
	"\xff\xfe", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xed\xa0\x80", "\xc0\xaf", "ä€😀", "e\u0301",
	"\u202eevil", "zero\u200bwidth", "\ufeffbom", "\u2066iso\u2069", "\u2028sep", "\u00adsoft", "\U000e0041tag",
	"<img src=x onerror=alert(1)>", "<script>", "&amp;", "\x1b[31m<b>\x1b[0m", "\x1b[7m \x1b[0m ",
}

func shownPieces(pieces []Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		text := fmt.Sprintf("%q", p.Text)
		if len(text) > 200 {
			text = fmt.Sprintf("%s... (%d bytes)", text[:60], len(p.Text))
		}
		fmt.Fprintf(&b, " [%s]%s", p.Style, text)
	}
	return b.String()
}

// Colours become styles, and all other control sequences are shown as text: WC7, WC-A3.
func TestRender(t *testing.T) {
	if len(sequences) < 80 {
		t.Errorf("%d sequences", len(sequences))
	}
	var b strings.Builder
	for _, s := range sequences {
		in := fmt.Sprintf("%q", s)
		if len(in) > 100 {
			in = in[:100] + "..."
		}
		fmt.Fprintf(&b, "%s\n\t%s\n", in, shownPieces(render([]byte(s), style{})))
	}
	golden.File(t, "testdata/render.golden", b.String())
}

// A text that is cut at any place looks as it does in one piece: WC7.
func TestRenderInParts(t *testing.T) {
	for _, s := range sequences {
		// these characters go back in a line, so parts look different
		if strings.ContainsAny(s, "\r\b\t") || len(s) > 1000 {
			continue
		}
		whole := joined(render([]byte(s), style{}))
		for cut := range len(s) {
			first := []byte(s)[:cut]
			n := wholeUpTo(first, false)
			parts := append(render(first[:n], style{}), render([]byte(s)[n:], lookAfter(first[:n]))...)
			if got := joined(parts); got != whole {
				t.Errorf("%q, cut at %d of %d:\n%s\nwant\n%s", s, n, cut, got, whole)
			}
		}
	}
	for in, want := range map[string]int{
		"abc": 3, "ab\x1b": 2, "ab\x1b[3": 2, "ab\x1b[31;": 2, "ab\x1b[31m": 7, "ab\x1b[2J": 6, "ab\x1b]0;": 6, "ab\xe2\x82": 2, "ab\xc3": 2, "ab\xff": 3, "ab\xe2\x82\xac": 5,
		"\x1b": 0, "\xe2": 0, "x\xf0\x9f\x98": 1,
		// too long to become a sequence
		"ab\x1b[" + strings.Repeat("1", maxSequence-3): 2, "ab\x1b[" + strings.Repeat("1", maxSequence): maxSequence + 4,
	} {
		if got := wholeUpTo([]byte(in), false); got != want {
			t.Errorf("%q: got %d, want %d", in, got, want)
		}
	}
	if got := wholeUpTo([]byte("one\ntwo\nthr"), true); got != 8 {
		t.Errorf("a long text ends at %d, want 8", got)
	}
}

// joined returns the text of pieces, grouped by style.
func joined(pieces []Piece) string {
	var b strings.Builder
	last := ""
	for _, p := range pieces {
		if p.Style != last {
			fmt.Fprintf(&b, "[%s]", p.Style)
			last = p.Style
		}
		b.WriteString(p.Text)
	}
	return b.String()
}

func FuzzRender(f *testing.F) {
	for _, s := range sequences {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		size := 0
		for _, p := range render(text, lookAfter(text)) {
			if p.Text == "" || !utf8.ValidString(p.Text) {
				t.Errorf("%q: a piece is %q", text, p.Text)
			}
			if strings.ContainsFunc(p.Text, func(r rune) bool { return r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0) }) {
				t.Errorf("%q: a piece has a control character: %q", text, p.Text)
			}
			size += len(p.Text)
		}
		if most := 10*len(text) + 8; size > most {
			t.Errorf("%q: %d bytes of text, want at most %d", text, size, most)
		}
		if n := wholeUpTo(text, len(text)%2 == 0); n > len(text) || n < 0 || n < len(text)-maxSequence && bytes.IndexByte(text, '\n') < 0 {
			t.Errorf("%q: %d of %d bytes are whole", text, n, len(text))
		}
		if !bytes.ContainsAny(text, "\r\b\t") && strings.Count(joined(render(text, style{})), "\n") != bytes.Count(text, []byte("\n")) {
			t.Errorf("%q: other lines", text)
		}
	})
}
