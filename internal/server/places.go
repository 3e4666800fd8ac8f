package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"belljar.dev/internal/auth"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// places contains the open places of a server. A place is opened at its first request, or
// earlier in the background. The methods of places are safe for concurrent use.
type places struct {
	server *Server
	shared *mcp.Shared            // limits that all places share
	layout atomic.Pointer[layout] // layout in force; changed with mu held

	moves  *movers              // moves of places; nil except in a worker
	frozen func(id string) bool // reports whether a place is temporarily closed
	moved  func()               // called when the places of a worker have changed
	// changing is locked while another layout is read and replaces the one before.
	changing sync.Mutex

	mu     sync.Mutex
	open   map[string]*slot // guarded by mu: slots by workspace
	closed bool             // guarded by mu
	silent bool             // guarded by mu: whether no person is asked any more
	// unclosed contains the places that release has removed from open, and that are not
	// closed yet.
	unclosed map[string]*slot // guarded by mu: slots by workspace
	closing  sync.WaitGroup   // places that are being closed, because no policy has them any more
}

func newPlaces(s *Server, l *layout) *places {
	ps := &places{server: s, moved: func() {}, frozen: func(string) bool { return false }, shared: mcp.NewShared(0), open: make(map[string]*slot), unclosed: make(map[string]*slot)}
	ps.layout.Store(l)
	return ps
}

// slot is a place that is open or being opened.
type slot struct {
	*place
	ready chan struct{} // closed when the place is open, or has failed to open
	err   error         // error of opening; valid once ready is closed
}

// at returns the place of a workspace, and opens it if it is not open.
func (ps *places) at(ctx context.Context, workspace string) (*place, error) {
	ps.mu.Lock()
	if ps.closed {
		ps.mu.Unlock()
		return nil, mcp.ErrShutdown
	}
	s := ps.open[workspace]
	if s == nil {
		if ps.frozen(ps.layout.Load().idOf(workspace)) {
			ps.mu.Unlock()
			return nil, errFrozen
		}
		if ps.unclosed[workspace] != nil {
			ps.mu.Unlock()
			if err := ps.closeRest(workspace); err != nil {
				return nil, fmt.Errorf("the place is still being closed: %w", err)
			}
			return ps.at(ctx, workspace)
		}
		policy := ps.layout.Load().set.Of(workspace)
		if policy == nil { // a new policy has removed the place
			ps.mu.Unlock()
			return nil, errGone
		}
		// The place is in open before it is opened, so that its gate gets every later
		// policy.
		s = &slot{place: newPlace(ps.server, workspace, policy), ready: make(chan struct{})}
		ps.open[workspace] = s
		ps.mu.Unlock()
		ps.start(context.WithoutCancel(ctx), s)
		return s.place, s.err
	}
	ps.mu.Unlock()
	select {
	case <-s.ready:
		return s.place, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errGone = errors.New("the policy has no such place any more")

// errFrozen is the error for a place that is being moved or exported.
var errFrozen = errors.New("the place is frozen")

// start opens the place of a slot. If this fails, the next caller tries again.
func (ps *places) start(ctx context.Context, s *slot) {
	if s.err = s.place.open(ctx); s.err != nil {
		s.place.close()
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	switch {
	case s.err == nil && ps.silent:
		s.stopAsking()
	case s.err != nil && ps.open[s.Workspace] == s:
		delete(ps.open, s.Workspace)
	}
	close(s.ready)
}

// hold puts another layout into force: every open place gets its policy, and places that
// the layout no longer has are ended.
func (ps *places) hold(ctx context.Context, l *layout) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.layout.Store(l)
	for workspace, s := range ps.open {
		if p := l.set.Of(workspace); p != nil {
			s.gate.now.Store(p)
			continue
		}
		delete(ps.open, workspace)
		ps.closing.Go(func() {
			<-s.ready
			if s.err == nil {
				s.shut(ctx)
			}
		})
	}
}

// all returns the open places.
func (ps *places) all() (all []*place) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, s := range ps.open {
		select {
		case <-s.ready:
			if s.err == nil {
				all = append(all, s.place)
			}
		default:
		}
	}
	return all
}

// sessions returns the open sessions of all places.
func (ps *places) sessions() (all []mcp.SessionInfo) {
	for _, p := range ps.all() {
		all = append(all, p.mcp.Sessions()...)
	}
	return all
}

// workspaces returns the workspaces of the open places, sorted.
func (ps *places) workspaces() []string {
	var all []string
	for _, p := range ps.all() {
		all = append(all, p.Workspace)
	}
	slices.Sort(all)
	return all
}

// upstreamFiles returns the files of other people's servers in all open places.
func (ps *places) upstreamFiles() (all []string) {
	for _, p := range ps.all() {
		if p.gateway != nil {
			all = append(all, p.gateway.Files()...)
		}
	}
	return all
}

// openAll opens every place of the layout that is not open, one after the other, until ctx
// ends. Callbacks from an earlier run of the server fire only in an open place.
func (ps *places) openAll(ctx context.Context) {
	for _, workspace := range ps.layout.Load().all {
		if ctx.Err() != nil {
			return
		}
		if _, err := ps.at(ctx, workspace); err != nil && !errors.Is(err, errGone) && !errors.Is(err, errFrozen) && !errors.Is(err, mcp.ErrShutdown) {
			ps.server.Log.Error("a place cannot be opened; the next request for it tries again", "workspace", workspace, "err", err)
		}
	}
}

// stopAsking ends the waiting of the calls that wait for an answer of a person, in all
// places: they continue without an answer. Their questions outlive the server.
func (ps *places) stopAsking() {
	ps.mu.Lock()
	ps.silent = true
	ps.mu.Unlock()
	for _, p := range ps.all() {
		p.stopAsking()
	}
}

// close closes all places, and waits for their end. After close, at returns an error.
func (ps *places) close() {
	ps.mu.Lock()
	ps.closed = true
	open := ps.open
	ps.open = nil
	ps.mu.Unlock()
	ps.closing.Wait()
	for _, s := range open {
		<-s.ready
		if s.err == nil {
			s.place.close()
		}
	}
}

// shutdown lets the running calls of all places return until ctx ends, and ends their
// sessions.
func (ps *places) shutdown(ctx context.Context) error {
	var ending sync.WaitGroup
	all := ps.all()
	errs := make([]error, len(all))
	for i, p := range all {
		ending.Go(func() { errs[i] = p.mcp.Shutdown(ctx) })
	}
	ending.Wait()
	return errors.Join(errs...)
}

// with adds a place whose directory exists to the layout. The caller holds changing.
func (ps *places) with(id string) error {
	next, err := ps.layout.Load().with(id)
	if err != nil {
		return err
	}
	ps.mu.Lock()
	ps.layout.Store(next)
	ps.mu.Unlock()
	ps.moved()
	return nil
}

// adopt adds a place that has arrived at this worker.
func (ps *places) adopt(id string) error {
	ps.changing.Lock()
	defer ps.changing.Unlock()
	if ps.layout.Load().ids[id] != "" {
		return nil
	}
	return ps.with(id)
}

// disown removes a place that has left this worker, and that is closed.
func (ps *places) disown(id string) {
	ps.changing.Lock()
	defer ps.changing.Unlock()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.layout.Store(ps.layout.Load().without(id))
}

// release closes a frozen place. Its calls have the time drain to end. If the place cannot
// be closed completely, a later release, or the next request, closes the rest.
func (ps *places) release(ctx context.Context, workspace string, drain time.Duration) error {
	ps.mu.Lock()
	s := ps.open[workspace]
	delete(ps.open, workspace)
	if s != nil {
		ps.unclosed[workspace] = s
	}
	ps.mu.Unlock()
	if s != nil {
		<-s.ready
		if s.err == nil {
			s.stopAsking()
			ctx, cancel := context.WithTimeout(ctx, drain)
			defer cancel()
			if err := s.mcp.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				s.Log.Error("a place was not stopped cleanly", "workspace", workspace, "err", err)
			}
			s.close()
		}
	}
	return ps.closeRest(workspace)
}

// closeRest closes the boxes of a place that was closed: another directory may get its
// name, and nothing may change while the place is packed.
func (ps *places) closeRest(workspace string) error {
	ps.mu.Lock()
	s := ps.unclosed[workspace]
	ps.mu.Unlock()
	if s == nil {
		return nil
	}
	<-s.ready
	if s.boxes != nil { // nil if the place was never opened
		if err := s.boxes.Close(); err != nil {
			return err
		}
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.unclosed[workspace] == s {
		delete(ps.unclosed, workspace)
	}
	return nil
}

// handler serves the requests of clients over HTTP, each in the place that its path names.
// A path leads to a directory only through the configuration.
func (ps *places) handler(home *place) http.Handler {
	return inPlace(home.mcp.HandlerOf(func(r *http.Request, caller mcp.Identity) (*mcp.Server, error) {
		workspace, ok := ps.layout.Load().at(caller.Tenant, r.PathValue("place"))
		if !ok {
			return nil, nil // the place does not exist
		}
		p, err := ps.at(r.Context(), workspace)
		switch {
		case errors.Is(err, errGone):
			return nil, nil // the place no longer exists
		case err != nil:
			ps.server.Log.Error("a place cannot be opened", "workspace", workspace, "tenant", caller.Tenant, "err", err)
			return nil, fmt.Errorf("open place: %w", err)
		}
		return p.mcp, nil
	}))
}

// inPlace lets the login know which place a request is for.
func inPlace(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if name := r.PathValue("place"); policies.IsName(name) {
			r = r.WithContext(auth.InPlace(r.Context(), pathOf(name)))
		}
		h.ServeHTTP(rw, r)
	})
}
