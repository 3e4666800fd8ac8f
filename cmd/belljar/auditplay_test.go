package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTame checks that sequences that only draw are shown, and that sequences that make a
// terminal do other things are not, however they are cut.
func TestTame(t *testing.T) {
	for text, want := range map[string]string{
		"plain é\r\n\tx\b\a":                            "plain é\r\n\tx\b",
		"\x1b[1;31mred\x1b[0m\x1b[2J\x1b[10;5H":         "\x1b[1;31mred\x1b[0m\x1b[2J\x1b[10;5H",
		"\x1b[38:2::9:8:7mx\x1b[m\x1b[3b":               "\x1b[38:2::9:8:7mx\x1b[m\x1b[3b",
		"\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l":      "\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l",
		"a\x1b]52;c;ZXZpbA==\x07b":                      "ab",
		"a\x1b]0;title\x1b\\b":                          "ab",
		"a\x1b]0;title\u009cb":                          "ab",
		"a\x1bPq#0\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d":    "abcd",
		"a\x1b[6nb\x1b[cb\x1b[>0qb\x1b[21tb\x1b[5ib":    "abbbbb",
		"\u009d52;c;x\u009c\x05\x0e":                    "52;c;x",
		"\u0085a\u009ab\u202ec\u200bd":                  "abcd",
		"\x1bc\x1b#8\x1bM":                              "\x1bM",
		"a\x1b(Bb\x1b%Gc\x1b=\x1b>d":                    "abcd",
		"\x1b[" + strings.Repeat("1;", 40) + "mx\x1b[m": "x\x1b[m",
		// Modes for the mouse, the focus, the keys and pasted text change what a terminal
		// sends. In some of these sequences, only a part may pass.
		"\x1b[?1000h\x1b[?1003h\x1b[?1004h\x1b[?2004h\x1b[?1h\x1b[2h\x1b[20h\x1b[4h": "",
		"\x1b[?1049;1000;25h": "\x1b[?1049h\x1b[?25h\x1b[?1049l",
		// After a private marker or an intermediate byte, a harmless final byte has another
		// meaning, often a question.
		"\x1b[?1;1;0S\x1b[>4;2m\x1b[?4m\x1b[>c\x1b[=1;1u\x1b[1$r\x1b[1 @\x1b[#P\x1b[?1r": "",
		"\x1b[1;2;3;4;5T\x1b[2T":                   "\x1b[2T",
		"\x1b[3J\x1b[?3J\x1b[03J\x1b[2;3J\x1b[?2K": "\x1b[?2K",
		"\x1b[99999S\x1b[9999S":                    "\x1b[9999S",
		// An ESC or CAN ends a sequence or a string, and other controls act within it.
		"\x1b[3\x1b[31mx\x1b[5\x18y\x1b[3\n1mz\x1b[m": "\x1b[31mxy\n\x1b[31mz\x1b[m",
		"\x1b]a\x1b[31mx\x1b]b\x18y\x1bPc\x1az\x1b[m": "\x1b[31mxyz\x1b[m",
		"\x1b[3é\x1b é": "éé",
		// What a terminal would hide for ever is shown.
		"\x1b]never\nends": "never\nends",
		"\x1b]" + strings.Repeat("x", maxString) + "y\x1b[6n": strings.Repeat("x", maxString) + "y",
	} {
		var whole, cut tame
		got, pieces := whole.text(text)+whole.end(), ""
		for _, r := range text {
			pieces += cut.text(string(r))
		}
		pieces += cut.end()
		if got != want || pieces != want {
			t.Errorf("%.60q: got %.60q, and in pieces %.60q, want %.60q", text, got, pieces, want)
		}
	}
}

// TestTameRestores checks that a recording that sets something and is cut off leaves the
// terminal as it was.
func TestTameRestores(t *testing.T) {
	for text, want := range map[string]string{
		"x":                            "",
		"\x1b[1;31mx":                  "\x1b[m",
		"\x1b[1;31mx\x1b[0m":           "",
		"\x1b[?1049h\x1b[?25l\x1b[?7l": "\x1b[?1049l\x1b[?25h\x1b[?7h",
		"\x1b[?1049h\x1b[?1049l":       "",
		"\x1b[2;5r":                    "\x1b[?6l\x1b[r\x1b[9999;1H\r\n",
		"\x1b[?6h\x1b[2;5r\x1b[r":      "\x1b[?6l\x1b[r\x1b[9999;1H\r\n",
		"\x1b[2;5r\x1b[r":              "",
		"\x1b[31m\x1b]x":               "x\x1b[m",
	} {
		var tamed tame
		tamed.text(text)
		if got := tamed.end(); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got := tamed.end(); got != "" {
			t.Errorf("%q: got %q from a second end, want nothing", text, got)
		}
	}
}

// TestPlayWaits checks that the pause before an output is the recorded one, divided by the
// speed and at most as long as allowed, also if other events are in between.
func TestPlayWaits(t *testing.T) {
	const text = `{"version":2}
[0, "o", "a"]
[5, "r", "80x24"]
[6, "o", "b"]
`
	for _, tt := range []struct {
		speed float64
		idle  time.Duration
		want  time.Duration
	}{
		{1, time.Minute, 6 * time.Second},
		{2, time.Minute, 3 * time.Second},
		{1, 2 * time.Second, 2 * time.Second},
		{1e-300, time.Second, time.Second},
		{1e-300, 1<<63 - 1, 1<<63 - 1},
	} {
		t.Run(fmt.Sprint(tt.speed, tt.idle), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := play(ctx, &out, []byte(text), tt.speed, tt.idle); err != nil {
					t.Fatal(err)
				}
				want, shown := tt.want, "ab"
				if want > time.Hour {
					want, shown = time.Hour, "a"
				}
				if got := time.Since(begun); got != want || out.String() != shown {
					t.Errorf("played %q in %s, want %q in %s", out.String(), got, shown, want)
				}
			})
		})
	}
}
