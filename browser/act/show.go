package act

import (
	"context"
	"fmt"
	"slices"
)

// Show returns a picture of the tab that a seat shows now, for a person who watches. It
// does not start a Chrome, and does not keep a Chrome from being frozen or parked. Steps
// cannot name points of this picture. Secrets are covered as they are for the agent. Show
// waits at most LookPatience until a call of the agent has ended, and a call of the agent
// waits no longer than that for Show. The errors are Refusals; the reason is ReasonUnknown
// if the seat is not open or has no Chrome.
func (s *Seats) Show(ctx context.Context, id string) (*Look, error) {
	seat := s.seat(id)
	if seat == nil {
		return nil, unseen(id)
	}
	return seat.Show(ctx)
}

// seat returns the open seat with this id, or nil.
func (s *Seats) seat(id string) *Seat {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	if i := slices.IndexFunc(all, func(o *Seat) bool { return o.named(id) }); i >= 0 {
		return all[i]
	}
	return nil
}

func unseen(id string) error {
	return &Refusal{Reason: ReasonUnknown, Message: fmt.Sprintf("no browser %s runs", quoted(id, 40)), Next: "list the browsers that run"}
}

// named reports whether a seat has this id.
func (s *Seat) named(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id == id && id != ""
}

// Show returns a picture of the tab that the seat shows now; see Seats.Show.
func (s *Seat) Show(ctx context.Context) (*Look, error) {
	ctx, cancel := context.WithTimeout(ctx, LookPatience)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-s.quit:
		return nil, errClosed()
	case <-ctx.Done():
		return nil, &Refusal{Reason: ReasonTimeout, Message: "a call of the agent uses the browser", Next: "try again in a moment", Err: context.Cause(ctx)}
	}
	defer func() { <-s.turn }()
	s.mu.Lock()
	e, id := s.e, s.id
	s.mu.Unlock()
	if e == nil || e.alive() != nil {
		return nil, unseen(id)
	}
	t := e.shown()
	if t == nil {
		return nil, unseen(id)
	}
	e.lease.Thaw()
	eachTab(e, listenAnew)
	if t.waiting() != nil {
		return nil, &Refusal{Reason: ReasonDialog, Message: "a dialog of the page waits for the agent", Next: "try again when it is answered"}
	}
	out, _, err := eye{t}.shot(ctx)
	return out, s.why(err)
}

// shown returns the tab in front of the others, or else the current tab, or nil.
func (e *engine) shown() (current *tab) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.tabs {
		if t == e.front {
			return t
		}
		if t.name == e.current {
			current = t
		}
	}
	return current
}

// info returns the seat in the form that List returns.
func (s *Seat) info() Info {
	s.mu.Lock()
	i := Info{ID: s.id, Tenant: s.grant.Tenant(), Profile: s.grant.Profile(), State: "new", HeldBy: s.hold.by, HeldSince: s.hold.since}
	e := s.e
	if s.parked {
		i.State = "parked"
	}
	s.mu.Unlock()
	if e != nil {
		i.State, i.Memory = "live", e.lease.Memory()
		e.mu.Lock()
		i.Tabs = len(e.tabs)
		if e.lease.Frozen() {
			i.State = "frozen"
		}
		e.mu.Unlock()
	}
	return i
}
