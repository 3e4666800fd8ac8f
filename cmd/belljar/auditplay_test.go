package main

import (
	"strings"
	"testing"
)

// TestTame checks that sequences that only draw are shown, and that sequences that make a
// terminal do other things are not, however they are cut.
func TestTame(t *testing.T) {
	for text, want := range map[string]string{
		"plain é\r\n\tx\b":                              "plain é\r\n\tx\b",
		"\x1b[1;31mred\x1b[0m\x1b[2J\x1b[10;5H":         "\x1b[1;31mred\x1b[0m\x1b[2J\x1b[10;5H",
		"\x1b[?1049h\x1b[?25l":                          "\x1b[?1049h\x1b[?25l",
		"a\x1b]52;c;ZXZpbA==\x07b":                      "ab",
		"a\x1b]0;title\x1b\\b":                          "ab",
		"a\x1bPq#0\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d":    "abcd",
		"a\x1b[6nb\x1b[cb\x1b[>0qb\x1b[21tb\x1b[5ib":    "abbbbb",
		"\u009d52;c;x\u009c\x05\x0e":                    "52;c;x",
		"\u0085a\u009ab\u202ec\u200bd":                  "abcd",
		"\x1bc\x1b#8\x1bM":                              "8\x1bM",
		"\x1b]never ends":                               "",
		"\x1b[" + strings.Repeat("1;", 40) + "mx\x1b[m": "",
	} {
		var whole, cut tame
		got, pieces := whole.text(text), ""
		for _, r := range text {
			pieces += cut.text(string(r))
		}
		if strings.HasPrefix(text, "\x1b[1;1;") { // too long for a sequence, so the rest of it is treated as letters
			if strings.Contains(got, "\x1b[1;1") {
				t.Errorf("got %q", got)
			}
			continue
		}
		if got != want || pieces != want {
			t.Errorf("%q: got %q, and in pieces %q, want %q", text, got, pieces, want)
		}
	}
}
