package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// ErrNotFound means that the name does not exist: Resource.Read returns it for a URI, and
// PromptSource.Get for a prompt. The client gets the error code of its era.
var ErrNotFound = errors.New("resource not found")

// Resource is a family of resources that share a URI template (RFC 6570, for example
// "output://{id}"). Its functions are called from many goroutines, with an open
// session. Their ctx ends in the way of a Handler's, and they must bound what they
// return.
type Resource struct {
	Template    string
	Name        string
	Title       string // title to show to people
	Description string
	MIME        string
	// Read returns the bytes of one resource and their MIME type. An empty type stands for
	// MIME.
	Read func(ctx context.Context, s *Session, uri string) (data []byte, mime string, err error)
	// Facts makes a read a call that the policy decides: a call of the tool that the
	// facts name. Then ReadGranted is used in place of Read. A resource without Facts
	// must contain only what the session has made itself.
	Facts       func(uri string) (policies.Facts, error)
	ReadGranted func(ctx context.Context, call Call, uri string) (data []byte, mime string, err error)
	// List returns the resources that the session has now, in any order; nil lists none. It
	// must not wait for a box: clients list when they connect.
	List func(ctx context.Context, s *Session) ([]Entry, error)
	// Search returns the resources that match a text; nil looks for the text in List's
	// entries.
	Search func(ctx context.Context, s *Session, query string) ([]Entry, error)
	// SearchFacts and SearchGranted are for a search that the policy decides; they
	// correspond to Facts and ReadGranted. A search that the policy does not allow is
	// not made, and nobody is asked about it.
	SearchFacts   func(query string) policies.Facts
	SearchGranted func(ctx context.Context, call Call, query string) ([]Entry, error)
	// Complete returns the values of a variable of the template that begin with the typed
	// text, best first; nil completes nothing.
	Complete func(ctx context.Context, s *Session, variable, typed string) ([]string, error)
	// CompleteFacts and CompleteGranted are for values that the policy decides
	// about, in the way of SearchFacts and SearchGranted. Without facts, no value
	// is offered.
	CompleteFacts   func(variable, typed string) (_ policies.Facts, ok bool)
	CompleteGranted func(ctx context.Context, call Call, variable, typed string) ([]string, error)
}

// Entry is one resource in a list. Size is in bytes, zero if it is not known.
type Entry struct {
	URI         string
	Name        string
	Title       string
	Description string
	MIME        string
	Size        int64
	// Definition is the definition of an upstream's resource, a JSON object as the upstream
	// lists it. It is listed in place of the other fields, with URI as its uri.
	Definition json.RawMessage
}

// resources are the families of resources of a server.
type resources struct {
	cfg  *Config
	gate *callGate

	mu         sync.Mutex
	byTemplate map[string]*Resource // guarded by mu
	remote     []*RemoteResources   // guarded by mu
}

// AddResource registers a family of resources. It panics if the template cannot be
// parsed, is registered already, or has no function to read it; each is a mistake of
// this program.
func (s *Server) AddResource(r Resource) {
	if r.Read == nil && (r.Facts == nil || r.ReadGranted == nil) {
		panic("mcp: add resource " + r.Template + ": Read is nil")
	}
	if !s.resources.add(&r) {
		panic("mcp: add resource " + r.Template + ": another resource has this template")
	}
	s.adapter.offerResource(&r)
}

// add registers a family, unless its template is registered already.
func (rs *resources) add(r *Resource) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if _, twice := rs.byTemplate[r.Template]; twice {
		return false
	}
	rs.byTemplate[r.Template] = r
	return true
}

// of returns the family that has a template, or nil.
func (rs *resources) of(template string) *Resource {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.byTemplate[template]
}

// offerResource makes the sdk list the template of a family and route reads to it.
func (a *adapter) offerResource(r *Resource) {
	a.sdk.AddResourceTemplate(
		&sdk.ResourceTemplate{URITemplate: r.Template, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.MIME},
		func(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return a.read(ctx, r, req)
		})
}

func (a *adapter) read(ctx context.Context, r *Resource, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	session, err := a.sessionOf(ctx)
	if err != nil {
		return nil, err
	}
	c := Call{ID: NewCallID(), Session: session, Progress: withoutProgress}
	ctx, cancel := context.WithCancelCause(ctx)
	if err := session.begin(c.ID, cancel); err != nil {
		return nil, wire.Errorf(wire.InternalError, "%v", err)
	}
	defer session.finish(c.ID)
	uri := req.Params.URI
	var data []byte
	var mime string
	if r.Facts == nil {
		data, mime, err = r.Read(ctx, session, uri)
	} else {
		data, mime, err = a.server.resources.readGated(ctx, r, c, uri)
	}
	switch {
	case err != nil:
		return nil, readFailed(uri, err)
	case len(data) > a.server.cfg.Limits.Response:
		return nil, wire.TooLarge(len(data), a.server.cfg.Limits.Response)
	}
	if mime == "" {
		mime = r.MIME
	}
	c0 := &sdk.ResourceContents{URI: uri, MIMEType: mime}
	if isText(mime) && (strings.HasPrefix(mime, "text/") || utf8.Valid(data)) {
		c0.Text = strings.ToValidUTF8(string(data), "\ufffd")
	} else {
		c0.Blob = append([]byte{}, data...) // not nil: a nil Blob would be left out
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c0}}, nil
}

// isText reports whether content of a MIME type is sent as text.
func isText(mime string) bool {
	mime, _, _ = strings.Cut(mime, ";")
	return strings.HasPrefix(mime, "text/") || mime == "application/json" || strings.HasSuffix(mime, "+json") || strings.HasSuffix(mime, "+xml")
}

// readGated reads through the gate, like a call.
func (rs *resources) readGated(ctx context.Context, r *Resource, c Call, uri string) (data []byte, mime string, err error) {
	f, err := r.Facts(uri)
	if err != nil {
		return nil, "", err
	}
	f.Args = map[string]any{"uri": uri}
	d, err := rs.gate.runGranted(ctx, c, f, func(c Call) error {
		data, mime, err = r.ReadGranted(ctx, c, uri)
		return err
	})
	if err == nil && len(d.Redact) > 0 {
		data = []byte(rs.cfg.Redact(string(data), d.Redact))
	}
	return data, mime, rs.gate.redactFault(err, d)
}

// searchGated searches through the gate, like a call. A refused search finds nothing.
func (rs *resources) searchGated(ctx context.Context, r *Resource, session *Session, query string) (found []Entry, err error) {
	f := r.SearchFacts(query)
	f.Args = map[string]any{"query": query}
	err = rs.gate.runIfAllowed(ctx, session, f, func(c Call) error {
		found, err = r.SearchGranted(ctx, c, query)
		return err
	})
	return found, err
}

// completeGated completes through the gate, like a call. A refused completion finds
// nothing.
func (rs *resources) completeGated(ctx context.Context, r *Resource, session *Session, variable, typed string) (values []string, err error) {
	f, ok := r.CompleteFacts(variable, typed)
	if !ok {
		return nil, nil
	}
	id := NewCallID()
	ctx, cancel := context.WithCancelCause(ctx)
	if err := session.begin(id, cancel); err != nil {
		return nil, wire.Errorf(wire.InternalError, "%v", err)
	}
	defer session.finish(id)
	f.Args = map[string]any{variable: typed}
	err = rs.gate.runIfAllowed(ctx, session, f, func(c Call) error {
		values, err = r.CompleteGranted(ctx, c, variable, typed)
		return err
	})
	return values, err
}

// readResult is the answer to resources/read with empty texts in it. The go-sdk leaves
// an empty text out, but the contents of a resource must have either text or blob
// (MCP 2025-11-25, "TextResourceContents"): clients throw an error.
type readResult struct{ *sdk.ReadResourceResult }

// withEmptyText returns a result that clients can read.
func withEmptyText(r *sdk.ReadResourceResult) sdk.Result {
	if !slices.ContainsFunc(r.Contents, lacksText) {
		return r
	}
	return readResult{r}
}

func lacksText(c *sdk.ResourceContents) bool { return c.Text == "" && c.Blob == nil }

// MarshalJSON marshals the sdk's result, with its contents replaced so that empty texts
// stay.
func (r readResult) MarshalJSON() ([]byte, error) {
	text, err := r.ReadResourceResult.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	contents := make([]any, len(r.Contents))
	for i, c := range r.Contents {
		contents[i] = c
		if lacksText(c) {
			contents[i] = struct {
				*sdk.ResourceContents
				Text string `json:"text"` // shadows the sdk's field, which may be left out
			}{c, ""}
		}
	}
	if all["contents"], err = json.Marshal(contents); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}
