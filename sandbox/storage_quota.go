package sandbox

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/claim"
)

// Project quotas of ext4 and xfs (quotactl(2), "XFS quota commands", which the
// kernel answers for ext4 as well). A directory and all that is made below it
// belong to a project, and the project has limits.

// Project numbers of areas. Administrators count from 1 (projid(5)) and
// container engines from some thousands.
const (
	firstProject = 0x70000000
	lastProject  = 0x7fffffff
)

// Numbers of linux/dqblk_xfs.h and linux/quota.h.
const (
	quotaGetQuota = 'X'<<8 + 3
	quotaSetLimit = 'X'<<8 + 4
	quotaGetState = 'X'<<8 + 8
	ofProjects    = 2 // PRJQUOTA

	stateEnforced = 1 << 5                       // FS_QUOTA_PDQ_ENFD
	limitFields   = 1<<0 | 1<<1 | 1<<2 | 1<<3    // FS_DQ_ISOFT, IHARD, BSOFT, BHARD
	basicBlock    = 512                          // bytes of the unit in which limits are counted
	ioctlGetAttr  = 2<<30 | 28<<16 | 'X'<<8 | 31 // FS_IOC_FSGETXATTR
	ioctlSetAttr  = 1<<30 | 28<<16 | 'X'<<8 | 32 // FS_IOC_FSSETXATTR
	inherit       = 0x200                        // FS_XFLAG_PROJINHERIT
)

// fsxattr is struct fsxattr of linux/fs.h.
type fsxattr struct {
	flags, extent, extents, project, cowExtent uint32
	_                                          [8]byte
}

// diskQuota is struct fs_disk_quota of linux/dqblk_xfs.h.
type diskQuota struct {
	version, flags                                             int8
	fields                                                     uint16
	id                                                         uint32
	blockHard, blockSoft, inodeHard, inodeSoft, blocks, inodes uint64
	_                                                          [48]byte
}

// quotactl is quotactl_fd(2) (Linux 5.14): no path to a block device, which a
// container does not have.
func quotactl(fd, command int, id uint32, data unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), uintptr(command<<8|ofProjects), uintptr(id), uintptr(data), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// canQuota returns what the file system of dir lacks for an area with a quota.
func canQuota(dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("project quota: only root can set one")
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("project quota: open %s: %w", dir, err)
	}
	defer unix.Close(fd)
	// struct fs_quota_statv: a version byte, and flags at 2; the kernel writes
	// less than this.
	state := [256]byte{1}
	if err := quotactl(fd, quotaGetState, 0, unsafe.Pointer(&state)); err != nil {
		return fmt.Errorf("project quota: %s has none: %w", dir, err)
	}
	if binary.NativeEndian.Uint16(state[2:])&stateEnforced == 0 {
		return fmt.Errorf("project quota: %s is not mounted with prjquota", dir)
	}
	return nil
}

// openQuota makes a directory with a project of its own.
func openQuota(dir string, bytes, inodes int64, uid int) (_ *storage, err error) {
	area, err := makeArea(dir)
	if err != nil {
		return nil, fmt.Errorf("make storage: %w", err)
	}
	release := func() error {
		err := errors.Join(removeArea(area.Name()), area.Close())
		_ = os.Remove(filepath.Dir(area.Name())) // fails while it contains other areas
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, release())
		}
	}()
	fd := int(area.Fd())
	if err := setQuota(fd, bytes, inodes); err != nil {
		return nil, fmt.Errorf("bound storage: %w", err)
	}
	if err := errors.Join(unix.Fchown(fd, uid, uid), unix.Fchmod(fd, 0o755)); err != nil {
		return nil, fmt.Errorf("hand out storage: %w", err)
	}
	tree, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return nil, fmt.Errorf("mount storage: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(tree)
		return nil, fmt.Errorf("mount storage: %w", err)
	}
	return &storage{fd: tree, release: release}, nil
}

// makeArea makes an empty directory among those of this supervisor. The directory above is
// removed with the last area, so it may disappear between two steps.
func makeArea(dir string) (*os.File, error) {
	const tries = 10
	var last error
	for range tries {
		areas, err := areasOf(dir)
		if err != nil {
			return nil, err
		}
		area, err := claim.Make(filepath.Join(areas, "area-"+rand.Text()), 0o700)
		if err == nil {
			return area, nil
		}
		last = err
	}
	return nil, last
}

func openArea(area string) (int, error) {
	return unix.Open(area, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// setQuota gives a directory an unused project, and the project its limits. It
// sets the limits first: a project without limits is unbounded.
func setQuota(fd int, bytes, inodes int64) error {
	const tries = 16
	for range tries {
		var random [4]byte
		if _, err := rand.Read(random[:]); err != nil {
			return err
		}
		project := firstProject | binary.NativeEndian.Uint32(random[:])&(lastProject-firstProject)
		used, err := quotaOf(fd, project)
		if err != nil {
			return err
		}
		if used.blockHard != 0 || used.inodeHard != 0 || used.blocks != 0 || used.inodes != 0 {
			continue
		}
		blocks := uint64(bytes+basicBlock-1) / basicBlock
		if err := limitProject(fd, project, blocks, uint64(inodes)); err != nil {
			return err
		}
		attr := fsxattr{flags: inherit, project: project}
		return attributes(fd, ioctlSetAttr, &attr)
	}
	return fmt.Errorf("find a project: %d in a row are in use", tries)
}

// quotaOf returns the usage and the limits of a project; zero if it is unknown.
func quotaOf(fd int, project uint32) (diskQuota, error) {
	var q diskQuota
	err := quotactl(fd, quotaGetQuota, project, unsafe.Pointer(&q))
	if errors.Is(err, unix.ENOENT) { // xfs; ext4 returns zeros
		err = nil
	}
	return q, err
}

// limitProject sets the limits of a project; zeros remove them.
func limitProject(fd int, project uint32, blocks, inodes uint64) error {
	q := diskQuota{
		version: 1, flags: ofProjects, fields: limitFields, id: project,
		blockHard: blocks, blockSoft: blocks, inodeHard: inodes, inodeSoft: inodes,
	}
	return quotactl(fd, quotaSetLimit, project, unsafe.Pointer(&q))
}

func attributes(fd int, command uintptr, attr *fsxattr) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), command, uintptr(unsafe.Pointer(attr))); errno != 0 {
		return errno
	}
	return nil
}

// removeArea removes a directory with its content and the limits of its project.
// It follows no link that a box left in it: os.RemoveAll resolves names one by
// one, below open directories.
func removeArea(area string) error {
	var attr fsxattr
	fd, err := openArea(area)
	if err != nil {
		return fmt.Errorf("remove storage: %w", err)
	}
	err = attributes(fd, ioctlGetAttr, &attr)
	unix.Close(fd)
	if err != nil {
		return fmt.Errorf("remove storage: %w", err)
	}
	if err := os.RemoveAll(area); err != nil {
		return fmt.Errorf("remove storage: %w", err)
	}
	if attr.project < firstProject || attr.project > lastProject {
		return nil // it died before it had a project
	}
	above, err := openArea(filepath.Dir(area))
	if err != nil {
		return fmt.Errorf("remove storage: %w", err)
	}
	defer unix.Close(above)
	if err := limitProject(above, attr.project, 0, 0); err != nil {
		return fmt.Errorf("remove limits of storage: %w", err)
	}
	return nil
}

// areasOf returns the directory in dir for this supervisor's areas. Its name tells a later
// supervisor which supervisor made it. If it does not exist, areasOf makes it and removes
// the directories of supervisors that were killed.
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
			// The supervisor may be alive in another PID namespace.
			path := filepath.Join(areas, area.Name())
			if f, yes := claim.Abandoned(path); yes {
				_ = removeArea(path)
				f.Close()
			}
		}
		_ = os.Remove(areas)
	}
}
