package main

import (
	"bytes"
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

	to   io.Writer
	rest []byte // of a line that has not ended
	kept []byte // since the last test ended
	over bool   // what is kept has its result
	bad  bool   // which is a failure, or one of its subtests' is
}

func newTally(to io.Writer) *tally { return &tally{to: to} }

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
	if len(t.kept)+len(line) > keptOutput {
		t.kept = t.kept[max(0, min(len(t.kept), len(t.kept)+len(line)-keptOutput)):]
	}
	t.kept = append(append(t.kept, line...), '\n')
	result := strings.TrimLeft(line, " ")
	switch {
	case strings.HasPrefix(result, "--- PASS: "):
		t.passed++
	case strings.HasPrefix(result, "--- FAIL: "):
		t.failed++
		t.bad = true
	case strings.HasPrefix(result, "--- SKIP: "):
		t.skipped++
	default:
		return
	}
	t.over = t.over || result == line
}

// flush shows what is kept, or forgets it.
func (t *tally) flush(show bool) {
	if show {
		_, _ = t.to.Write(t.kept)
	}
	t.kept, t.over, t.bad = nil, false, false
}

// end takes what was left without an end. What comes after the last test says
// why a run without a failed one failed: a panic, or something left behind.
func (t *tally) end(failed bool) {
	if len(t.rest) > 0 {
		t.line(string(t.rest))
		t.rest = nil
	}
	t.flush(failed)
}
