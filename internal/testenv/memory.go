package testenv

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// memory is the directory at which most systems have a file system in memory that every
// user may write.
const memory = "/dev/shm"

// MemoryDir returns a directory for one test. It is in memory if programs can run there,
// and otherwise it is t.TempDir. It is for tests that make tens of thousands of files: ext4
// does not use an inode again for some seconds after its file was removed, and must search
// past all these inodes for each new file.
func MemoryDir(t testing.TB) string {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(memory, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC || fs.Flags&(unix.ST_NOEXEC|unix.ST_NOSUID|unix.ST_RDONLY) != 0 {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "belljar-test-") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
