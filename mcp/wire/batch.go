package wire

import (
	"bytes"
	"sync"
)

// BatchRevision is the only revision that has batches.
const BatchRevision = "2025-03-26"

// Batch gathers the answers to the messages of one JSON-RPC batch.
type Batch struct {
	mu   sync.Mutex
	open int        // guarded by mu: number of missing answers
	out  []byte     // guarded by mu: "[" and the answers until now
	with []Delivery // guarded by mu: deliveries of the results in out
}

// NewBatch returns a batch that waits for open answers.
func NewBatch(open int) *Batch { return &Batch{open: open} }

// RequestIDs returns the ids of the requests in a batch.
func RequestIDs(batch []byte) (ids [][]byte) {
	Elements(batch, func(raw []byte) bool {
		if m, bad := ParseMessage(bytes.TrimSpace(raw)); bad == nil && m.IsRequest() {
			ids = append(ids, m.ID)
		}
		return true
	})
	return ids
}

// Over reports whether no answer is missing.
func (b *Batch) Over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open <= 0
}

// Add adds one answer, or nil for a request that gets none. With the last answer it returns
// the whole line. An answer that would make the line larger than limit is replaced by an
// error. answers contains the deliveries of the results in the line.
func (b *Batch) Add(frame []byte, o Delivery, limit int) (line []byte, answers []Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	if len(b.out)+len(frame) > limit {
		frame = TooLarge(len(b.out)+len(frame), limit).Frame(idOf(frame), Legacy)
		if o != nil {
			o.Done(false)
		}
		o = nil
	}
	if o != nil {
		b.with = append(b.with, o)
	}
	if frame != nil {
		sep := byte(',')
		if len(b.out) == 0 {
			sep = '['
		}
		b.out = append(append(b.out, sep), frame...)
	}
	if b.open > 0 || len(b.out) == 0 {
		return nil, nil
	}
	return append(b.out, ']'), b.with
}

func idOf(frame []byte) []byte { return Member(frame, "id") }
