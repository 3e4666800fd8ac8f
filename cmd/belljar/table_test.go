package main

import (
	"fmt"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

// The rows of a table are at most as wide as the terminal, if the words allow it. No word
// is broken or lost. The table is unchanged if the terminal is wide enough, or if there is
// no terminal.
func TestTableProperty(t *testing.T) {
	n, rnd := testenv.Cases(t, 100)
	for range n {
		columns := 1 + rnd.IntN(5)
		var text strings.Builder
		var all []string
		for range 1 + rnd.IntN(6) {
			for i := range columns {
				if i > 0 {
					text.WriteByte('\t')
				}
				for n := range 1 + rnd.IntN(6) {
					if n > 0 {
						text.WriteByte(' ')
					}
					word := fmt.Sprintf("%d%s", len(all), strings.Repeat("ü", rnd.IntN(9)))
					all = append(all, word)
					text.WriteString(word)
				}
			}
			text.WriteByte('\n')
		}
		width := 20 + rnd.IntN(140)
		got, whole := laidOut(text.String(), width), laidOut(text.String(), 0)
		if longest(whole) <= width && got != whole || strings.Count(whole, "\n") != strings.Count(text.String(), "\n") {
			t.Errorf("at %d columns: got\n%s\nwant\n%s", width, got, whole)
		}
		for line := range strings.Lines(got) {
			if strings.TrimSpace(line) == "" {
				t.Errorf("at %d columns: a line is empty:\n%s", width, got)
			}
		}
		// A word has at most eleven characters, and two spaces follow each column. A table
		// may always be that wide.
		if most := max(width, columns*13); longest(got) > most {
			t.Errorf("at %d columns: a line has %d:\n%s", width, longest(got), got)
		}
		found := strings.Fields(got)
		seen := make(map[string]bool, len(found))
		for _, word := range found {
			seen[word] = true
		}
		for _, word := range all {
			if !seen[word] {
				t.Errorf("at %d columns: %s is broken or lost:\n%s", width, word, got)
			}
		}
		if len(found) != len(all) {
			t.Errorf("got %d words, want %d", len(found), len(all))
		}
	}
}

// A long cell continues below its first line.
func TestTableGoesOn(t *testing.T) {
	got := laidOut("NAME\tUSE\na\tone two three\n", 14)
	if want := "NAME  USE\na     one two\n      three\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A text from outside belljar neither breaks out of its cell nor hides in it.
func TestCell(t *testing.T) {
	if got, want := cell("a\tb\x1bc\u0085d\u202ee\u200bf\u3164g"), "a b c defg"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
