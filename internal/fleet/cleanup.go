package fleet

import (
	"context"
	"sync"
	"time"

	"belljar.dev/internal/fleet/claims"
)

// cleanup removes what moves have left at workers.
type cleanup struct {
	moves *moves

	mu    sync.Mutex
	files map[string]time.Time // guarded by mu: when a copy from a file was first seen, by worker and place
}

// reconcile makes workers clean up what ended moves have left.
func (r *cleanup) reconcile(ctx context.Context) {
	m := r.moves
	if m.front.cfg.Claims.Ready() != nil {
		return
	}
	all := m.front.roster.remnants()
	for _, one := range all {
		if c := m.front.cfg.Claims.Owner(one.Place); c.Moving() && c.Move == one.Move {
			continue
		}
		if ctx, d := m.acquire(ctx, one.Place, claims.Claim{}, one.Name); d != nil {
			m.all.Go(func() {
				defer m.release(one.Place, d)
				if err := r.tidy(ctx, one); err != nil && ctx.Err() == nil {
					m.front.cfg.Log.Warn("the remains of a move cannot be removed; the front tries again", "place", one.Place, "worker", one.Name, "err", err)
				}
			})
		}
	}
	r.forgetFiles(all)
}

// tidy makes a worker clean up what an ended move has left.
func (r *cleanup) tidy(ctx context.Context, one remnant) error {
	m := r.moves
	ctx, cancel := context.WithTimeout(ctx, m.times.step)
	defer cancel()
	known := m.front.cfg.Claims.Owner(one.Place)
	if now, err := m.front.cfg.Claims.Swap(ctx, one.Place, known, known); err != nil || now != known {
		return err // the claim in force is known now, and the next reconcile uses it
	}
	holders, _ := m.front.roster.holding(one.Place)
	served := len(holders) == 1 && holders[0].Name == known.Worker
	var step Step
	switch known.Cleanup(one.Name, one.Mark, served, len(holders) == 0 && m.front.roster.named(one.To) != nil) {
	case claims.Keep:
		return nil
	case claims.Reclaim:
		if _, err := following(known, one.Move); err != nil {
			return err
		}
		_, err := m.swap(ctx, one.Place, known, claims.Claim{Worker: one.Name, Move: one.Move})
		return err
	case claims.Thaw:
		step = StepThaw
	case claims.Drop:
		step = StepDrop
	case claims.Discard:
		if one.From == claims.FromFile && known == (claims.Claim{}) && !r.old(one) { // a front may be about to claim it
			return nil
		}
		step = StepDiscard
	}
	_, err := one.do(ctx, step, one.Marked)
	if err == nil {
		m.front.cfg.Log.Info("a worker has removed the remains of a move", "place", one.Place, "worker", one.Name, "move", one.Move, "step", string(step))
	}
	return err
}

// old reports whether a copy from a file was first seen longer than the grace period ago.
func (r *cleanup) old(one remnant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, known := r.files[one.Name+" "+one.Place]
	if !known {
		r.files[one.Name+" "+one.Place] = time.Now()
	}
	return known && time.Since(since) > r.moves.times.grace
}

// forgetFiles forgets the copies from files that do not exist any more.
func (r *cleanup) forgetFiles(all []remnant) {
	there := make(map[string]bool, len(all))
	for _, one := range all {
		there[one.Name+" "+one.Place] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.files {
		if !there[name] {
			delete(r.files, name)
		}
	}
}
