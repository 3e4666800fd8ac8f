package mcp

import (
	"bytes"
	"sync"
)

// batchRevision is the one revision that has batches.
const batchRevision = "2025-03-26"

// batch gathers the answers to the messages of one JSON-RPC batch.
type batch struct {
	mu   sync.Mutex
	open int         // guarded by mu: answers that are missing
	out  []byte      // guarded by mu: "[" and the answers so far
	with []*outgoing // guarded by mu: the answers in out that hold results
}

// batch handles a line that is an array. Its answers are one line, sent when
// the last one is there.
func (g *guard) batch(line []byte) {
	g.mu.Lock()
	version := g.version
	g.mu.Unlock()
	if version != batchRevision {
		g.refuseBatch(line, fault(invalidRequest,
			"invalid request: batches exist in revision %s only; send one message per line", batchRevision))
		return
	}
	var all []*message
	var faults []*wireError
	b := &batch{}
	elements(line, func(raw []byte) bool {
		m, bad := parseMessage(bytes.TrimSpace(raw))
		all, faults = append(all, m), append(faults, bad)
		if m.isRequest() || bad != nil && !m.isNotification() {
			b.open++
		}
		return len(all) <= g.limits.Running
	})
	switch {
	case len(all) == 0:
		g.refuse(nil, legacy, nil, fault(invalidRequest, "invalid request: the batch is empty"))
		return
	case len(all) > g.limits.Running:
		g.refuseBatch(line, fault(invalidRequest,
			"invalid request: a batch holds at most %d messages", g.limits.Running))
		return
	}
	for i, m := range all {
		g.message(m, faults[i], b)
	}
}

// refuseBatch answers each request of a batch with the same error, since the client
// waits for those ids: one request alone, several as a batch, which the client that
// sent one understands. A batch without requests, or with more than there is room for,
// is answered once, with the id null.
func (g *guard) refuseBatch(line []byte, e *wireError) {
	ids := requestIDs(line)
	if len(ids) == 0 || len(ids) > g.limits.Running {
		ids = [][]byte{nil}
	}
	var b *batch
	if len(ids) > 1 {
		b = &batch{open: len(ids)}
	}
	for _, id := range ids {
		g.refuse(id, legacy, b, e)
	}
}

// requestIDs are the ids of the requests in a batch.
func requestIDs(batch []byte) (ids [][]byte) {
	elements(batch, func(raw []byte) bool {
		if m, bad := parseMessage(bytes.TrimSpace(raw)); bad == nil && m.isRequest() {
			ids = append(ids, m.id)
		}
		return true
	})
	return ids
}

// add adds one answer, or nil for a request that gets none. With the last one it
// returns the whole line. An answer that would make the line larger than limit is
// replaced by an error. answers are those in the line that contain results.
func (b *batch) add(frame []byte, o *outgoing, limit int) (line []byte, answers []*outgoing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	if len(b.out)+len(frame) > limit {
		frame = tooLarge(len(b.out)+len(frame), limit).frame(idOf(frame), legacy)
		o.done(false)
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

func idOf(frame []byte) []byte { return member(frame, "id") }
