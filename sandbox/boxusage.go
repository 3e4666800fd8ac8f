package sandbox

import (
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/cgroup"
)

// BoxUsage is what a box uses. A number that this host cannot tell is zero.
type BoxUsage struct {
	Memory    int64         // bytes that its processes have now, without what the kernel caches of files
	CPU       time.Duration // processor time since the box was opened
	Processes int64         // processes and threads, or only processes where no cgroup counts them
	Network   int64         // bytes sent and received since the box was opened
	Disk      int64         // bytes that it has stored in /tmp and its home directory
}

// Used returns what the box uses.
func (b *Box) Used() BoxUsage {
	u := BoxUsage{Network: b.means.door.Carried(), Disk: b.life.kept.used(b.means.area)}
	memory, hasMemory := b.means.group.Memory()
	cpu, hasCPU := b.means.group.CPU()
	processes, hasProcesses := b.means.group.Processes()
	if !hasMemory || !hasCPU || !hasProcesses {
		u.Memory, u.CPU, u.Processes = b.sums()
	}
	if hasMemory {
		u.Memory = memory
	}
	if hasCPU {
		u.CPU = cpu
	}
	if hasProcesses {
		u.Processes = processes
	}
	return u
}

// sums adds up what the processes of the box use, as /proc says it. A parked box has none.
func (b *Box) sums() (memory int64, cpu time.Duration, processes int64) {
	b.life.waking.RLock()
	defer b.life.waking.RUnlock()
	if b.life.parked {
		return 0, 0, 0
	}
	return cgroup.Sums(b.init.process.Pid)
}

// MemoryUsed is how many bytes of memory the box's processes have now, without
// what the kernel caches of files; 0 where that cannot be told.
func (b *Box) MemoryUsed() int64 {
	if bytes, counted := b.means.group.Memory(); counted {
		return bytes
	}
	memory, _, _ := b.sums()
	return memory
}

// used is how many bytes are stored in the area of the box: on disk, or else in memory.
func (k *kept) used(area *storage) int64 {
	fd := &k.storage
	mu := &k.closing
	if area != nil {
		fd, mu = &area.fd, &area.closing
	}
	mu.Lock()
	defer mu.Unlock()
	var fs unix.Statfs_t
	if *fd < 0 || unix.Fstatfs(*fd, &fs) != nil {
		return 0
	}
	return int64(fs.Blocks-fs.Bfree) * fs.Bsize //nolint:gosec // a file system has at most as many bytes as an int64
}
