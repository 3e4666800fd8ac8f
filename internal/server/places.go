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

// places are the places of a server that are open. One is opened at its first request, or
// in the background before that. Its methods are safe for concurrent use.
type places struct {
	server *Server
	shared *mcp.Shared            // what all count together
	layout atomic.Pointer[layout] // that holds; changed with mu held

	moves  *movers              // places that come and go; nil but for a worker
	frozen func(id string) bool // reports whether a place is closed for a while
	moved  func()               // to be called when a worker has other places than before
	// changing is held while another layout is read and put in the place of the one before.
	changing sync.Mutex

	mu     sync.Mutex
	open   map[string]*slot // guarded by mu: by workspace
	closed bool             // guarded by mu
	silent bool             // guarded by mu: nobody is asked any more
	// unclosed are the places that release has taken out of open and not closed yet.
	unclosed map[string]*slot // guarded by mu: by workspace
	closing  sync.WaitGroup   // of places that no policy has any more
}

func newPlaces(s *Server, l *layout) *places {
	ps := &places{server: s, moved: func() {}, frozen: func(string) bool { return false }, shared: mcp.NewShared(0), open: make(map[string]*slot), unclosed: make(map[string]*slot)}
	ps.layout.Store(l)
	return ps
}

// slot is a place that is open, or being opened.
type slot struct {
	*place
	ready chan struct{} // closed when the place is open, or failed to
	err   error         // why it failed; valid once ready is closed
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
		if policy == nil { // a policy has taken it away meanwhile
			ps.mu.Unlock()
			return nil, errGone
		}
		// Its gate is known before it is open, so that it gets every later policy.
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

// errFrozen is the error of a place that moves, or is exported.
var errFrozen = errors.New("the place is frozen")

// start opens the place of a slot. One that fails to open is tried again by the next caller.
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

// hold has another layout hold: every open place gets its policy, and one that there is
// no more ends.
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

// all returns the places that are open.
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

// workspaces returns those of the places that are open, in order.
func (ps *places) workspaces() []string {
	var all []string
	for _, p := range ps.all() {
		all = append(all, p.Workspace)
	}
	slices.Sort(all)
	return all
}

// upstreamFiles are the files of other people's servers in all places that are open.
func (ps *places) upstreamFiles() (all []string) {
	for _, p := range ps.all() {
		if p.gateway != nil {
			all = append(all, p.gateway.Files()...)
		}
	}
	return all
}

// openAll opens every place of the layout that is not open, one after the other, until ctx
// ends: callbacks of an earlier server fire only in a place that is open.
func (ps *places) openAll(ctx context.Context) {
	for _, workspace := range ps.layout.Load().all {
		if ctx.Err() != nil {
			return
		}
		if _, err := ps.at(ctx, workspace); err != nil && !errors.Is(err, errGone) && !errors.Is(err, errFrozen) && !errors.Is(err, mcp.ErrShutdown) {
			ps.server.Log.Error("a place cannot be opened; it is tried again at its next request", "workspace", workspace, "err", err)
		}
	}
}

// stopAsking makes the calls that wait for an answer of a person go on without one, in
// all places. Their questions outlive the server.
func (ps *places) stopAsking() {
	ps.mu.Lock()
	ps.silent = true
	ps.mu.Unlock()
	for _, p := range ps.all() {
		p.stopAsking()
	}
}

// close ends all places, and waits for them. Then at fails.
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

// with has the layout have a place whose directory is there. The caller has changing.
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

// adopt notes that a place has come.
func (ps *places) adopt(id string) error {
	ps.changing.Lock()
	defer ps.changing.Unlock()
	if ps.layout.Load().ids[id] != "" {
		return nil
	}
	return ps.with(id)
}

// disown notes that a place has gone. It is closed.
func (ps *places) disown(id string) {
	ps.changing.Lock()
	defer ps.changing.Unlock()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.layout.Store(ps.layout.Load().without(id))
}

// release closes a place that is frozen. Its calls have some time to end. A place that is not
// closed stays so until a later release, or the next request, closes the rest.
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
				s.Log.Error("a place was not stopped in order", "workspace", workspace, "err", err)
			}
			s.close()
		}
	}
	return ps.closeRest(workspace)
}

// closeRest closes the boxes of a place that was closed: another directory may come under its name,
// and nobody may change what is packed.
func (ps *places) closeRest(workspace string) error {
	ps.mu.Lock()
	s := ps.unclosed[workspace]
	ps.mu.Unlock()
	if s == nil {
		return nil
	}
	<-s.ready
	if s.boxes != nil { // else it was never open
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

// handler serves the requests of clients over HTTP, each in the place of its path. Nothing
// of the path leads to a directory but through the configuration.
func (ps *places) handler(home *place) http.Handler {
	return inPlace(home.mcp.HandlerOf(func(r *http.Request, caller mcp.Identity) (*mcp.Server, error) {
		workspace, ok := ps.layout.Load().at(caller.Tenant, r.PathValue("place"))
		if !ok {
			return nil, nil // there is no such place
		}
		p, err := ps.at(r.Context(), workspace)
		switch {
		case errors.Is(err, errGone):
			return nil, nil // as above
		case err != nil:
			ps.server.Log.Error("a place cannot be opened", "workspace", workspace, "tenant", caller.Tenant, "err", err)
			return nil, fmt.Errorf("open place: %w", err)
		}
		return p.mcp, nil
	}))
}

// inPlace has the login know which place a request is for.
func inPlace(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if name := r.PathValue("place"); policies.IsName(name) {
			r = r.WithContext(auth.InPlace(r.Context(), pathOf(name)))
		}
		h.ServeHTTP(rw, r)
	})
}
