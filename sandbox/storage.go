package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/claim"
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
	fd      int          // the mount
	release func() error // removes the area after the box has ended; may be nil
}

// openStorage makes an area of the disk that dir is on, for a box whose
// processes are uid on the host. The caller must close it.
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
	err := unix.Close(s.fd)
	s.fd = -1
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

// areasOf returns the directory in dir for our areas. Its name tells a later
// supervisor which supervisor made it. If it does not exist, areasOf makes it
// and removes the directories of supervisors that were killed.
func areasOf(dir string) (string, error) {
	self, err := claim.Process()
	if err != nil {
		return "", err
	}
	areas := filepath.Join(dir, "belljar."+self)
	err = os.Mkdir(areas, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		// Every user may be able to write to the spool, and the name can be guessed.
		if !ours(areas) {
			return "", fmt.Errorf("%s is not ours", areas)
		}
	case err != nil:
		return "", err
	default:
		sweepStorage(dir)
	}
	return areas, nil
}

// ours reports whether path is a directory that nobody else could have made.
func ours(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Geteuid() && st.Mode&0o077 == 0
}

// sweepStorage removes the areas of supervisors that are dead.
func sweepStorage(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		p := strings.Split(e.Name(), ".")
		if len(p) != 3 || p[0] != "belljar" || !ours(filepath.Join(dir, e.Name())) {
			continue
		}
		if claim.Runs(p[1] + "." + p[2]) {
			continue
		}
		areas := filepath.Join(dir, e.Name())
		left, err := os.ReadDir(areas)
		if err != nil {
			continue
		}
		for _, area := range left {
			// The supervisor may be in another PID namespace, and alive.
			path := filepath.Join(areas, area.Name())
			if f, yes := claim.Abandoned(path); yes {
				_ = removeArea(path)
				f.Close()
			}
		}
		_ = os.Remove(areas)
	}
}
