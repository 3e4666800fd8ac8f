package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// RemoteResources are the resources of upstreams. The resources of a session may change at
// any time; [Server.ResourcesChanged] notifies clients. The functions of RemoteResources
// are called from many goroutines, with an open session, and must bound what they return.
// Their ctx ends in the way of a Handler's.
type RemoteResources struct {
	// Scheme is the beginning of the scheme of every URI of these resources, for example
	// "mcp+". No other resource may have such a scheme.
	Scheme string
	// List returns the resources that the session has now, in any order. If it fails, the
	// resources of the server itself stay listed.
	List func(ctx context.Context, s *Session) ([]Entry, error)
	// Templates returns the resource templates that the session has, each in the form of
	// the wire.
	Templates func(ctx context.Context, s *Session) ([]json.RawMessage, error)
	// Facts returns what a read touches. The read is a call of the tool that the facts
	// name, and the policy decides it. Facts returns ErrNotFound if the session has no
	// upstream with such a URI.
	Facts func(s *Session, uri string) (policies.Facts, error)
	// Read returns the result of resources/read, in JSON, with the URIs of this server.
	Read func(ctx context.Context, call Call, uri string) (json.RawMessage, error)
	// Complete completes a variable of a template whose URI is one of this server; nil
	// completes nothing. It must end soon: a person is typing.
	Complete func(ctx context.Context, call Call, want Completing) (Completion, error)
}

// templateMost bounds the number of templates that a client gets from one RemoteResources.
// The bytes of all templates are bounded by listingMost.
const templateMost = 1000

// AddRemoteResources registers the resources of upstreams. It panics if a field
// other than Complete is missing, which is a mistake of this program.
func AddRemoteResources(s *Server, r RemoteResources) {
	if r.Scheme == "" || r.List == nil || r.Templates == nil || r.Facts == nil || r.Read == nil {
		panic("mcp: add the resources of upstreams: a field is missing")
	}
	s.resources.mu.Lock()
	defer s.resources.mu.Unlock()
	s.resources.remote = append(s.resources.remote, &r)
}

// remotes returns the registered resources of upstreams.
func (rs *resources) remotes() []*RemoteResources {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return slices.Clip(rs.remote)
}

// remoteOf returns the RemoteResources that a URI belongs to; nil for a resource of this
// server.
func (rs *resources) remoteOf(uri string) *RemoteResources {
	for _, r := range rs.remotes() {
		if len(uri) >= len(r.Scheme) && strings.EqualFold(uri[:len(r.Scheme)], r.Scheme) {
			return r
		}
	}
	return nil
}

// remoteEntries returns the resources of upstreams that a session has.
func (rs *resources) remoteEntries(ctx context.Context, session *Session) (all []Entry) {
	for _, r := range rs.remotes() {
		some, err := r.List(ctx, session)
		if err != nil {
			rs.cfg.Log.Warn("the resources of upstreams are not listed", "scheme", r.Scheme, "error", err)
			continue
		}
		all = append(all, some...)
	}
	return all
}

// templatesResult is a list of templates. The templates of upstreams have members that the
// go-sdk does not know.
type templatesResult struct {
	*sdk.ListResourceTemplatesResult
	ResourceTemplates []any `json:"resourceTemplates"` // shadows the field of the sdk's result
}

// listTemplates answers resources/templates/list. The templates of upstreams come after the
// last of the server's own.
func (a *adapter) listTemplates(ctx context.Context, req *sdk.ListResourceTemplatesRequest, next sdk.MethodHandler) (sdk.Result, error) {
	remote := a.server.resources.remotes()
	if len(remote) == 0 {
		return nil, nil //nolint:nilnil // the sdk answers the request
	}
	session, err := a.sessionOf(ctx)
	if err != nil {
		return nil, err
	}
	res, err := next(ctx, "resources/templates/list", req)
	own, ok := res.(*sdk.ListResourceTemplatesResult)
	if err != nil || !ok || own.NextCursor != "" {
		return res, err
	}
	out := &templatesResult{ListResourceTemplatesResult: own, ResourceTemplates: []any{}}
	for _, t := range own.ResourceTemplates {
		out.ResourceTemplates = append(out.ResourceTemplates, t)
	}
	size := 0
	for _, r := range remote {
		templates, err := r.Templates(ctx, session)
		if err != nil {
			a.server.cfg.Log.Warn("the templates of upstreams are not listed", "scheme", r.Scheme, "error", err)
		}
		for _, raw := range templates[:min(len(templates), templateMost)] {
			if d := readEntry(raw, "uriTemplate", ""); d != nil && size+len(d) <= listingMost {
				size += len(d)
				out.ResourceTemplates = append(out.ResourceTemplates, d)
			}
		}
	}
	out.TTLMs = a.server.tools.ttl(session.tenant)
	return out, nil
}

// remoteRead is the result of resources/read for an upstream's resource, with unchanged
// contents.
type remoteRead struct {
	sdk.ResultBase
	sdk.Cacheable
	ResultType string            `json:"resultType,omitempty"`
	Contents   []json.RawMessage `json:"contents"`
}

// readRemote reads a resource of an upstream through the gate, like a call.
func (a *adapter) readRemote(ctx context.Context, r *RemoteResources, session *Session, req *sdk.ReadResourceRequest) (sdk.Result, error) {
	c := Call{ID: NewCallID(), Session: session, Progress: withoutProgress}
	ctx, cancel := context.WithCancelCause(ctx)
	if err := session.begin(c.ID, cancel); err != nil {
		return nil, wire.Errorf(wire.InternalError, "%v", err)
	}
	defer session.finish(c.ID)
	uri, limit := req.Params.URI, a.server.cfg.Limits.Response
	f, err := r.Facts(session, uri)
	if err != nil {
		return nil, readFailed(uri, err)
	}
	f.Args = map[string]any{"uri": uri}
	var raw json.RawMessage
	d, err := a.server.gate.runGranted(ctx, c, f, func(c Call) error {
		raw, err = r.Read(ctx, c, uri)
		return err
	})
	// The error may contain a text of the upstream, and is redacted like an answer.
	failed := func(err error) *wire.Error { return readFailed(uri, a.server.gate.redactFault(err, d)) }
	switch {
	case err != nil:
		return nil, failed(err)
	case len(raw) > limit:
		return nil, wire.TooLarge(len(raw), limit)
	}
	out := &remoteRead{}
	if out.Contents, err = readContents(raw); err != nil {
		return nil, failed(fmt.Errorf("upstream %s answered with something that is not a resource: %w", f.Upstream, err))
	}
	out.CacheScope, out.Meta = private, sdk.Meta{}
	if meta := wire.Member(raw, "_meta"); wire.IsObject(meta) {
		for key, value := range readMeta(meta) {
			out.Meta[key] = value
		}
	}
	if len(d.Redact) > 0 {
		if err := a.server.gate.redactRead(out, d); err != nil {
			return nil, failed(err)
		}
	}
	out.Meta[UpstreamKey] = f.Upstream
	if eraOf(req) == wire.Modern {
		out.ResultType = resultComplete
	}
	return out, nil
}

// readContents reads the contents of a result of resources/read.
func readContents(raw json.RawMessage) (contents []json.RawMessage, bad error) {
	if err := wire.CheckJSON(raw, definitionDeep); err != nil {
		return nil, err
	}
	all := wire.Member(bytes.TrimSpace(raw), "contents")
	if len(all) == 0 || all[0] != '[' {
		return nil, errors.New("it has no list of contents")
	}
	contents = []json.RawMessage{}
	wire.Elements(all, func(content []byte) bool {
		if !wire.IsObject(content) || wire.Member(content, "uri") == nil {
			bad = fmt.Errorf("one item of its contents is %s, or has no uri", kindOf(content))
			return false
		}
		contents = append(contents, content)
		return true
	})
	return contents, bad
}

// redactRead redacts the contents of a resource as the decision requires.
func (g *callGate) redactRead(r *remoteRead, d policies.Decision) error {
	clean := func(text string) string { return g.cfg.Redact(text, d.Redact) }
	for i, content := range r.Contents {
		clear, err := redactJSON(content, clean)
		if err != nil {
			return err
		}
		r.Contents[i] = withBytes(clear, content, "blob")
	}
	for key, value := range r.Meta {
		if raw, ok := value.(json.RawMessage); ok {
			clear, err := redactJSON(raw, clean)
			if err != nil {
				return err
			}
			r.Meta[key] = clear
		}
	}
	return nil
}

// readFailed is the answer to a read that failed.
func readFailed(uri string, err error) *wire.Error {
	if bad, ok := errors.AsType[*wire.Error](err); ok {
		return bad
	}
	if errors.Is(err, ErrNotFound) {
		bad := wire.Errorf(wire.NotFound, "%s", faultText(err))
		bad.Data = map[string]any{"uri": uri, "reason": "resource_not_found"}
		return bad
	}
	return wire.Errorf(wire.InternalError, "read %.200s: %s", uri, faultText(err))
}
