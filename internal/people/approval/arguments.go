package approval

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"belljar.dev/internal/people"
	"belljar.dev/internal/printable"
	"belljar.dev/policies"
)

// maxArguments is the most bytes of arguments that a desk keeps for people who want to read
// all of them.
const maxArguments = 16 << 20

// Part is a part of the text of all arguments of a call: lines that name each argument and its value.
// The numbers count bytes.
type Part struct {
	Text  string `json:"text"`
	From  int    `json:"from"`
	Next  int    `json:"next"` // offset of the next part
	Total int    `json:"total"`
}

// keptArguments contains all arguments of the calls whose Shown is cut. They are in memory
// only. The oldest arguments are removed to make room. keptArguments is safe for concurrent
// use.
type keptArguments struct {
	mu    sync.Mutex
	kept  []callArguments // guarded by mu: the oldest first
	bytes int             // guarded by mu: bytes of all texts
}

// callArguments contains the arguments of the call that an approval is about. id is the ID
// of the approval.
type callArguments struct{ id, text string }

// keep keeps the arguments of a call.
func (k *keptArguments) keep(id string, f policies.Facts) {
	text := argumentsOf(f)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, callArguments{id, text})
	k.bytes += len(text)
	drop := 0
	for ; k.bytes > maxArguments; drop++ {
		k.bytes -= len(k.kept[drop].text)
	}
	k.kept = slices.Delete(k.kept, 0, drop) // Delete clears the removed elements, so that their texts are freed
}

// argumentsOf returns the arguments of a call as text, sorted by name. A line that begins
// with a space belongs to a text of several lines, so no text can look like another
// argument. All other values are JSON.
func argumentsOf(f policies.Facts) string {
	var b strings.Builder
	values := json.NewEncoder(&b)
	values.SetEscapeHTML(false)
	for _, name := range sortedNames(f.Args) {
		b.WriteString(Plain(name, maxLine) + ":")
		text, ok := f.Args[name].(string)
		if !ok || !strings.ContainsAny(text, "\n\r") {
			b.WriteByte(' ')
			if err := values.Encode(f.Args[name]); err != nil {
				fmt.Fprintf(&b, "%q\n", fmt.Sprint(f.Args[name]))
			}
			continue
		}
		b.WriteByte('\n')
		for line := range strings.SplitSeq(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n") {
			b.WriteString("    " + line + "\n")
		}
	}
	return b.String()
}

// Arguments returns the part of the arguments of a call that begins at the byte from; most
// is the largest number of its bytes. It returns ErrUnknown if Shown.Cut is not set, if the
// arguments of newer calls have taken the room, and after a restart of the server.
func (d *Desk) Arguments(id string, from, most int) (Part, error) {
	d.arguments.mu.Lock()
	defer d.arguments.mu.Unlock()
	for _, one := range d.arguments.kept {
		if one.id != id {
			continue
		}
		from = min(max(0, from), len(one.text))
		text := printable.Head(one.text[from:], most)
		return Part{strings.ToValidUTF8(text, "\ufffd"), from, from + len(text), len(one.text)}, nil
	}
	return Part{}, fmt.Errorf("the arguments of %s are not kept in full (any more): %w text", id, people.ErrUnknown)
}
