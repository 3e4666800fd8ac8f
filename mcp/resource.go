package mcp

import (
	"context"
	"errors"
)

// ErrNotFound is returned by Resource.Read for a URI that names nothing. The
// client gets the code its era has for that.
var ErrNotFound = errors.New("resource not found")

// Resource is a family of resources that share a URI template (RFC 6570, as
// "output://{id}"). Read returns the bytes of one and their MIME type, which
// is Resource.MIME if empty; it must bound what it returns.
type Resource struct {
	Template    string
	Name        string
	Description string
	MIME        string
	Read        func(ctx context.Context, s *Session, uri string) (data []byte, mime string, err error)
}

// AddResource registers a resource template. It panics if the template cannot
// be parsed or Read is nil.
func (s *Server) AddResource(r Resource) {}
