package sandbox

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/limit"
)

// storage is an area of a disk, limited in bytes and files, that a box gets
// instead of its tmpfs. It is a mount that is attached nowhere: no path of the
// host leads to it, and it disappears with its last user.
//
// There are two ways to limit such an area, tried in this order:
//
//	a project quota of the file system that the spool is on (storage_quota.go):
//	cheap to make, and full with EDQUOT
//	a file with a file system of its own, on a loop device (storage_loop.go):
//	needs mke2fs and milliseconds, and is full with ENOSPC
//
// Both need root. If neither works, no box gets storage on disk: storage in memory
// instead would use up the memory that the profile gives to the commands.
type storage struct {
	fd      int          // descriptor of the mount
	release func() error // removes the area after the box has ended; may be nil

	closing sync.Mutex // held to use fd without keeping the box open
}

// openStorage makes an area of the disk that dir is on, for a box whose processes run as
// the user uid on the host. The caller must close it.
func openStorage(dir string, bytes, inodes int64, uid int) (*storage, error) {
	quotaErr := canQuota(dir)
	if quotaErr == nil {
		return openQuota(dir, bytes, inodes, uid)
	}
	loopErr := canLoop()
	if loopErr == nil {
		return openLoop(dir, bytes, inodes, uid)
	}
	return nil, &limit.Refusal{
		Message: "this host cannot bound storage on disk; the operator can run belljar as root with e2fsprogs and loop devices, " +
			"or put its spool on ext4 or xfs mounted with prjquota, or set storage: memory in the profile",
		Err: errors.Join(quotaErr, loopErr),
	}
}

// close closes the mount and removes the area. The box must have ended. close may
// be called twice, but not concurrently.
func (s *storage) close() error {
	if s.fd < 0 {
		return nil
	}
	s.closing.Lock()
	err := unix.Close(s.fd)
	s.fd = -1
	s.closing.Unlock()
	if s.release != nil {
		err = errors.Join(err, s.release())
	}
	return err
}

// diskHeld reports how storage in a spool is limited.
func diskHeld(spool string) limit.Enforcement {
	if canQuota(spool) == nil || canLoop() == nil {
		return limit.Enforced
	}
	return limit.NotEnforced
}
