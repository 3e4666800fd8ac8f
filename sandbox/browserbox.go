package sandbox

import "belljar.dev/sandbox/egress"

// Blocked is what the egress door of the box refused after the mark since, and
// the mark for the next time: see egress.Door.Blocked.
func (b *Box) Blocked(since uint64) ([]egress.Record, uint64) {
	b.means.door.settle()
	return b.means.door.Blocked(since)
}
