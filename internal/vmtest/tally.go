package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// keptOutput is how many bytes of a test's output are kept until it is known whether the
// test failed. The log contains the whole output.
const keptOutput = 64 << 10

// tally counts the tests and subtests in what a compiled test writes with -test.v, and
// passes on the output of the failed tests.
type tally struct {
	passed, failed, skipped int

	to      io.Writer
	rest    []byte          // a line that has not ended
	kept    []attributed    // lines since the last top-level test ended
	size    int             // number of bytes in kept
	current string          // test that writes at present
	fine    map[string]bool // true for each test that did not fail
	over    bool            // the result of the top-level test has been read
	bad     bool            // the top-level test or one of its subtests has failed
}

// attributed is a line and the test that wrote it; the test is "" if it is not known.
type attributed struct{ test, line string }

func newTally(to io.Writer) *tally { return &tally{to: to, fine: map[string]bool{}} }

// Write reads a piece of the output. It never fails: the log contains what cannot be shown.
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
		// "=== RUN TestX", or CONT or NAME if tests run in parallel.
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

// keep keeps a line, and drops the oldest lines if there are too many.
func (t *tally) keep(test, line string) {
	t.kept, t.size = append(t.kept, attributed{test, line}), t.size+len(line)
	for len(t.kept) > 1 && t.size > keptOutput {
		t.size -= len(t.kept[0].line)
		t.kept = t.kept[1:]
	}
}

// flush drops the kept lines. If show is true, it first writes the lines of tests that did
// not succeed.
func (t *tally) flush(show bool) {
	for _, k := range t.kept {
		if show && !t.fine[k.test] {
			fmt.Fprintln(t.to, k.line)
		}
	}
	t.kept, t.size, t.current, t.over, t.bad = nil, 0, "", false, false
	clear(t.fine)
}

// end handles a last line without a line end. The text after the last test states why a run
// without a failed test failed, for example because of a panic.
func (t *tally) end(failed bool) {
	if len(t.rest) > 0 {
		t.line(string(t.rest))
		t.rest = nil
	}
	t.flush(failed)
}
