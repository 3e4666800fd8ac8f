package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"belljar.dev/internal/fleet/claims"
)

// unavailable is the error for a request that cannot be sent to a worker now. No part of
// the request was run.
type unavailable struct{ why string }

func (e *unavailable) Error() string { return e.why }

// errGone is the error for a request whose client has disconnected.
var errGone = errors.New("the client has gone")

// resolve returns the worker of a place, and makes the place if it does not exist. It waits
// for a worker that is not linked, until its time is over, because the next process of that
// worker can take the request. It waits for a draining worker as long as the worker drains,
// and then as long as for any other.
func (f *Front) resolve(ctx context.Context, q Request, began time.Time) (*link, error) {
	until, drained := began.Add(f.cfg.Return), false
	for {
		l, why, changed, err := f.find(ctx, q.Place)
		if l != nil || err != nil {
			return l, err
		}
		drains := isStopping(f.roster, f.cfg.Claims.Owner(q.Place).Worker)
		if drains || drained {
			until = earlier(time.Now().Add(f.cfg.Return), began.Add(drainWait))
		}
		drained = drains
		left := time.Until(until)
		if settles := time.Until(f.settled); settles > 0 {
			left = settles // after this time it tries again
		}
		if left <= 0 {
			return nil, &unavailable{why}
		}
		if !f.waiting.acquire(q.Tenant, 1) {
			return nil, &unavailable{"too many requests wait for their worker"}
		}
		timer := time.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		f.waiting.release(q.Tenant, 1)
		if ctx.Err() != nil {
			return nil, errGone
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// find is one attempt of resolve. If it returns neither a worker nor an error, why says
// what is missing.
func (f *Front) find(ctx context.Context, place string) (l *link, why string, changed <-chan struct{}, err error) {
	holders, changed := f.roster.holding(place)
	owner := f.cfg.Claims.Owner(place)
	// the known claim may be outdated, and the directory shows the owner
	if len(holders) == 1 && owner.Worker != holders[0].Name {
		owner, err = f.cfg.Claims.Swap(ctx, place, claims.Claim{}, claims.Claim{Worker: holders[0].Name})
		if err != nil {
			return nil, f.undecided(place, err), changed, nil
		}
	}
	known := owner
	switch {
	case owner.To != "":
		return nil, "this place is being moved to another worker", changed, nil
	case len(holders) > 1:
		return nil, "", changed, &unavailable{"this place is on several workers, and none of them serves it; the operator finds them with `belljar fleet doctor`"}
	case len(holders) == 1 && owner.Worker != holders[0].Name:
		return nil, "", changed, &unavailable{"this place belongs to one worker and is on another, so neither serves it; the operator finds them with `belljar fleet doctor`"}
	case len(holders) == 1 && !f.roster.open(holders[0]):
		return nil, "the worker of this place is about to restart", changed, nil
	case len(holders) == 1:
		return holders[0], "", nil, nil
	case owner.From != "":
		return nil, "this place is about to open at another worker", changed, nil
	case owner.Worker == "" && f.roster.hasRemnant(place):
		return nil, "this place was being moved, and one of its two workers is not linked", changed, nil
	case owner.Worker == "":
		if agree := f.cfg.Claims.Ready() == nil; !agree { // Info has the reason, which clients must not see
			return nil, "the fronts cannot agree now which worker gets a new place", changed, nil
		}
		if l, why = f.choose(place); l == nil {
			return nil, why, changed, nil
		}
		owner = claims.Claim{Worker: l.Name}
	default:
		l = f.roster.named(owner.Worker)
	}
	switch {
	case l == nil:
		return nil, "the worker of this place is not linked", changed, nil
	case !f.roster.open(l):
		return nil, "the worker of this place is about to restart", changed, nil
	}
	// All fronts must agree on the claim before a directory is made, also on a known claim.
	now, err := f.cfg.Claims.Swap(ctx, place, known, owner)
	switch {
	case err != nil:
		return nil, f.undecided(place, err), changed, nil
	case now != owner: // another request or another front was faster: the next attempt knows its claim
		return nil, "the worker of this place has just been chosen", changed, nil
	}
	return f.create(ctx, l, place, changed)
}

// undecided returns the reason for a client, if the fronts do not agree which worker has a
// place.
func (f *Front) undecided(place string, err error) (why string) {
	f.cfg.Log.Error("the fronts cannot decide to which worker a place belongs", "place", place, "err", err)
	return "it cannot be decided now which worker has this place"
}

// claimWait is the time that a worker has to make a place. A worker that does not answer
// delays a request no longer than this.
const claimWait = 10 * time.Second

// create makes a worker make a place that belongs to it.
func (f *Front) create(ctx context.Context, l *link, place string, changed <-chan struct{}) (*link, string, <-chan struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, claimWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://worker"+claimPath, http.NoBody)
	if err != nil {
		return nil, "", nil, err
	}
	req.Header.Set(PlaceHeader, place)
	res, err := l.client.RoundTrip(req)
	if err != nil {
		return nil, "the worker of this place is not linked", changed, nil // the request waits for the worker
	}
	res.Body.Close()
	switch res.StatusCode {
	case http.StatusNoContent:
		f.roster.made(l, place)
		return l, "", nil, nil
	case http.StatusNotFound:
		// The claim stays: the worker's policy may be older than ours, and the worker may
		// have the files of the place. Another worker would make the place again, without
		// these files.
		return nil, "", nil, ErrNoPlace
	case http.StatusLocked:
		return nil, "this place is being exported or moved", changed, nil
	}
	f.cfg.Log.Warn("a worker cannot make a place; its log says why", "place", place, "worker", l.Name, "status", res.StatusCode)
	return nil, "the worker of this place cannot make it", changed, nil
}

// choose returns the worker for a new place, or why no worker is suitable. With a list of
// workers, all fronts choose the same worker from the list. Without a list, a front chooses
// the worker with the fewest places. It may do this only if it is the only front, or if all
// fronts share the claims.
func (f *Front) choose(place string) (*link, string) {
	if names := f.cfg.Workers; len(names) > 0 {
		name := rendezvous(names, place)
		all := f.roster.takers()
		if i := slices.IndexFunc(all, func(l *link) bool { return l.Name == name }); i >= 0 {
			return all[i], ""
		}
		return nil, "the worker for new places of this name is not linked"
	}
	if wait := time.Until(f.settled); wait > 0 {
		return nil, "this front has just started, and waits for workers that may have the place"
	}
	all := f.roster.takers()
	if len(all) == 0 {
		return nil, "no worker accepts new places"
	}
	if why := f.cfg.mustShare(f.roster.linked()); why != "" {
		return nil, why
	}
	return all[0], ""
}

// mustShare returns why a front may not choose workers on its own; empty if it may.
func (c *FrontConfig) mustShare(linked []*link) string {
	if c.SharedClaims || len(c.Workers) > 0 {
		return ""
	}
	if l := ofSeveral(linked); l != nil {
		return fmt.Sprintf("worker %s has %d fronts, and two of them could give one new place to two workers; start all fronts with the same --nats, or with the same --workers", l.Name, l.Fronts)
	}
	return ""
}

// ofSeveral returns the first worker, by name, that has several fronts; nil if there is
// none.
func ofSeveral(all []*link) (first *link) {
	for _, l := range all {
		if l.Fronts > 1 && (first == nil || l.Name < first.Name) {
			first = l
		}
	}
	return first
}
