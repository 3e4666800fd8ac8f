package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"belljar.dev/mcp/wire"
)

// UpstreamKey is the member of _meta that names the upstream from which a result, or a
// question to a client's model, comes. A text of an upstream can look like a message of
// this server. But only this server sets the member, and its own refusals do not contain
// it.
const UpstreamKey = "belljar.dev/upstream"

// textMost is how much text of an upstream's result is sent to a client, in bytes. Models
// read all of it.
const textMost = 1 << 20

// RemoteError is a JSON-RPC error of an upstream. The client gets it with its code and
// data, unless the code is about the connection, because the client has another connection.
type RemoteError struct {
	Code    int64
	Message string
	Data    json.RawMessage // nil if there are no data
	// Addresses states that Code and Data ask a person to open addresses, and that the
	// addresses were checked. If it is false, the client does not get the code of such an
	// error.
	Addresses bool
}

// Error returns the upstream's message.
func (e *RemoteError) Error() string { return e.Message }

// errorTextMost and errorDataMost are the largest parts of an upstream's error that are
// passed on, in bytes.
const (
	errorTextMost = 16 << 10
	errorDataMost = 64 << 10
)

// faultText returns the text of an error that an upstream may have written, cut to
// errorTextMost.
func faultText(err error) string { return clip(err.Error(), errorTextMost) }

// RawResult reads the result of a tools/call as an upstream wrote it. The blocks of its
// content are not changed (Content.Raw). RawResult returns an error if raw is not a result.
func RawResult(upstream string, raw json.RawMessage) (*Result, error) {
	r, err := parseResult(raw)
	if err != nil {
		return nil, fmt.Errorf("upstream %s answered with something that is not a result: %w", upstream, err)
	}
	r.Upstream = upstream
	return r, nil
}

func parseResult(raw json.RawMessage) (*Result, error) {
	if err := wire.CheckJSON(raw, definitionDeep); err != nil {
		return nil, err
	}
	line := bytes.TrimSpace(raw)
	if bytes.ContainsAny(line, "\n\r") { // a result over HTTP may contain line breaks
		var compact bytes.Buffer
		if err := json.Compact(&compact, line); err != nil {
			return nil, err
		}
		line = compact.Bytes()
	}
	if !wire.IsObject(line) {
		return nil, fmt.Errorf("it is %s", kindOf(line))
	}
	r, bad := new(Result), error(nil)
	wire.Members(line, func(member, value []byte) bool {
		key, none := string(member), string(value) == "null"
		switch {
		case none:
		case key == "content":
			r.Content, bad = readBlocks(value)
		case key == "structuredContent":
			r.Structured = json.RawMessage(value)
		case key == "isError" && value[0] != 't' && value[0] != 'f', key == "_meta" && value[0] != '{':
			bad = fmt.Errorf("its %s is %s", key, kindOf(value))
		case key == "isError":
			r.IsError = value[0] == 't'
		case key == "_meta":
			r.Meta = readMeta(value)
		}
		return bad == nil
	})
	return r, bad
}

// readBlocks reads the content of a result. A block that contains only a text becomes a
// Content without Raw.
func readBlocks(content []byte) (blocks []Content, bad error) {
	if content[0] != '[' {
		return nil, fmt.Errorf("its content is %s", kindOf(content))
	}
	wire.Elements(content, func(block []byte) bool {
		if !wire.IsObject(block) {
			bad = fmt.Errorf("a block of its content is %s", kindOf(block))
			return false
		}
		c := Content{Raw: block, Text: blockText(block)}
		if c.Text == "" {
			c.MIME = cmp.Or(wire.Text(wire.Member(block, "mimeType")), wire.Text(wire.Member(block, "type")))
		}
		if isPlainText(block) {
			c = Content{Text: c.Text}
		}
		blocks = append(blocks, c)
		return true
	})
	return blocks, bad
}

// isPlainText reports whether a block has a type and a text, and nothing else.
func isPlainText(block []byte) bool {
	plain, members := wire.Text(wire.Member(block, "type")) == "text", 0
	wire.Members(block, func(member, value []byte) bool {
		members++
		plain = plain && (string(member) == "type" || string(member) == "text" && value[0] == '"')
		return plain
	})
	return plain && members == 2
}

// blockText returns the text of a block: its own text, or the text of the resource in it.
func blockText(block []byte) string {
	if own := wire.Member(block, "text"); own != nil {
		return wire.Text(own)
	}
	return wire.Text(wire.Member(wire.Member(block, "resource"), "text"))
}

// withText returns a block with its own text, or the text of the resource in it, replaced.
func withText(block []byte, text string) []byte {
	if wire.Member(block, "text") != nil {
		return withMember(block, "text", wire.AppendQuoted(nil, text))
	}
	return withMember(block, "resource", withMember(wire.Member(block, "resource"), "text", wire.AppendQuoted(nil, text)))
}

// withMember returns an object with the value of one of its members replaced.
func withMember(object []byte, name string, value []byte) []byte {
	out := []byte("{")
	wire.Members(object, func(member, old []byte) bool {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(wire.AppendQuoted(out, string(member)), ':')
		if string(member) == name {
			old = value
		}
		out = append(out, old...)
		return true
	})
	return append(out, '}')
}

// readMeta reads the _meta of a result without the keys that belong to one hop. These are
// the keys of the protocol, which describe the connection and the server at its end, and
// this server's own keys, which no other server may set.
func readMeta(meta []byte) map[string]json.RawMessage {
	all := make(map[string]json.RawMessage)
	wire.Members(meta, func(member, value []byte) bool {
		key := string(member)
		if !strings.HasPrefix(key, "io.modelcontextprotocol/") && !strings.HasPrefix(key, "belljar.dev/") {
			all[key] = value
		}
		return true
	})
	return all
}

// shortened returns the result of an upstream without the text beyond a number of bytes. A
// text of this server states what is left out.
func (r *Result) shortened(most int) *Result {
	size := 0
	for _, c := range r.Content {
		size += len(c.Text)
	}
	structured, _ := r.Structured.(json.RawMessage)
	if size <= most && len(structured) <= most {
		return r
	}
	with, notes := *r, []Content(nil) // a copy, because the result belongs to the handler
	if size > most {
		notes = append(notes, Content{Text: fmt.Sprintf("[belljar: upstream %s answered with %d bytes of text; only the first %d are passed on]", r.Upstream, size, most)})
	}
	if len(structured) > most {
		// A part would not be JSON, and clients refuse a successful result without it.
		with.Structured, with.IsError = nil, true
		notes = append(notes, Content{Text: fmt.Sprintf("[belljar: upstream %s answered with %d bytes of structured content; no more than %d are passed on]", r.Upstream, len(structured), most)})
	}
	with.Content = nil
	left := most
	for _, c := range r.Content {
		if len(c.Text) > left {
			text := clip(c.Text, left)
			left = 0
			if text == "" {
				continue
			}
			if c.Raw != nil {
				c.Raw = withText(c.Raw, text)
			}
			c.Text = text
		} else {
			left -= len(c.Text)
		}
		with.Content = append(with.Content, c)
	}
	with.Content = append(with.Content, notes...)
	return &with
}

// failed returns the error of an upstream's tool in the form in which the gate passes it
// on. clean redacts the message before it is cut: the rest of a text that was cut would not
// be recognised.
func (u *upstream) failed(err error, clean func(string) string) error {
	theirs, ok := errors.AsType[*RemoteError](err)
	if !ok {
		return err
	}
	kind := wire.InternalError
	if theirs.Code == wire.InvalidParams.Code(wire.Legacy) {
		kind = wire.InvalidParams
	}
	e := wire.Errorf(kind, "upstream %s: %s", u.name, clip(clean(theirs.Message), errorTextMost))
	if e.Number = theirs.Code; ofConnection(e.Number) && !theirs.Addresses {
		e.Text += fmt.Sprintf(" (its error %d)", e.Number)
		e.Number = 0
	}
	var data bytes.Buffer
	switch {
	case theirs.Data == nil:
	case len(theirs.Data) > errorDataMost, wire.CheckJSON(theirs.Data, definitionDeep) != nil, json.Compact(&data, theirs.Data) != nil:
		e.Text += " (with data that are not passed on)"
	default:
		e.Data = json.RawMessage(data.Bytes())
	}
	return e
}

// redacted returns a text without what the policy wants removed from the call's result.
func (c Call) redacted(text string) string {
	redact := c.Session.server.cfg.Redact
	if len(c.redact) == 0 || redact == nil {
		return text
	}
	return redact(text, c.redact)
}

// ofConnection reports whether an error code is about a connection and not about a call:
// the client would read it as a statement about its own connection. The codes are those of
// headers, capabilities and revisions (2026-07-28), of sessions that no longer exist, of a
// URL that the client should open, and of a method that the other side does not have.
func ofConnection(code int64) bool {
	const urlElicitation = -32042
	return -32029 <= code && code <= -32020 || code == -32001 || code == urlElicitation || code == wire.MethodNotFound.Code(wire.Legacy)
}
