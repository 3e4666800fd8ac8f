package peer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"belljar.dev/mcp/wire"
)

// progressKey is a member of _meta that belongs to one hop, besides those of package wire.
const progressKey = "progressToken"

// deepestLoop is the depth at which a request is not passed on any more.
const deepestLoop = 4

// request is a request to the server, from which each message that makes it is written.
type request struct {
	method string
	quoted []byte // the method as JSON
	body   []byte // the members of params but those below, without braces
	input  []byte // the members inputResponses and requestState of params, without braces
	meta   []byte // the members of params._meta that servers get as they are, without braces
	bare   bool   // it gets no _meta: initialize is older than that
	level  string // the least level of log messages for a modern server; empty for none
	list   bool   // items of its result are checked one by one
	depth  int
}

// newRequest reads the params of a call. They come from a client, so they are checked. The
// error is ErrLoop for a call that has passed too many servers.
func newRequest(method string, params json.RawMessage, depth int) (*request, error) {
	r := &request{method: method, quoted: wire.AppendQuoted(nil, method), depth: depth}
	params = bytes.TrimSpace(params)
	switch err := wire.CheckJSON(params, deepestAnswer); {
	case len(params) == 0:
	case err != nil:
		return nil, fmt.Errorf("the params of %s: %w", method, err)
	case !wire.IsObject(params):
		return nil, fmt.Errorf("the params of %s must be a JSON object", method)
	}
	params = oneLine(params)
	r.body = make([]byte, 0, len(params))
	var meta []byte
	wire.Members(params, func(name, value []byte) bool {
		switch string(name) {
		case "_meta":
			meta = value
		case "inputResponses", "requestState":
			r.input = appendMember(r.input, name, value)
		default:
			r.body = appendMember(r.body, name, value)
		}
		return true
	})
	if r.depth = max(r.depth, wire.Depth(meta)); r.depth >= deepestLoop {
		return nil, ErrLoop
	}
	wire.Members(meta, func(name, value []byte) bool {
		switch string(name) {
		case wire.DepthKey, progressKey, wire.RevisionKey, wire.ClientKey, wire.CapabilitiesKey, wire.LevelKey:
		default:
			r.meta = appendMember(r.meta, name, value)
		}
		return true
	})
	return r, nil
}

// oneLine is a JSON text without line breaks: between two values they are good JSON, and
// would end the message there.
func oneLine(text []byte) []byte {
	if !bytes.ContainsAny(text, "\n\r") {
		return text
	}
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, text)
}

// line writes the request. modern is what the _meta of a modern request says of its client,
// without braces; nil in the legacy era. token says that the server may send progress.
func (r *request) line(id int64, modern []byte, token bool) []byte {
	b := make([]byte, 0, len(r.quoted)+len(r.body)+len(r.input)+len(r.meta)+len(modern)+160)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"method":`...)
	b = append(b, r.quoted...)
	b = append(b, `,"params":{`...)
	b = join(b, r.body)
	b = join(b, r.input)
	if r.bare {
		return append(b, "}}"...)
	}
	b = join(b, []byte(`"_meta":{"`+wire.DepthKey+`":`))
	b = strconv.AppendInt(b, int64(r.depth+1), 10)
	if token {
		b = append(b, `,"`+progressKey+`":`...)
		b = strconv.AppendInt(b, id, 10)
	}
	b = join(b, modern)
	b = join(b, r.meta)
	return append(b, "}}}"...)
}

// modernMeta is what the _meta of a modern request says of its client, without braces.
func modernMeta(revision string, client, capabilities json.RawMessage) []byte {
	b := appendMember(nil, []byte(wire.RevisionKey), strconv.AppendQuote(nil, revision))
	b = appendMember(b, []byte(wire.ClientKey), client)
	return appendMember(b, []byte(wire.CapabilitiesKey), capabilities)
}

// join appends members to those of an object that b ends with.
func join(b, members []byte) []byte {
	if len(members) == 0 {
		return b
	}
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(b, members...)
}

// appendMember appends a member to others. Its name is not quoted.
func appendMember(b, name, value []byte) []byte {
	if len(b) > 0 {
		b = append(b, ',')
	}
	return append(append(wire.AppendQuoted(b, string(name)), ':'), value...)
}

// cancelLine writes the cancel of a request. The reason is shown to people at most.
func cancelLine(id int64, reason string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":%s}}`,
		id, wire.AppendQuoted(nil, reason))
}
