package mcp

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"belljar.dev/mcp/wire"
)

// Served is what the HTTP handler learned of a request, for whoever mounts it. The caller
// of WithServed reads it when the handler has returned. It contains nothing of the
// arguments, and no token.
type Served struct {
	Tenant, Principal string // empty for a caller that is not known
	Method            string // of the message, at most maxServedMethod bytes; empty for none
	Tool              string // that a call names, OtherTool if there is no such tool
	Limit             string // the name of the limit that it was above; empty for none
	Session           string // the id, where the request does not have it in a header

	span *servedSpan                // of the request itself; nil where nothing is traced
	call atomic.Pointer[servedCall] // which may run on when the handler has returned

	hijackedBytes atomic.Int64 // of the answer, sent after the handler returned

	mu       sync.Mutex
	hijacked bool   // guarded by mu: the answer goes on when the handler has returned
	then     func() // guarded by mu: what WhenOver is to call; nil for nothing
}

// servedCall is the ids of a call, and what its client says that it belongs to.
type servedCall struct {
	id, trace string
	parent    TraceParent
}

// Call returns the ids of the call that the request made, and of its trace: its audit
// record and its span have them as well. They are empty for no call; of a batch they are
// those of the call that began last.
func (s *Served) Call() (id, trace string) {
	if c := s.call.Load(); c != nil {
		return c.id, c.trace
	}
	return "", ""
}

// WhenOver calls f when the answer has ended. It is called when the handler has returned, unless
// the answer goes on: a WebSocket, or an answer for which [Hijacked] was called. f may keep the
// program from forgetting a request, so it should need nothing of it.
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

// Hijacked notes that the answer to the request in ctx goes on when the handler has returned, until
// over is called. sent is how many bytes of its body were sent since then.
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

// HijackedBytes returns how many bytes of the answer's body were sent after the handler returned:
// what the function of [Hijacked] was called with, and 0 before that and for every other answer.
func (s *Served) HijackedBytes() int64 { return s.hijackedBytes.Load() }

// hijack notes that the answer goes on when the handler has returned, until over is called.
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

// OtherTool stands for all names of tools that do not exist, and OtherMethod for those of
// methods that no revision can have.
const (
	OtherTool   = "_other"
	OtherMethod = "_other"
)

// notInMethod reports characters that no name of a method has. A terminal may obey some of
// those beyond ASCII, and others turn the direction of a line in a log.
func notInMethod(r rune) bool { return r <= ' ' || r > '~' }

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
	if s := servedIn(ctx); s != nil {
		s.Tenant, s.Principal = id.Tenant, id.Principal
	}
}

// servedIn returns what is noted of the request that is served in ctx; nil for nothing.
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

// limited notes why a request was refused.
func (s *Served) limited(e *wire.Error) {
	if data, ok := e.Data.(map[string]any); ok && s != nil {
		s.Limit, _ = data["limit"].(string)
	}
}

// servesSession notes whose session a request is for.
func servesSession(ctx context.Context, id string) {
	if s := servedIn(ctx); s != nil {
		s.Session = id
	}
}

// serves notes what a request is, and returns where it is noted; nil for nowhere.
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
