package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// remoteCall is the input of a call of an upstream's tool.
type remoteCall struct {
	args  json.RawMessage
	facts policies.Facts
}

// Facts returns what the call touches.
func (c remoteCall) Facts() policies.Facts { return c.facts }

// decodeRemote reads the arguments of a call of an upstream's tool. A member that is twice in
// an object is refused: the policy and the upstream could read different calls.
func decodeRemote(args json.RawMessage, depth int, facts func(map[string]any) policies.Facts) (Gated, map[string]any, error) {
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage(`{}`)
	}
	if err := wire.CheckJSON(args, depth); err != nil {
		return nil, nil, unreadable(err)
	}
	if args = bytes.TrimSpace(args); !wire.IsObject(args) {
		return nil, nil, &argumentError{[]string{fmt.Sprintf("the arguments are %s; they must be an object with the tool's arguments", kindOf(args))}}
	}
	all := make(map[string]any)
	if err := json.Unmarshal(args, &all); err != nil {
		return nil, nil, unreadable(err)
	}
	if facts == nil {
		facts = func(args map[string]any) policies.Facts { return policies.Facts{URLs: webURLs(args)} }
	}
	return remoteCall{args, facts(all)}, all, nil
}

// webURLs returns the URLs in the texts of a JSON value.
func webURLs(v any) (urls []string) {
	switch v := v.(type) {
	case string:
		return policies.WebURLs(v)
	case []any:
		for _, each := range v {
			urls = append(urls, webURLs(each)...)
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			urls = append(urls, webURLs(v[key])...)
		}
	}
	return urls
}
