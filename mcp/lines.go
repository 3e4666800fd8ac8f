package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"belljar.dev/mcp/wire"
)

// readLines handles the client's lines until the stream ends. It returns nil at the end of
// the stream, and otherwise the stream's error.
func readLines(g *guard, in io.Reader) error {
	all := wire.NewLineReader(in, g.limits.Line)
	for {
		line, err := all.Next()
		long, isLong := errors.AsType[*wire.LongLineError](err)
		switch {
		case isLong && spoiled(g, long.Answer, fmt.Sprintf("the client's answer is longer than %d bytes", g.limits.Line)):
		case isLong:
			g.refuse(long.ID, wire.Legacy, nil, wire.Errorf(wire.InvalidRequest,
				"invalid request: the line is longer than %d bytes and was skipped", g.limits.Line), g.out)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe):
			return nil
		case err != nil:
			return fmt.Errorf("read from the client: %w", err)
		default:
			readLine(g, line)
		}
	}
}

// readLine handles one line: a message, a batch, or nothing.
func readLine(g *guard, line []byte) {
	line = wire.TrimLine(line)
	if len(line) == 0 {
		return
	}
	if bad := wire.CheckLine(line, g.limits.Depth); bad != nil {
		if !spoiled(g, wire.AnswerID(line), "the client's answer cannot be read: "+bad.Text) {
			g.refuse(wire.RequestID(line), wire.Legacy, nil, bad, g.out)
		}
		return
	}
	if line[0] == '[' {
		g.batch(line, g.out)
		return
	}
	m, bad := wire.ParseMessage(line)
	g.message(m, bad, nil, g.out)
}

// spoiled ends the request of this server whose answer was refused: otherwise the request
// would wait until its time is up. It returns false if no request has the id, which may be
// nil.
func spoiled(g *guard, id []byte, why string) bool {
	if id == nil {
		return false
	}
	return g.response(&wire.Message{Raw: wire.Errorf(wire.InternalError, "%s", why).Frame(id, wire.Legacy)})
}

// batch handles a line that is an array. The answers are one line, which is sent when the
// last answer is ready.
func (g *guard) batch(line []byte, to outlet) {
	g.mu.Lock()
	version := g.version
	g.mu.Unlock()
	if version != wire.BatchRevision {
		g.refuseBatch(line, wire.Errorf(wire.InvalidRequest,
			"invalid request: batches exist in revision %s only; send one message per line", wire.BatchRevision), to)
		return
	}
	var all []*wire.Message
	var faults []*wire.Error
	open := 0
	wire.Elements(line, func(raw []byte) bool {
		m, bad := wire.ParseMessage(bytes.TrimSpace(raw))
		all, faults = append(all, m), append(faults, bad)
		if m.IsRequest() || bad != nil && !m.IsNotification() {
			open++
		}
		return len(all) <= g.limits.Running
	})
	switch {
	case len(all) == 0:
		g.refuse(nil, wire.Legacy, nil, wire.Errorf(wire.InvalidRequest, "invalid request: the batch is empty"), to)
		return
	case len(all) > g.limits.Running:
		g.refuseBatch(line, wire.Errorf(wire.InvalidRequest,
			"invalid request: a batch contains at most %d messages", g.limits.Running), to)
		return
	}
	b := wire.NewBatch(open)
	for i, m := range all {
		g.message(m, faults[i], b, to)
	}
}

// refuseBatch answers each request of a batch with the same error, because the client waits
// for the answer to each id. One answer is sent alone, and several as a batch, which a
// client that sends batches understands. A batch without requests, or with more than
// Running requests, gets one answer with the id null.
func (g *guard) refuseBatch(line []byte, e *wire.Error, to outlet) {
	ids := wire.RequestIDs(line)
	if len(ids) == 0 || len(ids) > g.limits.Running {
		ids = [][]byte{nil}
	}
	var b *wire.Batch
	if len(ids) > 1 {
		b = wire.NewBatch(len(ids))
	}
	for _, id := range ids {
		g.refuse(id, wire.Legacy, b, e, to)
	}
}
