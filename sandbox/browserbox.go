package sandbox

import (
	"path/filepath"

	"belljar.dev/sandbox/egress"
)

// Blocked is what the egress door of the box refused after the mark since, and
// the mark for the next time: see egress.Door.Blocked.
func (b *Box) Blocked(since uint64) ([]egress.Record, uint64) {
	b.door.settle()
	return b.door.Blocked(since)
}

// MemoryUsed is how many bytes of memory the box's processes have now, without
// what the kernel caches of files; 0 where that cannot be told.
func (b *Box) MemoryUsed() int64 {
	g := b.group
	switch {
	case g.v1[ctlMemory] != "":
		file := filepath.Join(g.v1[ctlMemory], "memory.stat")
		return counter(file, "total_rss") + counter(file, "total_shmem")
	case g.c.v2ctl[ctlMemory]:
		file := filepath.Join(g.v2, "memory.stat")
		return counter(file, "anon") + counter(file, "shmem")
	}
	b.waking.RLock()
	defer b.waking.RUnlock()
	if b.parked {
		return 0
	}
	return family(b.process.Pid)
}
