package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"belljar.dev/mcp/wire"
)

// This file answers tools/call on a stream without the go-sdk, which decodes each
// message several times and allocates 32 KiB for each. It takes calls of the usual
// form; any other call goes through the sdk, so that only one place judges unusual
// messages. Both ways end in Server.call and give the same answers; a test compares
// them.

// toolCall is the parameters of a tools/call. Its slices point into the line.
type toolCall struct {
	name  string
	args  []byte
	token []byte // progressToken as the client wrote it; nil for none

	parent, state []byte // traceparent and tracestate in JSON; nil for none

	input *input // nil in the legacy era
}

// plainCall reads a tools/call, or reports that the sdk must read it.
func plainCall(m *wire.Message) (c toolCall, plain bool) {
	if m.Method != "tools/call" || m.Params == nil {
		return c, false
	}
	plain = true
	var name, meta []byte
	wire.Members(m.Params, func(quoted, value []byte) bool {
		switch wire.Unquote(quoted) {
		case "name":
			name = value
		case "arguments":
			c.args = value
		case "_meta":
			meta = value
		default: // inputResponses, for example, which continue an earlier call
			plain = false
		}
		return plain
	})
	if !plain || len(name) == 0 || name[0] != '"' {
		return c, false
	}
	c.name = wire.Unquote(name)
	return c, c.readMeta(meta, m)
}

func (c *toolCall) readMeta(meta []byte, m *wire.Message) (plain bool) {
	if meta == nil {
		return m.Era() == wire.Legacy
	}
	var client, capabilities []byte
	wire.Members(meta, func(quoted, value []byte) bool {
		switch wire.Unquote(quoted) {
		case "progressToken":
			c.token = value
		case "traceparent":
			c.parent = value
		case "tracestate":
			c.state = value
		case "io.modelcontextprotocol/clientInfo":
			client = value
		case "io.modelcontextprotocol/clientCapabilities":
			capabilities = value
		}
		return true
	})
	if c.token != nil {
		if _, bad := wire.IDKey(c.token); bad != nil {
			return false
		}
	}
	if asksStructure(meta, capabilities) {
		return false
	}
	if m.Era() == wire.Legacy {
		return meta[0] == '{'
	}
	c.input = &input{shows: capabilities != nil && showsForms(capabilities)}
	if client != nil {
		var who struct {
			Name    string `json:"name"`
			Version string `json:"version"`
			Title   string `json:"title"`
		}
		if json.Unmarshal(client, &who) != nil {
			return false
		}
		c.input.client = strings.TrimSpace(who.Name + " " + who.Version)
	}
	if bytes.Contains(capabilities, []byte(tasksExtension)) {
		return false // its answer may be deferred
	}
	return m.Revision == wire.ModernRevision && capabilities != nil && capabilities[0] == '{'
}

// direct runs a plain tools/call in a goroutine, and reports false for any
// other request. ctx is that of all calls of the connection.
func (s *Server) direct(ctx context.Context, g *guard, e *entry) bool {
	c, plain := plainCall(e.msg)
	if !plain {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	g.mu.Lock()
	e.cancel = cancel
	if e.silent { // cancelled after its turn came
		cancel()
	}
	g.mu.Unlock()
	g.direct.Go(func() {
		defer cancel()
		g.finish(e, s.directFrame(ctx, g, e, c))
	})
	return true
}

// directFrame is the answer to a call.
func (s *Server) directFrame(ctx context.Context, g *guard, e *entry, c toolCall) (frame []byte) {
	in := e.msg.Era()
	defer func() {
		if p := recover(); p != nil { // of a MarshalJSON in a result
			s.cfg.Log.Error("an answer panicked", "tool", c.name, "panic", p, "stack", string(debug.Stack()))
			e.out.Done(false)
			frame = wire.Errorf(wire.InternalError, "internal error in tools/call; the log has the cause").Frame(e.msg.ID, in)
		}
	}()
	var progress progressFunc
	if c.token != nil {
		progress = func(done, total float64, message string) {
			if err := g.out.Offer(progressFrame(c.token, done, total, message)); err != nil {
				s.cfg.Log.Debug("progress was not sent", "session", g.session.id, "error", err)
			}
		}
	}
	if c.parent != nil {
		ctx = withParent(ctx, wire.Text(c.parent), wire.Text(c.state))
	}
	if c.input != nil {
		ctx = withInput(ctx, c.input)
	}
	res, err := s.gate.call(withOutgoing(ctx, e.out), g.session, c.name, c.args, s.cfg.Patience, progress)
	if err == nil {
		// Calls that ask for another form go through the sdk.
		res, err = res.shown(s.cfg.structures(g.session, nil))
	}
	if err == nil {
		frame, err = s.resultFrame(e.msg.ID, res, in)
	}
	if err != nil {
		e.out.Done(false)
		return wire.AsError(err).Frame(e.msg.ID, in)
	}
	return frame
}

// resultFrame is a Result as a line of the wire, without its LF.
func (s *Server) resultFrame(id []byte, r *Result, in wire.Era) ([]byte, error) {
	if r.needs != nil {
		return r.needs.frame(id, map[string]any{serverInfoKey: map[string]string{"name": s.cfg.Name, "version": s.cfg.Version}})
	}
	size := 160 + len(id)
	for _, c := range r.Content {
		size += len(c.Text) + len(c.Text)/16 + len(c.URI) + len(c.Data)/3*4 + 64
	}
	var structured []byte
	if r.Structured != nil {
		var err error
		if structured, err = json.Marshal(r.Structured); err != nil {
			return nil, wire.Errorf(wire.InternalError, "marshal the structured result: %v", err)
		}
		size += len(structured)
	}
	var meta map[string]any
	if in == wire.Modern {
		meta = map[string]any{serverInfoKey: map[string]string{"name": s.cfg.Name, "version": s.cfg.Version}}
		if r.Task != "" {
			meta[relatedKey] = map[string]string{"taskId": r.Task}
		}
	}
	b := make([]byte, 0, size)
	b = append(append(append(b, `{"jsonrpc":"2.0","id":`...), id...), `,"result":{`...)
	if len(meta) > 0 {
		raw, err := json.Marshal(meta)
		if err != nil {
			return nil, wire.Errorf(wire.InternalError, "marshal _meta: %v", err)
		}
		b = append(append(append(b, `"_meta":`...), raw...), ',')
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

const (
	serverInfoKey = "io.modelcontextprotocol/serverInfo"
	relatedKey    = "io.modelcontextprotocol/related-task"
)

func (c Content) append(b []byte) []byte {
	switch {
	case c.Data != nil:
		b = append(b, `{"type":"image","data":"`...)
		b = base64.StdEncoding.AppendEncode(b, c.Data)
		b = append(b, `","mimeType":`...)
		b = appendQuoted(b, c.MIME)
	case c.URI != "":
		b = appendQuoted(append(b, `{"type":"resource_link","uri":`...), c.URI)
		b = appendQuoted(append(b, `,"name":`...), c.linkName())
		if c.MIME != "" {
			b = appendQuoted(append(b, `,"mimeType":`...), c.MIME)
		}
	default:
		b = appendQuoted(append(b, `{"type":"text","text":`...), c.Text)
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

// appendQuoted appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD; the output of a command may contain such bytes.
func appendQuoted(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), "\ufffd"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}
