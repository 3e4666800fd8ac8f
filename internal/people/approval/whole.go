package approval

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"belljar.dev/internal/people"
	"belljar.dev/policies"
)

// maxWhole bounds the bytes of arguments that a desk keeps for people who want to read all of them.
const maxWhole = 16 << 20

// Part is a part of the arguments of a call, as the agent gave them. Its numbers count bytes.
type Part struct {
	Text  string `json:"text"`
	From  int    `json:"from"`
	Next  int    `json:"next"` // where the next part begins
	Total int    `json:"total"`
}

// wholes has the arguments of calls of which Shown has a part. They are in memory only, and the
// oldest make room for others. It is safe for concurrent use.
type wholes struct {
	mu    sync.Mutex
	kept  []whole // guarded by mu: the oldest first
	bytes int     // guarded by mu: of all texts
}

// whole has the arguments of the call of an approval.
type whole struct{ id, text string }

// keep keeps the arguments of a call.
func (w *wholes) keep(id string, f policies.Facts) {
	var b strings.Builder
	for _, name := range sortedNames(f.Args) {
		fmt.Fprintf(&b, "%s: %v\n", name, f.Args[name])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, whole{id, b.String()})
	w.bytes += b.Len()
	for w.bytes > maxWhole {
		w.bytes -= len(w.kept[0].text)
		w.kept = w.kept[1:]
	}
}

// Arguments returns the part of the arguments of a call that begins at a byte, with at most that many
// bytes. There is one where Shown.Cut is set, while the process lives that asked.
func (d *Desk) Arguments(id string, from, most int) (Part, error) {
	d.whole.mu.Lock()
	defer d.whole.mu.Unlock()
	for _, one := range d.whole.kept {
		if one.id != id {
			continue
		}
		from = min(max(0, from), len(one.text))
		next := min(from+most, len(one.text))
		for next < len(one.text) && next > from && !utf8.RuneStart(one.text[next]) {
			next--
		}
		return Part{strings.ToValidUTF8(one.text[from:next], "\ufffd"), from, next, len(one.text)}, nil
	}
	return Part{}, fmt.Errorf("the arguments of %s are not kept in full (any more): %w text", id, people.ErrUnknown)
}
