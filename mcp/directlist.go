package mcp

import (
	"context"
	"encoding/json"
	"strconv"

	"belljar.dev/mcp/wire"
)

// serveList answers a tools/list in a goroutine. It returns false if the go-sdk must read
// the request: one of a modern client, one before the answer to initialize, one with other
// parameters than a cursor, and every request if a suite adds tools, which only the go-sdk
// knows. serveList exists because the go-sdk reads and copies each definition again when it
// writes a list. This took 43 % of the CPU time of a list of 400 tools (BenchmarkList in
// internal/gateway).
func (d direct) serveList(ctx context.Context) bool {
	cursor, ok := listCursor(d.entry.msg)
	if !ok || d.server.cfg.Suite != nil {
		return false
	}
	if revision, _ := d.guard.agreement(); revision == "" {
		return false // the session does not know the client's declarations yet
	}
	ctx, cancel := d.cancellable(ctx)
	d.run(cancel, func() {
		defer cancel(context.Canceled)
		d.guard.finish(d.entry, d.listFrame(withOutlet(ctx, d.entry.to), cursor))
	})
	return true
}

// listCursor returns the cursor of a tools/list; ok is false if the request contains
// anything else.
func listCursor(m *wire.Message) (cursor string, ok bool) {
	if m.Era() != wire.Legacy {
		return "", false
	}
	ok = true
	wire.Members(m.Params, func(member, value []byte) bool {
		ok = string(member) == "cursor" && value[0] == '"'
		cursor = wire.Text(value)
		return ok
	})
	return cursor, ok
}

// listFrame returns the answer to a tools/list, with its members in the order in which the
// go-sdk writes them.
func (d direct) listFrame(ctx context.Context, cursor string) []byte {
	s, session := d.server, d.guard.session
	frame, _ := framed(s.cfg.Log, d.entry.msg, d.entry.out, "tools/list", "", func() ([]byte, error) {
		if s.cfg.Gather != nil {
			s.cfg.Gather(ctx, session)
		}
		all, table := s.tools.listed(session.tenant, s.cfg.structures(session, nil), wire.Legacy)
		tools, next, bad := toolPage(all, cursor, func(t *tool) bool { return s.gate.hides(ctx, session, t) })
		if bad != nil {
			return nil, bad
		}
		return appendList(d.entry.msg.ID, table.notes(), table.ttl(), next, tools), nil
	})
	return frame
}

// appendList returns a list of tools as a line of the wire, without its LF.
func appendList(id []byte, notes map[string]string, ttl int, next string, tools []json.RawMessage) []byte {
	size := len(id) + len(next) + 200
	for name, note := range notes {
		size += len(name) + len(note) + 8
	}
	for _, t := range tools {
		size += len(t) + 1
	}
	b := make([]byte, 0, size)
	b = append(append(append(b, `{"jsonrpc":"2.0","id":`...), id...), `,"result":{`...)
	for i, name := range sortedKeys(notes) {
		if i == 0 {
			b = append(b, `"_meta":{"`+notesKey+`":{`...)
		} else {
			b = append(b, ',')
		}
		b = wire.AppendQuoted(append(wire.AppendQuoted(b, name), ':'), notes[name])
	}
	if len(notes) > 0 {
		b = append(b, "}},"...)
	}
	b = strconv.AppendInt(append(b, `"ttlMs":`...), int64(ttl), 10)
	b = append(b, `,"cacheScope":"`+private+`"`...)
	if next != "" {
		b = wire.AppendQuoted(append(b, `,"nextCursor":`...), next)
	}
	b = append(b, `,"tools":[`...)
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, t...)
	}
	return append(b, "]}}"...)
}
