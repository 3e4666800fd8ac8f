package fleet

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"belljar.dev/internal/fleet/claims"
)

// drive is the work of this front on a place, for example on its move.
type drive struct {
	workers []string // names of the workers that it needs
	stop    context.CancelCauseFunc
	ended   chan struct{} // closed when the work has ended

	claim  claims.Claim // guarded by moves.mu
	copied atomic.Int64 // number of bytes of the stream that were copied
	wrong  error        // guarded by moves.mu: error of the last attempt
}

// acquire records that this front works on a place with some workers. The context of the
// work ends with ctx, and the caller must release the place. acquire returns nil if the
// front already works on the place, or if the front or one of the workers has too much to
// do.
func (m *moves) acquire(ctx context.Context, place string, c claims.Claim, workers ...string) (context.Context, *drive) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[place] != nil || len(m.busy) >= maxDrives {
		return nil, nil
	}
	for _, worker := range workers {
		n := 0
		for _, d := range m.busy {
			if slices.Contains(d.workers, worker) {
				n++
			}
		}
		if n >= maxOfOne {
			return nil, nil
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	d := &drive{claim: c, workers: workers, stop: stop, ended: make(chan struct{})}
	m.busy[place] = d
	return ctx, d
}

func (m *moves) release(place string, d *drive) {
	d.stop(nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.busy, place)
	close(d.ended)
}

// swap is Swap of the claims. After a change it wakes the requests that wait for a place.
func (m *moves) swap(ctx context.Context, place string, old, next claims.Claim) (claims.Claim, error) {
	now, err := m.front.cfg.Claims.Swap(ctx, place, old, next)
	if err != nil {
		return old, err
	}
	m.front.roster.wake()
	return now, nil
}

// errLastMove is the error for a place whose worker or claim reports more moves than any
// place can have made.
var errLastMove = errors.New("the number of its last move is higher than any place can reach; a file of marks was damaged, or a worker reports false numbers")

// maxJump is by how much a worker's number of the last move may exceed the number in the
// claim. A claim that was lost begins again at zero, and no place moves that often.
const maxJump = 1 << 20

// following returns the number of the next move: it is larger than the number in a claim,
// and than last, the number of the last move that a worker knows of.
func following(c claims.Claim, last uint64) (uint64, error) {
	if c.Move >= claims.MaxMove || last > c.Move+maxJump {
		return 0, errLastMove
	}
	return max(last, c.Move) + 1, nil
}
