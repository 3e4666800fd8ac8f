package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// keptOutput bounds what is kept of a test's output until it is known whether
// it failed; more is in the log.
const keptOutput = 64 << 10

// tally counts the tests and subtests in what a compiled test writes under
// -test.v, and passes on what the failed ones wrote.
type tally struct {
	passed, failed, skipped int

	to      io.Writer
	rest    []byte          // of a line that has not ended
	kept    []attributed    // since the last test at the top ended
	size    int             // of what is kept, in bytes
	current string          // test that writes
	fine    map[string]bool // tests that did not fail
	over    bool            // the test at the top has its result
	bad     bool            // which is a failure, or one of its subtests' is
}

// attributed is a line and the test that wrote it; "" for no test.
type attributed struct{ test, line string }

func newTally(to io.Writer) *tally { return &tally{to: to, fine: map[string]bool{}} }

// Write takes a piece of the output. It never fails: what cannot be shown is in
// the log.
func (t *tally) Write(text []byte) (int, error) {
	n := len(text)
	t.rest = append(t.rest, text...)
	for {
		line, rest, ok := bytes.Cut(t.rest, []byte{'\n'})
		if !ok && len(t.rest) < keptOutput {
			return n, nil
		}
		if !ok {
			line, rest = t.rest, nil
		}
		t.line(string(line))
		t.rest = append([]byte(nil), rest...)
	}
}

func (t *tally) line(line string) {
	// The results of the subtests follow that of their test, indented.
	if t.over && !strings.HasPrefix(line, " ") {
		t.flush(t.bad)
	}
	test := t.current
	word, rest, _ := strings.Cut(strings.TrimLeft(line, " "), ": ")
	name, _, _ := strings.Cut(rest, " ")
	switch word {
	case "--- PASS":
		t.passed++
	case "--- FAIL":
		t.failed++
		t.bad = true
	case "--- SKIP":
		t.skipped++
	default:
		// "=== RUN   TestX", and CONT and NAME where tests run side by side.
		if f := strings.Fields(line); len(f) == 3 && f[0] == "===" {
			t.current, test = f[2], f[2]
		}
		t.keep(test, line)
		return
	}
	t.fine[name] = word != "--- FAIL"
	t.over = t.over || strings.HasPrefix(line, "---")
	t.keep(name, line)
}

// keep drops the oldest lines where there are too many.
func (t *tally) keep(test, line string) {
	t.kept, t.size = append(t.kept, attributed{test, line}), t.size+len(line)
	for len(t.kept) > 1 && t.size > keptOutput {
		t.size -= len(t.kept[0].line)
		t.kept = t.kept[1:]
	}
}

// flush shows what is kept of tests that are not fine, or forgets it all.
func (t *tally) flush(show bool) {
	for _, k := range t.kept {
		if show && !t.fine[k.test] {
			fmt.Fprintln(t.to, k.line)
		}
	}
	t.kept, t.size, t.current, t.over, t.bad = nil, 0, "", false, false
	clear(t.fine)
}

// end takes what was left without an end. The text behind the last test says
// why a run without a failed test failed: a panic, or something left behind.
func (t *tally) end(failed bool) {
	if len(t.rest) > 0 {
		t.line(string(t.rest))
		t.rest = nil
	}
	t.flush(failed)
}
