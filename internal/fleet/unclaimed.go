package fleet

import (
	"context"
	"math/rand/v2"
	"time"

	"belljar.dev/internal/fleet/claims"
	"belljar.dev/internal/pause"
)

// Bounds of one round of unclaimed.claim.
const (
	maxUnclaimed = 1000 // number of claims for one worker
	maxUnwritten = 3    // number of claims that cannot be written
)

// unclaimed are the places that a front's policy names and a worker has, but that have no
// claim.
type unclaimed struct {
	front *Front
	every time.Duration
}

// claim claims places without a request, until ctx ends. For each place without a claim
// that exactly one worker has, it writes a claim for that worker. A front can lack such a
// claim in two cases: it has lost its journal, or it is one of several fronts without
// shared claims, and another front had the place made. Without the claim, the front would
// have the place made again at another worker while the place's own worker is not linked.
//
// claim waits before each round. Before the first round, this gives workers the time to
// connect: a place that two workers have is not claimed for either of them.
func (u unclaimed) claim(ctx context.Context) {
	if u.front.cfg.Names == nil {
		return
	}
	for pause.For(ctx, u.every) == nil {
		u.round(ctx)
	}
}

// round runs one round of claim. A worker may report any place, and a claim lasts.
// Therefore only places that the policy of this front names are claimed, as for a request.
func (u unclaimed) round(ctx context.Context) {
	f := u.front
	all := f.cfg.Names()
	// places that fail must not always delay the same other places
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	claimed, unwritten := make(map[string]int), 0
	for _, place := range all {
		if f.cfg.Claims.Owner(place) != (claims.Claim{}) {
			continue
		}
		holders, _ := f.roster.holding(place)
		if len(holders) != 1 || claimed[holders[0].Name] >= maxUnclaimed || f.roster.hasRemnant(place) {
			continue
		}
		if f.cfg.Claims.Ready() != nil || ctx.Err() != nil {
			return
		}
		worker := holders[0].Name
		claimed[worker]++
		_, err := f.cfg.Claims.Swap(ctx, place, claims.Claim{}, claims.Claim{Worker: worker})
		if err == nil || ctx.Err() != nil {
			continue
		}
		f.cfg.Log.Warn("claim a place for its worker", "place", place, "worker", worker, "err", err)
		if unwritten++; unwritten == maxUnwritten {
			return
		}
	}
}
