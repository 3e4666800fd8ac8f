package mcp

import (
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// A result is text and images, and has structuredContent only where the client
// asks for it. Clients such as Claude Code 2.1 and Codex 0.169 give their model
// the structured content in place of all else, so that it would never see an
// image, a hint or a notice. Every text is therefore enough alone, and this file
// is the one place that decides.

// structuredKey is how a client asks for structured results and output schemas. It is
// either an experimental capability (with any object), in initialize or, in the modern
// era, in each request; or a member of a request's _meta, true or false, which decides
// for this request alone.
const structuredKey = "belljar.dev/structured"

// structures reports whether the answer to a request has structured content.
// meta is that of the request; session may be nil.
func (c *Config) structures(session *Session, meta sdk.Meta) bool {
	if asked, ok := meta[structuredKey].(bool); ok {
		return asked
	}
	capabilities, _ := meta[wire.CapabilitiesKey].(map[string]any)
	experimental, _ := capabilities["experimental"].(map[string]any)
	return declaresStructure(experimental) || session.structures() || c.Structured
}

// declaresStructure reports whether experimental capabilities ask for structured
// results.
func declaresStructure(experimental map[string]any) bool {
	_, ok := experimental[structuredKey]
	return ok
}

// structures reports whether the session's initialize asked for structured results.
func (s *Session) structures() bool { return s != nil && s.structured.Load() }

// shown returns the result in the form for a client, with its structured part or
// without. If a result has only a structured part, it gets that as text. The result of an
// upstream keeps it: clients want it where the tool's definition promises it. But the legacy
// era has objects only.
func (r *Result) shown(structured, legacy bool) (*Result, error) {
	if structured || r.Structured == nil {
		return r, nil
	}
	if raw, ok := r.Structured.(json.RawMessage); ok && r.Upstream != "" && (!legacy || wire.IsObject(raw)) {
		return r, nil
	}
	out := *r // what a handler returned is its own
	out.Structured = nil
	if len(r.Content) == 0 {
		raw, err := json.Marshal(r.Structured)
		if err != nil {
			return nil, wire.Errorf(wire.InternalError, "marshal the structured result: %v", err)
		}
		out.Content = []Content{{Text: string(raw)}}
	}
	return &out, nil
}
