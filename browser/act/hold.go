package act

import (
	"context"
	"time"
)

// maxHolder is how many characters of a person's name are kept.
const maxHolder = 120

// Hold stops the acts of a seat until Release, in the name of the person by: steps are
// refused, and looks still work. What a page does by itself is not stopped. Hold returns
// once no step is in progress. If ctx ends before that, the acts are stopped all the same,
// but a step may still be in progress. If the seat is held already, its holder stays the
// person who stopped it first. The errors are Refusals.
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

// Release allows the acts of a seat again. A seat that is not held stays as it is.
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
