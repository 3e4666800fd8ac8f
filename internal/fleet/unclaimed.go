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
	maxUnclaimed = 1000 // claims for one worker
	maxUnwritten = 3    // claims that cannot be written
)

// unclaimed are the places of a front's policy that workers have and nobody has claimed.
type unclaimed struct {
	front *Front
	every time.Duration
}

// claim claims places without a request, until ctx ends. For each place that exactly one
// worker has and nobody has claimed, it writes a claim for that worker. Two fronts come to lack
// such a claim: one that has lost its journal, and one of several without shared claims whose
// sibling had the place made. Such a front would have the place made anew at another worker while
// its own is not linked.
//
// It waits before each round. Before the first one, workers have time to connect: a place that two
// of them have is claimed for neither.
func (u unclaimed) claim(ctx context.Context) {
	if u.front.cfg.Names == nil {
		return
	}
	for pause.For(ctx, u.every) == nil {
		u.round(ctx)
	}
}

// round runs one round of claim. A worker may say that it has any place, and a claim lasts: only
// places that the policy of this front has are claimed, as for a request.
func (u unclaimed) round(ctx context.Context) {
	f := u.front
	all := f.cfg.Names()
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) // those that fail keep no other place waiting
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
