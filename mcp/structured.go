package mcp

import (
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// A result consists of text and images, and has structuredContent only if the client asks
// for it. Clients such as Claude Code 2.1 and Codex 0.169 give their model the structured
// content in place of everything else, so the model would never see an image, a hint or a
// notice. Every text is therefore complete without the structured part. Only structures in
// this file decides which form a client gets, for both ways of reading a request.

// structuredKey is the name by which a client asks for structured results and output
// schemas. It is either an experimental capability (with any object as its value), in
// initialize or, in the modern era, in each request; or a member of a request's _meta, true
// or false, which decides for this request alone.
const structuredKey = "belljar.dev/structured"

// structures reports whether the answer to a request has structured content. asked is what
// the _meta of the request says; nil if it does not say it. declared is true if capabilities
// in the request ask for it, and all if the session or the server gives it in all answers.
func structures(asked *bool, declared, all bool) bool {
	if asked != nil {
		return *asked
	}
	return declared || all
}

// structures is the function of this name for a request that the go-sdk reads. meta is the
// _meta of the request, nil if it is not read; session may be nil.
func (c *Config) structures(session *Session, meta sdk.Meta) bool {
	var asked *bool
	if is, ok := meta[structuredKey].(bool); ok {
		asked = &is
	}
	capabilities, _ := meta[wire.CapabilitiesKey].(map[string]any)
	experimental, _ := capabilities["experimental"].(map[string]any)
	return structures(asked, declaresStructure(experimental), session.structures() || c.Structured)
}

// declaresStructure reports whether experimental capabilities ask for structured
// results.
func declaresStructure(experimental map[string]any) bool {
	_, ok := experimental[structuredKey]
	return ok
}

// structures reports whether the session's initialize asked for structured results.
func (s *Session) structures() bool { return s != nil && s.structured.Load() }

// shown returns the result in the form for a client, with or without its structured part. A
// result that has only a structured part gets it as text too. The result of an upstream
// keeps its structured part: clients require it if the tool's definition promises it. But
// in the legacy era it is kept only if it is an object.
func (r *Result) shown(structured, legacy bool) (*Result, error) {
	if structured || r.Structured == nil {
		return r, nil
	}
	if raw, ok := r.Structured.(json.RawMessage); ok && r.Upstream != "" && (!legacy || wire.IsObject(raw)) {
		return r, nil
	}
	out := *r // a copy: the handler may still use its result
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
