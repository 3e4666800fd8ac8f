package mcp

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ErrNotFound is returned by Resource.Read for a URI that names nothing. The
// client gets the code its era has for that.
var ErrNotFound = errors.New("resource not found")

// Resource is a family of resources that share a URI template (RFC 6570, as
// "output://{id}"). Read returns the bytes of one and their MIME type, which
// is Resource.MIME if empty; it must bound what it returns, and its ctx ends
// as a Handler's does.
type Resource struct {
	Template    string
	Name        string
	Description string
	MIME        string
	Read        func(ctx context.Context, s *Session, uri string) (data []byte, mime string, err error)
}

// AddResource registers a resource template. It panics if the template cannot
// be parsed or Read is nil, which is a mistake of this program.
func (s *Server) AddResource(r Resource) {
	if r.Read == nil {
		panic("mcp: add resource " + r.Template + ": Read is nil")
	}
	s.sdk.AddResourceTemplate(
		&sdk.ResourceTemplate{URITemplate: r.Template, Name: r.Name, Description: r.Description, MIMEType: r.MIME},
		func(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return s.read(ctx, r, req)
		})
}

func (s *Server) read(ctx context.Context, r Resource, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	session, err := s.sessionOf(ctx, req.Session)
	if err != nil {
		return nil, err
	}
	ctx, finish, err := session.begin(ctx, newCallID())
	if err != nil {
		return nil, fault(internalError, "%v", err)
	}
	defer finish()
	uri := req.Params.URI
	data, mime, err := r.Read(ctx, session, uri)
	switch {
	case errors.Is(err, ErrNotFound):
		bad := fault(notFound, "%v", err)
		bad.data = map[string]any{"uri": uri, "reason": "resource_not_found"}
		return nil, bad
	case err != nil:
		return nil, fault(internalError, "read %.200s: %v", uri, err)
	case len(data) > s.cfg.Limits.Response:
		return nil, tooLarge(len(data), s.cfg.Limits.Response)
	}
	if mime == "" {
		mime = r.MIME
	}
	c := &sdk.ResourceContents{URI: uri, MIMEType: mime}
	if strings.HasPrefix(mime, "text/") || mime == "application/json" && utf8.Valid(data) {
		c.Text = strings.ToValidUTF8(string(data), "\ufffd")
	} else {
		c.Blob = data
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c}}, nil
}
