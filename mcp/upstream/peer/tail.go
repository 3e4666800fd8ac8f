package peer

import (
	"bytes"
	"slices"
	"sync"

	"belljar.dev/internal/printable"
)

const (
	tailBytes = 64 << 10
	tailLine  = 1 << 10 // most bytes of one line that are shown
)

// Tail is a Writer that keeps the last 64 KiB of what is written to it, such as the stderr
// of a server. Its zero value is empty. It is safe for concurrent use.
type Tail struct {
	mu   sync.Mutex
	ring []byte // guarded by mu: nil before the first byte
	at   int    // guarded by mu: index of the next byte to write
	full bool   // guarded by mu: the ring contains tailBytes bytes
	lost bool   // guarded by mu: bytes before those in the ring were lost
}

// Write keeps the end of p. It does not fail.
func (t *Tail) Write(p []byte) (int, error) {
	n := len(p)
	if n == 0 {
		return 0, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ring == nil {
		t.ring = make([]byte, tailBytes)
	}
	t.lost = t.lost || t.full || t.at+n > tailBytes
	if n >= tailBytes {
		p = p[n-tailBytes:]
		t.at, t.full = 0, true
	}
	for len(p) > 0 {
		k := copy(t.ring[t.at:], p)
		p = p[k:]
		t.at += k
		if t.at == tailBytes {
			t.at, t.full = 0, true
		}
	}
	return n, nil
}

// Lines returns the last lines, without control characters. most is the largest number of
// lines. A "…" marks where a line was cut, because it is long or its beginning was lost.
// Empty lines are left out.
func (t *Tail) Lines(most int) []string {
	text, lost := t.bytes()
	return lastLines(text, lost, most)
}

// Ended is Lines without the text after the last line feed. The rest of that line has not
// been written yet, so it may be one half of a secret.
func (t *Tail) Ended(most int) []string {
	text, lost := t.bytes()
	return lastLines(text[:bytes.LastIndexByte(text, '\n')+1], lost, most)
}

// lastLines returns the last lines of a text. lost reports that the text before it was
// lost.
func lastLines(text []byte, lost bool, most int) []string {
	var lines []string
	for len(text) > 0 && len(lines) < most {
		from := bytes.LastIndexByte(text, '\n') + 1
		line := bytes.TrimRight(text[from:], "\r \t")
		text = text[:max(0, from-1)]
		if len(line) == 0 {
			continue
		}
		if from == 0 && lost {
			lines = append(lines, "…"+excerpt(printable.TrimStart(line), tailLine))
			continue
		}
		lines = append(lines, excerpt(line, tailLine))
	}
	slices.Reverse(lines)
	return lines
}

// bytes returns a copy of the kept bytes, the oldest first, and whether bytes before them
// were lost.
func (t *Tail) bytes() (text []byte, lost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.full {
		return bytes.Clone(t.ring[:t.at]), t.lost
	}
	return append(bytes.Clone(t.ring[t.at:]), t.ring[:t.at]...), t.lost
}
