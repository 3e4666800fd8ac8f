package sandbox

import (
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/egress"
)

// BoxUsage is what a box uses. A number that this host does not count is zero.
type BoxUsage struct {
	Memory    int64         // bytes of its processes and of its files in memory; only of its processes if no cgroup counts them
	CPU       time.Duration // processor time since the box was opened, or since its present init began if no cgroup counts it
	Processes int64         // processes and threads, or only processes if no cgroup counts them
	Network   int64         // bytes sent and received since the box was opened
	Disk      int64         // bytes in its storage: /tmp, /dev/shm, /run and its home directory, without the downloads of a browser
}

// Used returns what the box uses.
func (b *Box) Used() BoxUsage {
	u := BoxUsage{Network: egress.Carried(b.means.door.Door), Disk: b.life.kept.used(b.means.area)}
	memory, hasMemory := b.means.group.Memory()
	cpu, hasCPU := b.means.group.CPU()
	processes, hasProcesses := b.means.group.Processes()
	if !hasMemory || !hasCPU || !hasProcesses {
		u.Memory, u.CPU, u.Processes = b.life.sums()
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

// sums adds up what the processes of the box use, according to /proc. A parked box has no
// processes.
func (l *life) sums() (memory int64, cpu time.Duration, processes int64) {
	l.waking.RLock()
	defer l.waking.RUnlock()
	if l.parked {
		return 0, 0, 0
	}
	return cgroup.Sums(l.box.init.process.Pid)
}

// used returns how many bytes are stored in the area of the box, which is on disk or in
// memory.
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
	return int64(fs.Blocks-fs.Bfree) * fs.Bsize
}
