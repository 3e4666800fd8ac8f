package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"time"

	"belljar.dev/mcp/wire"
)

// A tools/call has one path: a transport reads it into a toolCall, callGate.call takes it
// through the gate, and the transport writes the Result. There are two ways of reading and
// writing, and Server.readCall in this file chooses between them:
//
//   - This file reads the parameters and writes the answer, over stdio and over HTTP. That
//     takes less than a tenth of the CPU and a hundredth of the memory that the go-sdk
//     needs, since the go-sdk decodes each message several times (bench_test.go).
//   - What readCall declines, the go-sdk reads and writes (adapter.call in sdk.go). It owns
//     the errors about parameters that do not have the form of the protocol, and the
//     answers that are deferred.
//
// docs/decisions/2026-11-23-one-path-of-a-call.md explains why the second way stays. Tests
// compare the answers of both.

// directCall is a tools/call with the parameters that only its transport needs. Its slices
// are parts of the message's bytes.
type directCall struct {
	toolCall
	token []byte // progressToken as the client wrote it; nil if it is left out
	level string // lowest level of log messages that a modern client wants; empty if it wants none
}

// readCall reads a tools/call or a tool called as a method. It returns false if the go-sdk
// must read the request.
func (s *Server) readCall(session *Session, m *wire.Message) (c *directCall, ok bool) {
	if m.Method != "tools/call" {
		return s.tools.readMethod(m, s.cfg.Patience)
	}
	if m.Params == nil {
		return nil, false
	}
	c, ok = new(directCall), true
	var name, answers []byte
	state := ""
	wire.Members(m.Params, func(member, value []byte) bool {
		switch string(member) {
		case "name":
			name = value
		case "arguments":
			c.args = value
		case "_meta": // readMeta reads m.Meta
		case "requestState":
			state = wire.Text(value)
			ok = m.Era() == wire.Modern && state != ""
		case "inputResponses":
			answers = value
			ok = m.Era() == wire.Modern
		default:
			ok = false
		}
		return ok
	})
	if !ok || len(name) == 0 || name[0] != '"' {
		return nil, false
	}
	c.name, c.patience = wire.Unquote(name), s.cfg.Patience
	if s.cfg.Suite != nil {
		if _, known := s.tools.find(session.tenant, c.name); !known {
			return nil, false // the name may be that of a tool of the suite
		}
	}
	if !c.readMeta(m, s.cfg.structures(session, nil)) {
		return nil, false
	}
	if c.input != nil {
		c.input.state = state
		ok = answers == nil || json.Unmarshal(answers, &c.input.answers) == nil
	}
	return c, ok
}

// readMethod reads the call of a tool as a method. It returns false for any other request.
func (ts *toolset) readMethod(m *wire.Message, patience time.Duration) (*directCall, bool) {
	t, ok := ts.method(m.Method)
	if !ok {
		return nil, false
	}
	c := &directCall{toolCall: toolCall{name: t.info.Name, args: arguments(m.Params), patience: patience, bare: true}}
	if !c.readMeta(m, true) {
		return nil, false
	}
	c.structured = true
	if c.input != nil {
		// answers would come in params, which contain the arguments here
		c.input.shows, c.input.opens, c.input.samples = false, false, false
	}
	return c, true
}

// readMeta reads the _meta of a call. structured is true if all results of the session are
// structured. It returns false if the go-sdk must read the call.
func (c *directCall) readMeta(m *wire.Message, structured bool) (ok bool) {
	c.structured = structured
	if m.Meta == nil {
		return m.Era() == wire.Legacy
	}
	var parent, state, client, capabilities, asked []byte
	wire.Members(m.Meta, func(member, value []byte) bool {
		switch string(member) {
		case "progressToken":
			c.token = value
		case "traceparent":
			parent = value
		case "tracestate":
			state = value
		case wire.ClientKey:
			client = value
		case wire.CapabilitiesKey:
			capabilities = value
		case structuredKey:
			asked = value
		case wire.LevelKey:
			c.level = wire.Text(value)
		}
		return true
	})
	if c.token != nil {
		if _, bad := wire.IDKey(c.token); bad != nil {
			return false
		}
	}
	c.depth = wire.Depth(m.Meta)
	if parent != nil {
		c.parent = readTraceParent(wire.Text(parent), wire.Text(state))
	}
	var wants *bool
	if yes := string(asked) == "true"; yes || string(asked) == "false" {
		wants = &yes
	}
	c.structured = structures(wants, wire.Member(wire.Member(capabilities, "experimental"), structuredKey) != nil, structured)
	if m.Era() == wire.Legacy {
		return wire.IsObject(m.Meta)
	}
	c.input = &input{
		shows: capabilities != nil && showsForms(capabilities), opens: opensAddresses(capabilities),
		samples: wire.IsObject(wire.Member(capabilities, "sampling")),
	}
	if client != nil {
		name, hasName := text(client, "name")
		version, versioned := text(client, "version")
		if _, titled := text(client, "title"); !wire.IsObject(client) || !hasName || !versioned || !titled {
			return false
		}
		c.input.client = named(name, version)
	}
	if !c.bare && bytes.Contains(capabilities, []byte(tasksExtension)) {
		return false // its answer may be deferred
	}
	return m.Revision == wire.ModernRevision && wire.IsObject(capabilities)
}

// text returns a member that is a string, null or left out; ok is false for any other
// value.
func text(object []byte, name string) (_ string, ok bool) {
	value := wire.Member(object, name)
	return wire.Text(value), isNone(value) || value[0] == '"'
}

// serve answers the request in a goroutine. It returns false if the go-sdk must read the
// request. ctx is the context of all requests of the connection.
func (d direct) serve(ctx context.Context) bool {
	if d.entry.msg.Method == "tools/list" {
		return d.serveList(ctx)
	}
	return d.serveCall(ctx)
}

// serveCall does what serve does, for a tools/call or a tool called as a method.
func (d direct) serveCall(ctx context.Context) bool {
	c, ok := d.server.readCall(d.guard.session, d.entry.msg)
	if !ok {
		return false
	}
	ctx, cancel := d.cancellable(ctx)
	c.cancel = cancel
	d.run(cancel, func() {
		defer cancel(context.Canceled)
		frame, _ := d.server.callFrame(withOutlet(ctx, d.entry.to), d.guard.session, d.entry.msg, d.entry.out, c)
		d.guard.finish(d.entry, frame)
	})
	return true
}

// callFrame returns the answer to a call, and the error in the answer, if any. Progress is
// sent to the outlet in ctx.
func (s *Server) callFrame(ctx context.Context, session *Session, m *wire.Message, out *outgoing, c *directCall) (frame []byte, bad *wire.Error) {
	in := m.Era()
	return framed(s.cfg.Log, m, out, "tools/call", c.name, func() ([]byte, error) {
		c.out = out
		if to, ok := ctx.Value(outletKey{}).(outlet); ok {
			c.logs = logsOf(session, to, in == wire.Modern, c.level)
			c.progress = progressTo(session, to, c.token)
		}
		res, err := s.gate.call(ctx, session, c.toolCall)
		switch {
		case err != nil:
			return nil, err
		case c.bare:
			return bareFrame(m.ID, res, in)
		}
		return s.resultFrame(m.ID, res, in)
	})
}

// resultFrame returns a Result as a line of the wire, without its LF.
func (s *Server) resultFrame(id []byte, r *Result, in wire.Era) ([]byte, error) {
	if r.needs != nil {
		return r.needs.frame(id, s.serverInfo)
	}
	size := 160 + len(id) + len(s.serverInfo)
	for _, c := range r.Content {
		size += c.size() + len(c.Text)/16 + 64
	}
	var structured []byte
	if r.Structured != nil {
		var err error
		if structured, err = json.Marshal(r.Structured); err != nil {
			return nil, wire.Errorf(wire.InternalError, "marshal the structured result: %v", err)
		}
		size += len(structured)
	}
	b := make([]byte, 0, size)
	b = append(append(append(b, `{"jsonrpc":"2.0","id":`...), id...), `,"result":{`...)
	if in == wire.Modern {
		b = append(b, `"_meta":{`...)
		if r.Task != "" {
			b = append(append(append(b, '"'), relatedKey...), `":{"taskId":`...)
			b = append(wire.AppendQuoted(b, r.Task), "},"...)
		}
		b = append(append(append(b, '"'), wire.ServerKey...), `":`...)
		b = append(r.appendMeta(append(b, s.serverInfo...), true), "},"...)
	} else if r.Upstream != "" {
		b = append(r.appendMeta(append(b, `"_meta":{`...), false), "},"...)
	}
	b = append(b, `"content":[`...)
	for i, c := range r.Content {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.append(b)
	}
	b = append(b, ']')
	if structured != nil {
		b = append(append(b, `,"structuredContent":`...), structured...)
	}
	if r.IsError {
		b = append(b, `,"isError":true`...)
	}
	if in == wire.Modern {
		b = append(b, `,"resultType":"complete"`...)
	}
	return append(b, "}}"...), nil
}

// progressTo returns a function that sends progress with a token to an outlet; nil without
// a token.
func progressTo(s *Session, to outlet, token []byte) progressFunc {
	if token == nil {
		return nil
	}
	return func(done, total float64, message string) {
		if err := to.Send(progressFrame(token, done, total, message), aProgress); err != nil {
			s.server.cfg.Log.Debug("progress was not sent", "session", s.id, "error", err)
		}
	}
}

const relatedKey = "io.modelcontextprotocol/related-task"

// appendMeta appends the members of _meta in the result of an upstream. others states
// whether there are members before them.
func (r *Result) appendMeta(b []byte, others bool) []byte {
	if r.Upstream == "" {
		return b
	}
	if others {
		b = append(b, ',')
	}
	b = wire.AppendQuoted(append(append(append(b, '"'), UpstreamKey...), `":`...), r.Upstream)
	for _, key := range sortedKeys(r.Meta) {
		b = append(append(wire.AppendQuoted(append(b, ','), key), ':'), r.Meta[key]...)
	}
	return b
}

func (c Content) append(b []byte) []byte {
	switch {
	case c.Raw != nil:
		return append(b, c.Raw...)
	case c.Data != nil:
		b = append(b, `{"type":"image","data":"`...)
		b = base64.StdEncoding.AppendEncode(b, c.Data)
		b = append(b, `","mimeType":`...)
		b = wire.AppendQuoted(b, c.MIME)
	case c.URI != "":
		b = wire.AppendQuoted(append(b, `{"type":"resource_link","uri":`...), c.URI)
		b = wire.AppendQuoted(append(b, `,"name":`...), c.linkName())
		if c.MIME != "" {
			b = wire.AppendQuoted(append(b, `,"mimeType":`...), c.MIME)
		}
	default:
		b = wire.AppendQuoted(append(b, `{"type":"text","text":`...), c.Text)
	}
	return append(b, '}')
}

// progressFrame returns a progress notification. encoding/json writes the numbers,
// because they must not be NaN or infinite on the wire.
func progressFrame(token []byte, done, total float64, message string) []byte {
	params := struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
		Total    float64         `json:"total,omitempty"`
		Message  string          `json:"message,omitempty"`
	}{token, done, total, message}
	raw, err := json.Marshal(params)
	if err != nil {
		raw = append(append([]byte(`{"progressToken":`), token...), `,"progress":0}`...)
	}
	return append(append([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":`), raw...), '}')
}
