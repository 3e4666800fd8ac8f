package cgroup

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Disk is the block device of a directory, under its name in the io controllers.
// The zero value means that the directory has no such device: it is on a tmpfs, an
// overlay, or a file system of another machine or of several disks.
type Disk struct {
	number    string // "major:minor" of the whole disk
	writeback bool   // the file system tells the kernel which cgroup a buffered write belongs to
}

// diskOf finds the disk of a directory. Only whole disks can be throttled, so for
// a partition it returns the disk with that partition.
func diskOf(dir string) Disk {
	var st unix.Stat_t
	if dir == "" || unix.Stat(dir, &st) != nil || unix.Major(st.Dev) == 0 {
		return Disk{} // major 0 has no device (kernel: Documentation/admin-guide/devices.txt)
	}
	number := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	place, err := filepath.EvalSymlinks(filepath.Join("/sys/dev/block", number))
	if err != nil {
		return Disk{}
	}
	if _, err := os.Stat(filepath.Join(place, "partition")); err == nil {
		if number = word(filepath.Join(filepath.Dir(place), "dev")); number == "" {
			return Disk{}
		}
	}
	return Disk{number: number, writeback: knowsWriter(dir)}
}

// knowsWriter reports whether dir is on a file system with cgroup writeback (kernel:
// Documentation/admin-guide/cgroup-v2.rst, "Writeback"). On other file systems the kernel
// does not know which cgroup caused a write to the disk.
func knowsWriter(dir string) bool {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return false
	}
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC:
		return true // ext2 and ext3 share the number of ext4, and its driver
	}
	return false
}

// v1Limits returns the settings for cgroup v1, or nil if the disk is not known.
// With 0 bytes the settings remove the limit.
func (d Disk) v1Limits(bytes int64) []setting {
	if d.number == "" {
		return nil
	}
	value := fmt.Sprintf("%s %d", d.number, bytes)
	return []setting{
		{"blkio.throttle.read_bps_device", value, false},
		{"blkio.throttle.write_bps_device", value, false},
	}
}

func (d Disk) v2Limits(bytes int64) []setting {
	if d.number == "" {
		return nil
	}
	return []setting{{"io.max", fmt.Sprintf("%s rbps=%d wbps=%[2]d", d.number, bytes), false}}
}
