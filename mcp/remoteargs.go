package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

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

// webURLs are the texts in a JSON value that are http or https URLs to a browser, each in the
// form in which the policy reads URLs.
func webURLs(v any) (urls []string) {
	switch v := v.(type) {
	case string:
		if u, ok := webURL(v); ok {
			return []string{u}
		}
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

// webURL reads a text as browsers read it (URL Standard, "basic URL parser"): they drop tabs
// and line feeds, take a backslash for a slash, and take any number of slashes after the
// scheme. A text that they would not read is not a URL, such as a sentence that begins with
// one; ok is false for it. The policy gets every other one, and refuses those that it cannot
// judge.
func webURL(text string) (_ string, ok bool) {
	text = strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })
	text = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(text)
	scheme, rest, found := strings.Cut(text, ":")
	if scheme = strings.ToLower(scheme); !found || scheme != "http" && scheme != "https" {
		return "", false
	}
	end := strings.IndexAny(rest, "?#") // from there on a backslash is one
	if end < 0 {
		end = len(rest)
	}
	place := strings.TrimLeft(strings.ReplaceAll(rest[:end], `\`, "/"), "/")
	host, _, _ := strings.Cut(place, "/")
	if place == "" || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' }) {
		return "", false
	}
	return scheme + "://" + escaped(place+rest[end:]), true
}

// escaped returns a text with its blanks and control characters as a URL has them.
func escaped(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c <= ' ' || c == 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
