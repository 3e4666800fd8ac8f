package sandbox

import "belljar.dev/sandbox/egress"

// Blocked returns the records that the egress door of the box refused after a
// mark, and the mark for the next call: see egress.Door.Blocked.
func (b *Box) Blocked(since uint64) ([]egress.Record, uint64) {
	b.means.door.settle()
	return b.means.door.Blocked(since)
}
