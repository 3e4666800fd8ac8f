package mcp

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"belljar.dev/mcp/wire"
)

// Served is what the HTTP handler notes about a request, for the code that mounts the
// handler. The caller of WithServed reads it after the handler has returned. It contains no
// arguments and no token.
type Served struct {
	Tenant, Principal string // empty if the caller is not known
	Method            string // name of the message's method, at most maxServedMethod bytes; empty if the request has no message
	Tool              string // tool that a call names, OtherTool if no such tool exists
	Limit             string // name of the limit that refused the request; empty if none did
	Session           string // id of the session, if the request does not have it in a header

	span *servedSpan                // span of the request itself; nil if nothing is traced
	call atomic.Pointer[servedCall] // the request's call, which may still run after the handler has returned

	hijackedBytes atomic.Int64 // bytes of the answer that were sent after the handler returned

	mu       sync.Mutex
	hijacked bool   // guarded by mu: the answer continues after the handler has returned
	then     func() // guarded by mu: function that WhenOver must call; nil if not set
}

// servedCall contains the ids of a call, and the trace parent that its client sent.
type servedCall struct {
	id, trace string
	parent    TraceParent
}

// Call returns the ids of the call that the request made and of its trace, which are also
// in the call's audit record and span. They are empty if the request made no call. For a
// batch they are the ids of the call that began last.
func (s *Served) Call() (id, trace string) {
	if c := s.call.Load(); c != nil {
		return c.id, c.trace
	}
	return "", ""
}

// WhenOver calls f after the answer has ended. It must be called after the handler has
// returned. It then calls f immediately, unless the answer continues: an answer over a
// WebSocket, or an answer for which [Hijacked] was called. As long as f is kept, everything
// that f refers to stays in memory, so f should refer to nothing of the request.
func (s *Served) WhenOver(f func()) {
	s.mu.Lock()
	if s.hijacked {
		s.then = f
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	f()
}

// Hijacked notes that the answer to the request in ctx continues after the handler has
// returned, until over is called. sent is the number of bytes of the body that were sent
// since the return.
func Hijacked(ctx context.Context) (over func(sent int64)) {
	s := servedIn(ctx)
	ended := s.hijack()
	return func(sent int64) {
		if s != nil {
			s.hijackedBytes.Store(sent)
		}
		ended()
	}
}

// HijackedBytes returns how many bytes of the answer's body were sent after the handler
// returned: the value that over of [Hijacked] was called with. It is 0 before that call,
// and for every other answer.
func (s *Served) HijackedBytes() int64 { return s.hijackedBytes.Load() }

// hijack notes that the answer continues after the handler has returned, until over is
// called.
func (s *Served) hijack() (over func()) {
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hijacked = true
	return func() {
		s.mu.Lock()
		s.hijacked = false
		f := s.then
		s.mu.Unlock()
		if f != nil {
			f()
		}
	}
}

// OtherTool stands for all names of tools that do not exist, and OtherMethod for all names
// of methods that no revision can have.
const (
	OtherTool   = "_other"
	OtherMethod = "_other"
)

// notInMethod reports whether no method's name contains the character. Among the characters
// beyond ASCII, some are commands to terminals, and others reverse the direction of a line
// in a log.
func notInMethod(r rune) bool { return r <= ' ' || r > '~' }

// maxServedMethod bounds the length of a method's name in bytes. The client chooses the
// name.
const maxServedMethod = 64

// servedKey is the context key for the *Served of an HTTP request.
type servedKey struct{}

// WithServed returns a context for a request to the HTTP handler, and the Served that the
// handler fills in.
func WithServed(ctx context.Context) (context.Context, *Served) {
	s := new(Served)
	return context.WithValue(ctx, servedKey{}, s), s
}

// serves notes the caller of a request.
func (id Identity) serves(ctx context.Context) {
	if s := servedIn(ctx); s != nil {
		s.Tenant, s.Principal = id.Tenant, id.Principal
	}
}

// servedIn returns the Served of the request in ctx; nil if ctx has no Served.
func servedIn(ctx context.Context) *Served {
	s, _ := ctx.Value(servedKey{}).(*Served)
	return s
}

// began notes the call of a request, with the parent that is in its _meta.
func (s *Served) began(c Call, parent TraceParent) {
	if s != nil {
		s.call.Store(&servedCall{c.ID, c.TraceID, parent})
	}
}

// limited notes the limit that refused a request.
func (s *Served) limited(e *wire.Error) {
	if data, ok := e.Data.(map[string]any); ok && s != nil {
		s.Limit, _ = data["limit"].(string)
	}
}

// servesSession notes the session of a request.
func servesSession(ctx context.Context, id string) {
	if s := servedIn(ctx); s != nil {
		s.Session = id
	}
}

// serves notes the method and the tool of a request. It returns the request's Served; nil
// if the request has no Served.
func (w *web) serves(ctx context.Context, p posted) *Served {
	s := servedIn(ctx)
	if s == nil {
		return nil
	}
	s.Method = p.method
	if len(p.method) > maxServedMethod || strings.ContainsFunc(p.method, notInMethod) {
		s.Method = OtherMethod
	}
	if p.message == nil {
		return s
	}
	name := w.server.tools.calledBy(s.Method, p.message.Params)
	if s.Method != "tools/call" && name == "" {
		return s
	}
	s.Tool = OtherTool
	if t, known := w.server.tools.find(w.server.cfg.callerOf(ctx).Tenant, name); known {
		s.Tool = t.info.Name // t.info.Name is a name of a tool, whatever the client may call it
	}
	return s
}
