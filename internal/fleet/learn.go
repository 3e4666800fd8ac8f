package fleet

import (
	"context"
	"sync"
	"time"

	"belljar.dev/internal/fleet/claims"
	"belljar.dev/internal/pause"
)

// learnRest is how long a front rests between two looks for places that nobody has claimed.
const learnRest = time.Second

// learn claims the places that workers have for these workers, until ctx ends or the front is
// closed. A front that does not know such a place would have it made anew at another worker while
// its own is not linked. That is so for a front that has lost its journal, and for one of several
// that share no claims where another one had the place made.
//
// It begins when workers have had time to connect: a place that two of them have is claimed for
// neither.
func learn(ctx context.Context, f *Front) {
	r := f.roster
	ctx, cancel := context.WithCancel(ctx)
	var ending sync.WaitGroup
	defer ending.Wait()
	defer cancel()
	ending.Go(func() {
		defer cancel()
		select {
		case <-r.over:
		case <-ctx.Done():
		}
	})
	wait := time.Until(f.settled)
	for pause.For(ctx, wait) == nil {
		wait = learnRest
		held, changed := heldByOne(r)
		for place, worker := range held {
			if f.cfg.Claims.Ready() != nil || ctx.Err() != nil {
				break
			}
			if f.cfg.Claims.Owner(place) != (claims.Claim{}) {
				continue
			}
			if _, err := f.cfg.Claims.Swap(ctx, place, claims.Claim{}, claims.Claim{Worker: worker}); err != nil && ctx.Err() == nil {
				f.cfg.Log.Warn("a place is not claimed for the worker that has it; it is tried again", "place", place, "worker", worker, "err", err)
				break
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// heldByOne returns the places that one worker alone has, with that worker, and what is closed at
// the next change.
func heldByOne(r *roster) (held map[string]string, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held = make(map[string]string, len(r.holders))
	for place, all := range r.holders {
		if len(all) == 1 {
			held[place] = all[0].Name
		}
	}
	return held, r.changed
}
