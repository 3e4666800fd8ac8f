package sandbox

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// disk is the block device that a directory is on, as the io controllers name
// it. The zero value is no such device: a tmpfs, an overlay, a file system of
// another machine or of many disks.
type disk struct {
	number    string // "major:minor" of the whole disk
	writeback bool   // its file system tells the kernel whose a buffered write is
}

// diskOf finds the disk of a directory. Throttling knows whole disks only, so
// a partition stands for the disk that it is on.
func diskOf(dir string) disk {
	var st unix.Stat_t
	if dir == "" || unix.Stat(dir, &st) != nil || unix.Major(st.Dev) == 0 {
		return disk{} // major 0 has no device (kernel: Documentation/admin-guide/devices.txt)
	}
	number := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	place, err := filepath.EvalSymlinks(filepath.Join("/sys/dev/block", number))
	if err != nil {
		return disk{}
	}
	if _, err := os.Stat(filepath.Join(place, "partition")); err == nil {
		if number = knob(filepath.Join(filepath.Dir(place), "dev")); number == "" {
			return disk{}
		}
	}
	return disk{number: number, writeback: knowsWriter(dir)}
}

// knowsWriter reports whether dir is on a file system with cgroup writeback
// (kernel: Documentation/admin-guide/cgroup-v2.rst, "Writeback"): on others
// what a box writes is written to the disk in nobody's name.
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

// tryDisk forgets the disk if the io controllers do not take it: there are
// disks without a queue to throttle.
func (c *cgroups) tryDisk() {
	tries := map[string][]setting{c.v1[ctlIO]: c.disk.v1Limits(0)}
	if c.v2ctl[ctlIO] {
		tries = map[string][]setting{c.v2: {{"io.max", c.disk.number + " rbps=max wbps=max", false}}}
	}
	for dir, settings := range tries {
		if dir == "" || c.disk.number == "" || limit(dir, settings) != nil {
			c.disk = disk{}
		}
	}
}

// ioHeld says how io is bounded on the workspace's disk. On v1, and on v2
// where nobody knows the writer, what is written through the page cache is
// written in the kernel's name and passes; reads and direct writes do not.
func (c *cgroups) ioHeld() Enforcement {
	switch {
	case c.disk.number == "" || !c.has(ctlIO):
		return NotHeld
	case c.v2ctl[ctlIO] && c.v2ctl[ctlMemory] && c.disk.writeback:
		return Enforced
	}
	return Partly
}

// v1Limits returns the settings for cgroup v1, or nil if the disk is not known.
// With 0 bytes the settings remove the limit.
func (d disk) v1Limits(bytes int64) []setting {
	if d.number == "" {
		return nil
	}
	value := fmt.Sprintf("%s %d", d.number, bytes)
	return []setting{
		{"blkio.throttle.read_bps_device", value, false},
		{"blkio.throttle.write_bps_device", value, false},
	}
}

func (d disk) v2Limits(bytes int64) []setting {
	if d.number == "" {
		return nil
	}
	return []setting{{"io.max", fmt.Sprintf("%s rbps=%d wbps=%[2]d", d.number, bytes), false}}
}
