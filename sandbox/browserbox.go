package sandbox

import (
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/egress"
)

// Blocked is what the egress door of the box refused after the mark since, and
// the mark for the next time: see egress.Door.Blocked.
func (b *Box) Blocked(since uint64) ([]egress.Record, uint64) {
	b.means.door.settle()
	return b.means.door.Blocked(since)
}

// MemoryUsed is how many bytes of memory the box's processes have now, without
// what the kernel caches of files; 0 where that cannot be told.
func (b *Box) MemoryUsed() int64 {
	if bytes, counted := b.means.group.Memory(); counted {
		return bytes
	}
	b.life.waking.RLock()
	defer b.life.waking.RUnlock()
	if b.life.parked {
		return 0
	}
	return cgroup.MemoryOf(b.init.process.Pid)
}
