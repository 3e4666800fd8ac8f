package mcp

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/policies"
)

// patience is how long an ending session waits for calls that were cancelled. A handler
// that needs longer hangs; the functions of OnEnd may close what it waits for.
const patience = 2 * time.Second

// Session is one conversation with a client: a connection over stdio or a WebSocket, an
// Mcp-Session-Id or a stream with SSE over HTTP, or one that Open made. Modern requests over HTTP have no conversation, so
// those of one principal share one Session. Its methods are safe for concurrent use.
type Session struct {
	owner
	id     string
	server *Server
	done   <-chan struct{}
	cancel context.CancelCauseFunc
	over   chan struct{} // closed when OnEnd's functions have returned
	door   *admission
	layer  atomic.Pointer[policies.Layer] // session's own layer below the policy; nil if it has none

	structured atomic.Bool // the client's initialize asked for structured results
	resumed    bool        // constant since the first call, see Resumed

	began    time.Time
	lastCall atomic.Int64   // when the last call began or ended, in Unix nanoseconds
	asking   sync.WaitGroup // counts questions to the client
	// counts HTTP requests whose answers are not written yet; not incremented after the
	// session has ended
	writes sync.WaitGroup

	receipts receipts // results that the client may not have received

	mu    sync.Mutex
	conn  connection                         // guarded by mu
	life  life                               // guarded by mu
	calls map[string]context.CancelCauseFunc // guarded by mu: running calls by Call.ID
	empty chan struct{}                      // guarded by mu: closed when calls becomes empty; nil if nobody waits
}

// connection is what a session knows about its client.
type connection struct {
	transport string // "stdio", "http", "sse" or "websocket"; empty for a session of this process
	client    string // name that the client gave itself, which proves nothing
	version   string
	level     string                  // level that the client set for log messages; empty if it set none
	out       outlet                  // for messages that belong to no request; nil if the client has no connection
	peer      *peer                   // the client, if it can be asked; otherwise nil
	hangUp    func()                  // ends the connection; nil if the end of the session does that
	leave     context.CancelCauseFunc // begins the end of a conversation; nil if the session has no conversation
}

// life is how far a session has come towards its end.
type life struct {
	ended bool
	cause error // cause of the end
	ran   bool  // the functions in onEnd were taken to be called
	onEnd []func()
}

// ID returns the id of the session. It cannot be guessed.
func (s *Session) ID() string { return s.id }

// Tenant returns the tenant that the session belongs to.
func (s *Session) Tenant() string { return s.tenant }

// Principal returns the Identity.Principal of the caller that the session belongs to. It is
// empty over stdio, in this process, and if there are no tenants.
func (s *Session) Principal() string { return s.principal }

// Client returns the client's own name and version, which prove nothing; empty before the
// handshake. Each is one line of at most maxClientName characters.
func (s *Session) Client() (name, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.client, s.conn.version
}

func (s *Session) setClient(name, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn.client, s.conn.version = policies.Clip(name, maxClientName), policies.Clip(version, maxClientName)
}

// maxClientName is how many characters are kept of a client's name, and of its version. The
// client chooses them, and operators, people who are asked and logs see them.
const maxClientName = 64

// named returns a client's name with its version, in the form for people and logs.
func named(name, version string) string {
	return strings.TrimSpace(policies.Clip(name, maxClientName) + " " + policies.Clip(version, maxClientName))
}

// meet notes what a client states about itself.
func (s *Session) meet(p *sdk.InitializeParams) {
	if p == nil || p.ClientInfo == nil {
		return
	}
	s.setClient(p.ClientInfo.Name, p.ClientInfo.Version)
	if p.Capabilities == nil {
		return
	}
	s.structured.Store(declaresStructure(p.Capabilities.Experimental))
	p.Capabilities.Experimental, p.Capabilities.Extensions = fitted(p.Capabilities.Experimental), fitted(p.Capabilities.Extensions)
}

// fitted returns a copy of a map without spare capacity. The go-sdk keeps what a client
// states about itself for as long as its session lasts, and reads each object into a map
// with room for 64 members.
func fitted(all map[string]any) map[string]any {
	if all == nil {
		return nil
	}
	fits := make(map[string]any, len(all)) // maps.Clone would keep the spare capacity
	maps.Copy(fits, all)
	return fits
}

// setLogLevel notes the level that a client set for log messages.
func (s *Session) setLogLevel(level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn.level = level
}

func (s *Session) logLevel() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.level
}

// Resumed reports whether the session was begun at an earlier server, or before a long idle
// time. What its earlier calls made outside of files is gone.
func (s *Session) Resumed() bool { return s.resumed }

// OnEnd registers f to be called when the session has ended and its last call has returned.
// If that has happened already, OnEnd calls f immediately, in the caller's goroutine. A
// call that ignores its cancelled context for two seconds is not waited for any longer. The
// functions are called one by one, the last added first.
func (s *Session) OnEnd(f func()) {
	s.mu.Lock()
	if !s.life.ran {
		s.life.onEnd = append(s.life.onEnd, f)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	f()
}

// Done returns a channel that is closed when the session ends, before its calls have
// returned.
func (s *Session) Done() <-chan struct{} { return s.done }

// Close ends the session: it cancels its calls, waits for them, and then calls the
// functions of OnEnd. It may be called twice, and both calls wait. It must not be called
// from a handler or from OnEnd.
func (s *Session) Close() { s.end(ErrShutdown) }

// begin notes a call, so that the end of the session cancels it. If begin returns an error,
// the session has ended, and begin has cancelled the call; otherwise the caller calls finish
// when the call has returned.
func (s *Session) begin(id string, cancel context.CancelCauseFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.ended {
		cancel(s.life.cause)
		return s.life.cause
	}
	s.lastCall.Store(time.Now().UnixNano())
	s.calls[id] = cancel
	return nil
}

func (s *Session) finish(id string) {
	s.lastCall.Store(time.Now().UnixNano())
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel, ok := s.calls[id]; ok {
		cancel(context.Canceled)
		delete(s.calls, id)
	}
	if len(s.calls) == 0 && s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
}

// calling reports whether a call runs.
func (s *Session) calling() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls) > 0
}

// whenEmpty returns a channel that is closed when no call runs.
func (s *Session) whenEmpty() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	empty := s.empty
	if empty == nil {
		empty = make(chan struct{})
		if len(s.calls) == 0 {
			close(empty)
		} else {
			s.empty = empty
		}
	}
	return empty
}

// cancelCalls cancels the running calls and leaves the session open.
func (s *Session) cancelCalls(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.calls {
		cancel(cause)
	}
}

// writing notes that the answer to a request is being written, until done is called. The
// session's connection does not end before that.
func (s *Session) writing() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.ended {
		return func() {}
	}
	s.writes.Add(1)
	return s.writes.Done
}

// written returns a channel that is closed when the answers of a session that has ended are
// written.
func (s *Session) written() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.writes.Wait()
	}()
	return done
}

func (s *Session) end(cause error) {
	s.mu.Lock()
	if s.life.ended {
		s.mu.Unlock()
		<-s.over
		return
	}
	s.life.ended, s.life.cause = true, cause
	s.cancel(cause)
	for _, cancel := range s.calls {
		cancel(cause)
	}
	leave := s.conn.leave
	s.mu.Unlock()
	if leave != nil {
		leave(cause)
	}

	late := make(chan struct{})
	defer time.AfterFunc(patience, func() { close(late) }).Stop()
	select {
	case <-s.whenEmpty():
	case <-late:
		s.server.cfg.Log.Error("calls still run after their context was cancelled", "session", s.id)
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		s.asking.Wait()
	}()
	select {
	case <-asked:
	case <-late: // the wait for the calls may have used part of the time
	}
	s.receipts.end()
	s.mu.Lock()
	s.life.ran = true
	fns := s.life.onEnd
	s.life.onEnd = nil
	s.mu.Unlock()
	for _, f := range slices.Backward(fns) {
		f()
	}
	if s.server.cfg.OnSessionEnd != nil {
		s.server.cfg.OnSessionEnd(s)
	}
	s.server.forget(s)
	close(s.over)
}
