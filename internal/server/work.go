package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/fleet"
	"belljar.dev/mcp"
)

// passport is what a front sends to a worker about the caller of a request. It contains no
// grant and nothing of a policy, because the worker has its own policy.
type passport struct {
	Tenant    string    `json:"tenant"`
	Principal string    `json:"principal,omitempty"`
	Scopes    []string  `json:"scopes"` // scopes of the token; null if the token has no limit
	Expires   time.Time `json:"expires,omitzero"`
}

// passportOf returns the passport of a caller as the value of a header.
func passportOf(id mcp.Identity) string {
	text, err := json.Marshal(passport{id.Tenant, id.Principal, id.Scopes, id.Expires})
	if err != nil {
		return "" // workers refuse an empty passport
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// callerOf reads the passport of a request that came over a link.
func callerOf(r *http.Request) (id mcp.Identity, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(r.Header.Get(fleet.CallerHeader))
	if err != nil {
		return id, false
	}
	var p passport
	if json.Unmarshal(text, &p) != nil || p.Tenant == "" {
		return id, false
	}
	r.Header.Del(fleet.CallerHeader)
	return mcp.Identity{Tenant: p.Tenant, Principal: p.Principal, Scopes: p.Scopes, Expires: p.Expires}, true
}

// Work serves the requests that the fronts of the fleet send, until ctx ends. Then it
// drains: the fronts keep new requests for the next process of this worker, and running
// calls have time to end. It calls ready when it begins to connect.
func Work(ctx context.Context, s *Server, ready func()) (err error) {
	ctx, prepared := preparing(ctx, s)
	defer func() { err = cmp.Or(prepared(), err) }()
	link := s.cfg.Service.Link
	cfg := fleet.WorkerConfig{
		Name: link.Name, Fronts: link.Fronts, Credentials: link.Credentials, Version: buildinfo.Version(), Log: s.Log,
		Handler: s.places.linked(s.home), Places: s.places.ids, Enter: s.places.moves.enter, Claim: s.places.claim,
		Mover: s.places.moves, Moves: s.places.moves.list,
		Audit: s.audit.forFleet(), PolicyDigest: func() string { return s.gate.now.Load().Hash() },
	}
	if given := s.places.layout.Load().fleetPolicies; given != nil {
		cfg.TakePolicy, cfg.PolicyNumber = s.reloader.hand, given.number.Load
	}
	if s.part != nil {
		cfg.Asked = s.part
	}
	w, err := fleet.NewWorker(cfg)
	if err != nil {
		return err
	}
	s.places.moved = w.Changed
	s.audit.tell(w.Changed)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { ended <- w.Run(running) })
	s.Log.Info("the worker connects to its fronts", append([]any{"worker", link.Name, "places", len(s.places.ids())}, s.monitor.where()...)...)
	ready()
	select {
	case <-ctx.Done():
	case err := <-ended:
		return err
	}
	s.monitor.drains("the worker stops, and answers its open requests")
	patience, cancel := context.WithTimeout(running, link.Drain)
	defer cancel()
	var draining sync.WaitGroup
	draining.Go(func() { w.Drain(patience) })
	last, cut := context.WithTimeout(running, link.Drain+detachTime)
	defer cut()
	if err := s.places.shutdown(last); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		s.Log.Error("the places were not stopped cleanly", "err", err)
	}
	draining.Wait()
	farewell, over := context.WithTimeout(running, farewellTime)
	defer over()
	s.audit.sign(farewell) // signed after all calls have ended, so that a cut of the log is noticed
	w.WaitAcknowledged(farewell)
	stop()
	return <-ended
}

// farewellTime is the time for which a worker that stops waits until its fronts know the
// last checkpoint of its audit log.
const farewellTime = 2 * time.Second

// detachTime is the time in which calls must return that continue without their callers.
const detachTime = time.Second

// ids returns the places that a worker serves, sorted.
func (ps *places) ids() []string {
	return slices.DeleteFunc(append([]string{}, slices.Sorted(maps.Keys(ps.layout.Load().ids))...), ps.moves.isFrozen)
}

// claim makes a place that belongs to this worker from now on, and opens it.
func (ps *places) claim(ctx context.Context, id string) error {
	if ps.moves.inMove(id) || ps.moves.isFrozen(id) {
		return fleet.ErrBusy
	}
	if err := ps.add(id); err != nil {
		return err
	}
	_, err := ps.at(ctx, ps.layout.Load().ids[id])
	if errors.Is(err, errFrozen) {
		return fleet.ErrBusy
	}
	return err
}

// add makes a place, unless it exists.
func (ps *places) add(id string) error {
	ps.changing.Lock()
	defer ps.changing.Unlock()
	l := ps.layout.Load()
	tenant, name := splitID(id)
	switch {
	case !l.names(tenant, name) || placeID(tenant, name) != id:
		return fleet.ErrNoPlace
	case l.ids[id] != "":
		return nil
	}
	if err := l.workdir.make(id); err != nil {
		return fmt.Errorf("make place %s: %w", id, err)
	}
	return ps.with(id)
}

// linked serves requests that arrive over a link, each in the place that the front names,
// if the place belongs to the caller's tenant.
func (ps *places) linked(home *place) http.Handler {
	h := mcp.Linked(home.mcp, callerOf, func(r *http.Request, caller mcp.Identity) (*mcp.Server, error) {
		id := r.Header.Get(fleet.PlaceHeader)
		r.Header.Del(fleet.PlaceHeader)
		tenant, name := splitID(id)
		workspace, ok := ps.layout.Load().at(tenant, name)
		if !ok || tenant != caller.Tenant {
			return nil, nil //nolint:nilnil // nil means that the place does not exist
		}
		p, err := ps.at(r.Context(), workspace)
		switch {
		case errors.Is(err, errGone):
			return nil, nil //nolint:nilnil // nil means that the place does not exist
		case errors.Is(err, errFrozen):
			return nil, err
		case err != nil:
			ps.server.Log.Error("a place cannot be opened", "place", id, "err", err)
			return nil, fmt.Errorf("open place: %w", err)
		}
		return p.mcp, nil
	})
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(rw, r.WithContext(mcp.WithDetach(r.Context(), fleet.Detached(r.Context()))))
	})
}
