package mcp

import (
	"encoding/json"
	"strings"

	"belljar.dev/mcp/wire"
)

// A tool with Tool.Method is also a method of the protocol. Its params are the arguments,
// with the _meta that every request may have, and the structured result is the result:
//
//	{"jsonrpc":"2.0","id":1,"method":"list_templates","params":{"toolchain":"rust"}}
//	{"jsonrpc":"2.0","id":1,"result":{"templates":[...]}}
//
// Such a call passes the gate, as a tools/call of the tool does. A result has no isError here:
// a call that was refused, and one that failed without a structured result, is answered with
// an error. The modern era has resultType in every result, which is added.

// arguments returns the params without the _meta of the request.
func arguments(params []byte) json.RawMessage {
	if params == nil || wire.Member(params, "_meta") == nil {
		return params
	}
	b := []byte{'{'}
	wire.Members(params, func(member, value []byte) bool {
		if string(member) == "_meta" {
			return true
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(wire.AppendQuoted(b, string(member)), ':'), value...)
		return true
	})
	return append(b, '}')
}

// bareFrame returns the structured part of a Result as a line of the wire, without its LF.
func bareFrame(id []byte, r *Result, in wire.Era) ([]byte, error) {
	result := []byte("{}")
	if r.Structured != nil {
		var err error
		if result, err = json.Marshal(r.Structured); err != nil {
			return nil, wire.Errorf(wire.InternalError, "marshal the structured result: %v", err)
		}
	}
	if no := wire.Member(result, "refusal"); r.IsError && (r.Structured == nil || no != nil) {
		bad := wire.Errorf(wire.InternalError, "%s", r.text())
		if no != nil {
			bad.Data = map[string]any{"reason": "refused", "refusal": json.RawMessage(no)}
		}
		return nil, bad
	}
	if in == wire.Modern {
		more := ","
		if len(result) == len("{}") {
			more = ""
		}
		result = append([]byte(`{"resultType":"complete"`+more), result[1:]...)
	}
	return wire.ResultFrame(id, result), nil
}

// text returns the texts of a result, one per line.
func (r *Result) text() string {
	var all []string
	for _, c := range r.Content {
		all = append(all, c.Text)
	}
	return strings.Join(all, "\n")
}
