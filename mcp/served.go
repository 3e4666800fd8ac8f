package mcp

import (
	"context"

	"belljar.dev/mcp/wire"
)

// Served is what the HTTP handler learned of a request, for whoever mounts it. The caller
// of WithServed reads it when the handler has returned. It contains nothing of the
// arguments, and no token.
type Served struct {
	Tenant, Principal string // empty for a caller that is not known
	Method            string // of the message, at most maxServedMethod bytes; empty for none
	Tool              string // that a call names, OtherTool if there is no such tool
}

// OtherTool stands for all names of tools that do not exist.
const OtherTool = "_other"

// maxServedMethod bounds the name of a method, which is the client's.
const maxServedMethod = 64

// servedKey is where the context of an HTTP request holds its *Served.
type servedKey struct{}

// WithServed returns a context for a request to the HTTP handler, which fills in Served.
func WithServed(ctx context.Context) (context.Context, *Served) {
	s := new(Served)
	return context.WithValue(ctx, servedKey{}, s), s
}

// serves notes who sends a request.
func (id Identity) serves(ctx context.Context) {
	if s, ok := ctx.Value(servedKey{}).(*Served); ok {
		s.Tenant, s.Principal = id.Tenant, id.Principal
	}
}

// serves notes what a request is.
func (w *web) serves(ctx context.Context, p posted) {
	s, ok := ctx.Value(servedKey{}).(*Served)
	if !ok {
		return
	}
	s.Method = p.method[:min(len(p.method), maxServedMethod)]
	if s.Method != "tools/call" || p.message == nil {
		return
	}
	s.Tool = OtherTool
	name := wire.Text(wire.Member(p.message.Params, "name"))
	if _, known := w.server.tools.find(name); known {
		s.Tool = name
	}
}
