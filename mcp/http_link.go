package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"belljar.dev/mcp/wire"
)

// Login returns a handler that does the same checks as Handler and finds out the caller of
// a request. It passes the request to next, which sends it to the process that serves it.
// Nothing of its body has been read, and the token has been removed. Of cfg, only Tenant,
// Auth and Guarded are used.
func Login(cfg Config, next func(rw http.ResponseWriter, r *http.Request, caller Identity)) http.Handler {
	w := &web{server: &Server{cfg: &cfg}}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r, ok := w.enter(rw, r); ok {
			next(rw, r, cfg.callerOf(r.Context()))
		}
	})
}

// Linked is HandlerOf for requests whose callers another process has found out, with Login.
// caller returns the caller of a request, or false if the caller is not known.
func Linked(s *Server, caller func(r *http.Request) (Identity, bool), pick func(r *http.Request, caller Identity) (*Server, error)) http.Handler {
	return handlerOf(s, func(rw http.ResponseWriter, r *http.Request) (*http.Request, bool) {
		id, known := caller(r)
		if !known {
			http.Error(rw, "the caller of this request is not known", http.StatusForbidden)
			return nil, false
		}
		if err := checkHeaders(r.Header); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return nil, false
		}
		r.Header.Del("Authorization")
		id.serves(r.Context())
		return r.WithContext(context.WithValue(r.Context(), callerKey{}, id)), true
	}, pick)
}

// Forwarded describes a client's request, for a process that does not serve it.
type Forwarded struct {
	ID     []byte // JSON; nil for a batch and for a message that gets no answer
	Method string
	Tool   string // name of the tool in a tools/call
	Era    wire.Era
	Lasts  bool // the answer is a stream that lasts
}

// ReadForwarded returns the description of a request. For a request that cannot be read it
// returns the zero value: the process that serves the request answers what is wrong.
func ReadForwarded(h http.Header, body []byte) (a Forwarded) {
	body = wire.TrimLine(body)
	if len(body) == 0 || body[0] != '{' || wire.CheckLine(body, Limits{}.withDefaults().Depth) != nil {
		return a
	}
	m, bad := wire.ParseMessage(body)
	if bad != nil || m.Method == "" {
		return a
	}
	a = Forwarded{ID: bytes.Clone(m.ID), Method: m.Method, Era: m.Era(), Lasts: m.Method == methodListen}
	if h.Get(wire.RevisionHeader) >= wire.ModernRevision {
		a.Era = wire.Modern
	}
	if m.Method == "tools/call" {
		a.Tool = wire.Text(wire.Member(m.Params, "name"))
	}
	return a
}

// AnsweredBy reports whether an event of a stream is the answer to the request.
func (a Forwarded) AnsweredBy(event []byte) bool {
	for line := range bytes.SplitSeq(event, []byte("\n")) {
		text, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		text = bytes.TrimSpace(text)
		if bytes.Equal(wire.Member(text, "id"), a.ID) && wire.Member(text, "method") == nil {
			return true
		}
	}
	return false
}

// faultKey is the member of _meta that states why a result is an error of the fleet.
const faultKey = "belljar.dev/fault"

// Lost returns the answer to a request if the process that served it is gone: for a call a
// result that is an error, for any other request an error. text is for the agent; data is
// for programs. name and version are those of the server.
func (a Forwarded) Lost(text string, data map[string]any, name, version string) []byte {
	if a.Method != "tools/call" {
		bad := wire.Errorf(wire.InternalError, "%s", text)
		bad.Data = data
		return bad.Frame(a.ID, a.Era)
	}
	meta := map[string]any{faultKey: data}
	result := map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}, "isError": true, "_meta": meta}
	if a.Era == wire.Modern {
		meta[wire.ServerKey] = map[string]any{"name": name, "version": version}
		result["resultType"] = "complete"
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return wire.Errorf(wire.InternalError, "%s", text).Frame(a.ID, a.Era)
	}
	return wire.ResultFrame(a.ID, raw)
}
