package fleet

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"belljar.dev/internal/fleet/claims"
)

// drive is work of this front on a place that moves.
type drive struct {
	workers []string // that it needs
	stop    context.CancelCauseFunc
	ended   chan struct{} // closed when it has ended

	claim  claims.Claim // guarded by moves.mu
	copied atomic.Int64 // bytes of the stream
	wrong  error        // guarded by moves.mu: why the last attempt failed
}

// acquire notes that this front works on a place, with some workers. The work ends with the context,
// and the caller releases the place. It returns nil if the front works on the place already, or
// has enough to do, or these workers have.
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

// swap is Swap of the claims, after which requests that wait for a place are tried again.
func (m *moves) swap(ctx context.Context, place string, old, next claims.Claim) (claims.Claim, error) {
	now, err := m.front.cfg.Claims.Swap(ctx, place, old, next)
	if err != nil {
		return old, err
	}
	m.front.roster.wake()
	return now, nil
}

// errLastMove is the error of a place whose worker, or claim, says that it has moved more often than
// any place can.
var errLastMove = errors.New("its last move has a number that no move can follow; a file of marks was damaged, or a worker is not what it says")

// maxJump is how far a worker may be ahead of a claim in the number of the last move. A claim that
// was lost begins anew at zero, and no place moves that often.
const maxJump = 1 << 20

// following returns the number of the move after that of a claim, and after the last one that a
// worker has heard of.
func following(c claims.Claim, last uint64) (uint64, error) {
	if c.Move >= claims.MaxMove || last > c.Move+maxJump {
		return 0, errLastMove
	}
	return max(last, c.Move) + 1, nil
}
