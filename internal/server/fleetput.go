package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/fleet"
	"belljar.dev/internal/fleet/bus"
	"belljar.dev/internal/pause"
	"belljar.dev/policies"
)

// Names for the policy that the fronts of a fleet share.
const (
	policyBucket = "belljar-policy"
	policyKey    = "policy"
	// maxShared is the most bytes of the policy as JSON: NATS accepts messages of 1 MiB,
	// including their headers.
	maxShared = 1<<20 - 8<<10
)

// Times for sharing a policy.
const (
	shareWait  = 10 * time.Second
	shareAgain = time.Second // pause between two attempts to follow the bucket
)

// putter gives a policy to a fleet, and to this front. Several fronts share the policy
// through a bucket of NATS.
type putter struct {
	server *Server
	bucket *bus.Bucket // nil if this is the only front

	putting sync.Mutex // locked while an operator puts a policy

	mu sync.Mutex
	at bus.Item // guarded by mu: last item seen in the bucket
}

// putPolicy is the request of an operator.
type putPolicy struct {
	Name string `json:"name"` // name of the file, for the texts of faults
	Text string `json:"text"`
}

// noFleetPolicy is the reason why a front neither gives nor shows a policy of the fleet.
const noFleetPolicy = "this front was started without --fleet-policy, so its policy is that of --policy"

// handle adds the routes for `belljar fleet policy`. Only the operator reaches them: the
// socket belongs to the operator, and clients, workers and the console have no access to
// it.
func (u *putter) handle(mux *http.ServeMux) {
	mux.HandleFunc("POST "+control.StreamPath+"fleet/policy", func(w http.ResponseWriter, r *http.Request) {
		var want putPolicy
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, fleet.MaxPolicyJSON)).Decode(&want); err != nil {
			control.Respond(w, http.StatusBadRequest, fmt.Sprintf("read the policy: %v; its text may have %d bytes", err, fleet.MaxPolicy))
			return
		}
		if u.kept() == nil {
			control.Respond(w, http.StatusConflict, noFleetPolicy)
			return
		}
		number, err := u.put(r.Context(), want, control.Caller(r))
		if err != nil {
			control.Respond(w, http.StatusConflict, err.Error())
			return
		}
		control.Respond(w, http.StatusOK, number)
	})
	mux.HandleFunc("POST "+control.StreamPath+"fleet/policy/text", func(w http.ResponseWriter, _ *http.Request) {
		if u.kept() == nil {
			control.Respond(w, http.StatusConflict, noFleetPolicy)
			return
		}
		g, err := u.kept().current()
		if err != nil {
			control.Respond(w, http.StatusInternalServerError, fmt.Sprintf("read the policy of the fleet: %v", err))
			return
		}
		_, _ = io.WriteString(w, g.Text)
	})
}

// put checks a policy, and gives it to the fleet. It returns the number of the policy.
func (u *putter) put(ctx context.Context, want putPolicy, by string) (uint64, error) {
	if !u.putting.TryLock() {
		return 0, unchanged(errors.New("another policy is being put at this moment; try again"))
	}
	defer u.putting.Unlock()
	if err := checkFleetPolicy(policies.Clip(want.Name, 256), want.Text); err != nil {
		return 0, unchanged(err)
	}
	if err := u.server.reloader.check(ctx, want.Text); err != nil {
		return 0, unchanged(err)
	}
	number, err := u.server.fleet.NextPolicy()
	if err != nil {
		return 0, unchanged(err)
	}
	number = max(number, u.kept().number.Load()+1)
	g := fleet.Policy{Number: number, Text: want.Text, By: by}
	if u.bucket != nil {
		if g, err = u.share(ctx, g); err != nil {
			return 0, err
		}
	}
	if err := u.take(ctx, g); err != nil && u.bucket != nil {
		return 0, fmt.Errorf("policy %d is shared with the other fronts, and cannot be put into force at this one: %w; run `belljar fleet policy status` at each front", g.Number, err)
	} else if err != nil {
		return 0, err
	}
	u.server.Log.Info("a policy was put for the fleet", "number", g.Number, "by", by)
	return g.Number, nil
}

// kept returns the policies of the fleet that this front keeps.
func (u *putter) kept() *fleetPolicies { return u.server.places.layout.Load().fleetPolicies }

// unchanged returns the error for a policy that neither a front nor a worker has accepted.
func unchanged(err error) error {
	return fmt.Errorf("nothing was changed:\n%w", err)
}

// share writes a policy to the bucket that all fronts see, unless another front has just
// written one. It returns the policy with its number.
func (u *putter) share(ctx context.Context, g fleet.Policy) (fleet.Policy, error) {
	ctx, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	at, err := u.bucket.Get(ctx, policyKey)
	if err != nil {
		return g, unchanged(fmt.Errorf("share the policy with the other fronts: %w", err))
	}
	var before fleet.Policy
	if at.Revision > 0 && json.Unmarshal(at.Value, &before) == nil {
		if before.Number >= fleet.MaxNumber {
			return g, unchanged(fmt.Errorf("the bucket %s of NATS has a policy of number %d, and %d is the highest; remove it there, if no front has put it", policyBucket, before.Number, uint64(fleet.MaxNumber)))
		}
		g.Number = max(g.Number, before.Number+1)
	}
	value, err := json.Marshal(g)
	if err != nil {
		return g, err
	}
	if len(value) > maxShared {
		return g, unchanged(fmt.Errorf("as a message for the other fronts it has %d bytes, and %d are accepted", len(value), maxShared))
	}
	_, err = u.bucket.Put(ctx, bus.Item{Key: policyKey, Value: value, Revision: at.Revision})
	switch {
	case errors.Is(err, bus.ErrConflict):
		return g, unchanged(errors.New("another front has just put a policy; look at it with `belljar fleet policy get`, and try again"))
	case err != nil:
		return g, fmt.Errorf("share the policy with the other fronts: %w; `belljar fleet policy status` shows whether it is in force", err)
	}
	return g, nil
}

// take puts a policy into force at this front, and gives it to the workers.
func (u *putter) take(ctx context.Context, g fleet.Policy) error {
	if err := u.server.reloader.hand(ctx, g); err != nil {
		return err
	}
	u.server.fleet.Give(g)
	return nil
}

// begin gives the workers the policy that this front has kept from an earlier run.
func (u *putter) begin() error {
	g, err := u.kept().current()
	if err != nil {
		return fmt.Errorf("read the policy of the fleet: %w", err)
	}
	if g.Number > 0 {
		u.server.fleet.Give(g)
	}
	return nil
}

// follow takes the policies that other fronts share, until ctx ends.
func (u *putter) follow(ctx context.Context) {
	said := ""
	for ctx.Err() == nil {
		err := u.bucket.Follow(ctx, func(i bus.Item) { u.saw(ctx, i) }, func(time.Duration) { u.caughtUp(ctx) })
		if ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			u.server.Log.Warn("the policies that other fronts put cannot be watched; the front tries again, and the present policy stays in force", "err", err)
		}
		_ = pause.For(ctx, shareAgain) // the loop checks ctx
	}
}

// saw takes the policy in an item of the bucket. The item may be from this front itself. If
// it is older than the policy of this front, caughtUp replaces it.
func (u *putter) saw(ctx context.Context, i bus.Item) {
	if i.Key != policyKey {
		return
	}
	u.mu.Lock()
	u.at = i
	u.mu.Unlock()
	var g fleet.Policy
	err := json.Unmarshal(i.Value, &g)
	if err == nil && g.Number > fleet.MaxNumber {
		err = fmt.Errorf("its number is above %d", uint64(fleet.MaxNumber))
	}
	if err == nil && g.Number < u.kept().number.Load() {
		return
	}
	if err == nil {
		err = u.take(ctx, g)
	}
	if err != nil && ctx.Err() == nil {
		u.server.Log.Error("a policy that another front has put cannot be put into force here", "number", g.Number, "err", err)
	}
}

// caughtUp writes the policy of this front to the bucket if the bucket has an older policy
// or none: NATS has lost the policy, or this was the only front.
func (u *putter) caughtUp(ctx context.Context) {
	u.mu.Lock()
	at := u.at
	u.at = bus.Item{}
	u.mu.Unlock()
	var there fleet.Policy
	if at.Revision > 0 && json.Unmarshal(at.Value, &there) != nil || there.Number >= u.kept().number.Load() {
		return
	}
	err := u.write(ctx, at.Revision)
	if err != nil && !errors.Is(err, bus.ErrConflict) && ctx.Err() == nil {
		u.server.Log.Error("the policy of the fleet is not shared with other fronts", "err", err)
	}
}

// write writes the policy of this front in place of a revision of the bucket.
func (u *putter) write(ctx context.Context, revision uint64) error {
	g, err := u.kept().current()
	if err != nil {
		return err
	}
	value, err := json.Marshal(g)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	_, err = u.bucket.Put(ctx, bus.Item{Key: policyKey, Value: value, Revision: revision})
	return err
}
