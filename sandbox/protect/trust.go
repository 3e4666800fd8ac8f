package protect

import (
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/kernel"
	"belljar.dev/sandbox/rawsys"
)

// trust says which properties of a file system can be relied on.
type trust struct {
	near bool // whether it is local, so that reading what is in memory does not block
	// whether every change of a directory shows in its time (ctime, which cannot be set:
	// inode(7)), by this machine's clock
	times bool
	fine  bool // whether a change that directly follows another one shows too
	// mapped says that the first write through a new mapping shows in the time of a file
	// (page_mkwrite; tmpfs has none).
	mapped bool
}

// trustOf returns the trust in the file system of an open file in the workspace: another
// file system may be mounted there.
func (w *workdir) trustOf(fd int, st *unix.Stat_t) trust {
	if st.Dev == w.dev {
		return w.trust
	}
	return trustIn(fd)
}

// trustAt is trustOf for a file at a path.
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

// trustIn returns what is known about the file system of a file. Since Linux 6.13, times
// are fine once somebody has read them (multigrain timestamps). Nothing is known about FUSE
// and network file systems, and one of them may be below an overlay.
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

// tooYoung reports whether something may change again and show the same time: it changed in
// the tick in which the look began, or later. Its time must have been read before its
// content is looked at.
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

// wholeSeconds reports whether the file system of a file seems to count seconds, whatever
// its kind: ext4 has no room for more in inodes of 128 bytes (ext4(5), "large inodes"), and
// FAT counts two at a time.
func wholeSeconds(st *unix.Stat_t) bool { return st.Ctim.Nsec == 0 }

// fileClock returns the time by the clock from which the times of files were taken before
// Linux 6.13. That clock advances with the kernel's tick, which may be late on a virtual
// machine (clock_getres(2), CLOCK_REALTIME_COARSE).
func fileClock() time.Time {
	now, err := rawsys.ClockGettime(unix.CLOCK_REALTIME_COARSE)
	if err != nil {
		return time.Time{} // everything is then young
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
