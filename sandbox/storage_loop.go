package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/hostexec"
)

const (
	loopControl  = "/dev/loop-control"
	mkfsDeadline = 30 * time.Second
	mkfsOutput   = 64 << 10 // bytes of its output; it writes little
	loopTries    = 64       // number of attempts: another process may take a free device first

	imageBlock = 4096
	imageInode = 256 // bytes of one inode; mke2fs(8), -I
	leastImage = 2 << 20
)

// imageFeatures names all features that an area needs, because the defaults in
// mke2fs.conf differ between hosts. It has no journal, because an area does not
// outlive its box.
const imageFeatures = "none,64bit,dir_index,dir_nlink,extent,extra_isize,filetype,flex_bg,huge_file,large_file,metadata_csum,sparse_super"

// mkfsPlaces are the directories with the program that makes a file system. PATH
// is not used: a project often sets it, and the program runs as root.
var mkfsPlaces = []string{"/usr/sbin/mke2fs", "/sbin/mke2fs", "/usr/bin/mke2fs", "/usr/local/sbin/mke2fs", "/run/current-system/sw/bin/mke2fs"}

// mkfs finds the program that makes a file system.
func mkfs() (string, error) {
	for _, name := range mkfsPlaces {
		if path, err := hostexec.WrittenIn().Find(name, ""); err == nil {
			return path, nil
		}
	}
	return "", errors.New("loop image: no mke2fs; install the package e2fsprogs")
}

// canLoop returns what the host lacks for an area in a loop image.
func canLoop() error {
	if os.Geteuid() != 0 {
		return errors.New("loop image: only root can mount one")
	}
	if err := unix.Access(loopControl, unix.R_OK|unix.W_OK); err != nil {
		return fmt.Errorf("loop image: %s: %w", loopControl, err)
	}
	_, err := mkfs()
	return err
}

// openLoop makes an area in a file without a name. So nothing is left even if belljar is
// killed: the device is removed with its last mount (loop(4), LO_FLAGS_AUTOCLEAR), and the
// file with the device.
func openLoop(dir string, size, inodes int64, uid int) (_ *storage, err error) {
	image, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make loop image: %w", err)
	}
	defer image.Close() // the device keeps it open
	// The inodes are added to size. The other needs of the file system are not, so an area
	// has room for a little less than size.
	size = max(size, leastImage) + inodes*imageInode
	if err := image.Truncate(size); err != nil {
		return nil, fmt.Errorf("make loop image: %w", err)
	}
	if err := makeFileSystem(image, size, inodes, uid); err != nil {
		return nil, err
	}
	device, err := attachLoop(image)
	if err != nil {
		return nil, err
	}
	defer device.Close() // the mount keeps it open
	fd, err := mountExt4(device.Name())
	if err != nil {
		return nil, fmt.Errorf("mount loop image: %w", err)
	}
	return &storage{fd: fd}, nil
}

// makeFileSystem writes an empty file system, whose root belongs to uid.
func makeFileSystem(image *os.File, size, inodes int64, uid int) error {
	program, err := mkfs()
	if err != nil {
		return err
	}
	var said bytes.Buffer
	code, err := hostexec.Run(context.Background(), hostexec.Program{ //nolint:forbidigo // bounded, and half a file system is of no use to anybody
		Argv: []string{program, "-q", "-F", "-t", "ext4", "-O", imageFeatures},
		// The file has no name; the program finds it as its descriptor 3.
		Data: []string{
			"-b", strconv.Itoa(imageBlock), "-I", strconv.Itoa(imageInode), "-N", strconv.FormatInt(inodes, 10), "-m", "0",
			"-E", fmt.Sprintf("lazy_itable_init=1,nodiscard,root_owner=%d:%d", uid, uid),
			"/proc/self/fd/3", strconv.FormatInt(size/imageBlock, 10),
		},
		Files: []*os.File{image},
		// The path is absolute and belongs to the system, and no argument names a
		// file of a box, so a box can influence nothing here.
		Dir: "/", Env: []string{"MKE2FS_CONFIG=/dev/null"}, Boxes: hostexec.WrittenIn(),
		Timeout: mkfsDeadline, Stderr: &said, Output: mkfsOutput,
	})
	switch {
	case err != nil:
		return fmt.Errorf("make file system: %w: %s", err, strings.TrimSpace(said.String()))
	case code != 0:
		return fmt.Errorf("make file system: %s: exit status %d: %s", program, code, strings.TrimSpace(said.String()))
	}
	return nil
}

// attachLoop gives the image a block device.
func attachLoop(image *os.File) (*os.File, error) {
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("find loop device: %w", err)
	}
	defer control.Close()
	for range loopTries {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find loop device: %w", err)
		}
		device, err := os.OpenFile("/dev/loop"+strconv.Itoa(number), os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("open loop device: %w", err)
		}
		// Use direct I/O if the file system below supports it: otherwise memory
		// would have two copies of what a box writes.
		config := unix.LoopConfig{Fd: uint32(image.Fd()), Size: imageBlock}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
		err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
		if err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("set up loop device: %w", err)
		}
	}
	return nil, fmt.Errorf("find loop device: others took %d in a row: %w", loopTries, unix.EBUSY)
}

// mountExt4 mounts a device nowhere (fsopen(2)).
func mountExt4(device string) (int, error) {
	fd, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	err = errors.Join(
		unix.FsconfigSetString(fd, "source", device),
		unix.FsconfigSetFlag(fd, "discard"),       // what a box removes leaves the image too
		unix.FsconfigSetFlag(fd, "noinit_itable"), // tables are zeroed when they are used; the file is zero anyway
	)
	if err == nil {
		err = unix.FsconfigCreate(fd)
	}
	if err != nil {
		return -1, err
	}
	return unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}
