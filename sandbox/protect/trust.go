package protect

import (
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/kernel"
	"belljar.dev/sandbox/rawsys"
)

// trust says which properties of a file system can be relied on.
type trust struct {
	near  bool // it is local, so reading what is in memory does not block
	times bool // every change of a directory shows in its time (ctime, which cannot be set: inode(7)), by this machine's clock
	fine  bool // so does a change that follows another one at once
	// The first write through a new mapping shows in the time of a file
	// (page_mkwrite; tmpfs has none).
	mapped bool
}

// trustOf is trust in the file system of a file in the workspace, which is open:
// another one may be mounted there.
func (w *workdir) trustOf(fd int, st *unix.Stat_t) trust {
	if st.Dev == w.dev {
		return w.trust
	}
	return trustIn(fd)
}

// trustAt is the same of a file at a path.
func (w *workdir) trustAt(at string, st *unix.Stat_t) trust {
	if st.Dev == w.dev {
		return w.trust
	}
	fd, err := openBeneath(int(w.root.Fd()), at, unix.O_PATH, 0)
	if err != nil {
		return trust{}
	}
	defer unix.Close(fd)
	return trustIn(fd)
}

// trustIn is what is known of the file system of a file. Times are fine
// once they were asked for since Linux 6.13 (multigrain timestamps). Of FUSE
// and network file systems nothing is known; below an overlay there may be one.
func trustIn(fd int) trust {
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil {
		return trust{}
	}
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		return trust{near: true, times: true, fine: kernel.Since(6, 13), mapped: true}
	case unix.TMPFS_MAGIC:
		return trust{near: true, times: true, fine: kernel.Since(6, 13)}
	case unix.F2FS_SUPER_MAGIC:
		return trust{near: true, times: true, mapped: true}
	case unix.OVERLAYFS_SUPER_MAGIC:
		return trust{times: true}
	}
	return trust{}
}

// tooYoung reports whether something may change once more and show the same
// time: it changed in the tick in which the look began, or later. It must have
// been asked for its time before it is looked at.
func (t trust) tooYoung(st *unix.Stat_t, begun time.Time) bool {
	return (!t.fine || wholeSeconds(st)) && changedSince(st, begun)
}

// changedSince reports whether something changed at a time or later, or may have.
func changedSince(st *unix.Stat_t, since time.Time) bool {
	if wholeSeconds(st) {
		since = since.Add(-2 * time.Second)
	}
	return !time.Unix(st.Ctim.Unix()).Before(since)
}

// wholeSeconds reports whether the file system of a file seems to count seconds,
// whatever is true of its kind: ext4 has no room for more in inodes of 128 bytes
// (ext4(5), "large inodes"), and FAT counts two at a time.
func wholeSeconds(st *unix.Stat_t) bool { return st.Ctim.Nsec == 0 }

// fileClock is the clock that the times of files are taken from before Linux
// 6.13: it goes on with the kernel's tick, which may be late on a machine that
// is itself virtual (clock_getres(2), CLOCK_REALTIME_COARSE).
func fileClock() time.Time {
	now, err := rawsys.ClockGettime(unix.CLOCK_REALTIME_COARSE)
	if err != nil {
		return time.Time{} // everything is young then
	}
	return now
}

// earlier returns the earlier of two times; a zero time does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
