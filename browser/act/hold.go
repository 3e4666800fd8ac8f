package act

import (
	"context"
	"time"
)

// maxHolder is how many characters of a person's name are kept.
const maxHolder = 120

// Hold stops the acts of a seat until Release, on behalf of by: steps are refused, and looks go
// on. What a page does by itself is not stopped. Hold returns once no step is under way; if ctx
// ends before, or the seat's call does not, the acts are stopped all the same, and one may still
// be under way. A seat that is held already stays with whoever stopped it first. The errors are
// Refusals.
func (s *Seats) Hold(ctx context.Context, id, by string) (Info, error) {
	seat := s.seat(id)
	if seat == nil {
		return Info{}, unseen(id)
	}
	seat.mu.Lock()
	if seat.hold.since.IsZero() {
		seat.hold = hold{cut(plain(by), maxHolder), time.Now()}
	}
	seat.mu.Unlock()
	select {
	case seat.turn <- struct{}{}:
		<-seat.turn
	case <-seat.quit:
		return Info{}, errClosed()
	case <-ctx.Done():
		return seat.info(), &Refusal{Reason: ReasonTimeout, Message: "the browser is held, and a call of the agent has not ended yet", Next: "look again in a moment", Err: context.Cause(ctx)}
	}
	return seat.info(), nil
}

// Release lets the acts of a seat go on. A seat that is not held stays as it is.
func (s *Seats) Release(id string) (Info, error) {
	seat := s.seat(id)
	if seat == nil {
		return Info{}, unseen(id)
	}
	seat.mu.Lock()
	seat.hold = hold{}
	seat.mu.Unlock()
	return seat.info(), nil
}
