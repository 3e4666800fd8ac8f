package peer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"belljar.dev/mcp/wire"
)

// progressKey is a member of _meta that belongs to one hop, in addition to those of package
// wire.
const progressKey = "progressToken"

// deepestLoop is the depth from which on a request is not passed on.
const deepestLoop = 4

// request is a request to the server. Each message that repeats the request is written from
// it.
type request struct {
	method string
	quoted []byte // the method as JSON
	body   []byte // members of params that have no field below, without braces
	input  []byte // members inputResponses and requestState of params, without braces
	meta   []byte // members of params._meta that servers get unchanged, without braces
	bare   bool   // the request has no _meta: initialize is older than _meta
	level  string // lowest level of log messages for a modern server; empty if none are wanted
	list   bool   // the items of its result are checked one by one
	depth  int
}

// newRequest parses the params of a call. They come from a client, so they are checked. The
// error is ErrLoop for a call that has passed too many belljar servers.
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

// oneLine returns a JSON text without line breaks: they are valid between two values, and
// would end the message.
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

// line returns the request as a line. modern contains the members of _meta that describe
// the client in a modern request, without braces; nil in the legacy era. token reports
// whether the server may send progress.
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

// modernMeta returns the members of _meta that describe the client in a modern request,
// without braces.
func modernMeta(revision string, client, capabilities json.RawMessage) []byte {
	b := appendMember(nil, []byte(wire.RevisionKey), strconv.AppendQuote(nil, revision))
	b = appendMember(b, []byte(wire.ClientKey), client)
	return appendMember(b, []byte(wire.CapabilitiesKey), capabilities)
}

// join appends members to the unfinished object at the end of b.
func join(b, members []byte) []byte {
	if len(members) == 0 {
		return b
	}
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(b, members...)
}

// appendMember appends a member to other members. name is not quoted yet.
func appendMember(b, name, value []byte) []byte {
	if len(b) > 0 {
		b = append(b, ',')
	}
	return append(append(wire.AppendQuoted(b, string(name)), ':'), value...)
}

// cancelLine returns the cancel of a request. The reason is only meant for people.
func cancelLine(id int64, reason string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":%s}}`,
		id, wire.AppendQuoted(nil, reason))
}
