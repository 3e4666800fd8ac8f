package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/kernel"
	"belljar.dev/sandbox/limit"
)

// A launcher fetches thousands of files for a server, and the server may want to write some
// of them. Its box has an overlay: the files as they are, which other boxes may have too,
// and a layer in the memory of the box, which receives all writes and ends with the box. A
// copy of the files took most of the time of a start.

// ErrNoScratch is the error for a box whose grant has a layer over fetched files, on a host
// that cannot mount the layer. The caller can make a copy instead.
var ErrNoScratch = errors.New("this host cannot mount a layer over what was fetched")

// layerFiles is how many files in a layer's file system the overlay itself needs.
const layerFiles = 16

// stepScratch is the beginning of the name of the step that fails on such a host.
const stepScratch = "lay a scratch over "

// checkScratch returns an error if the kernel is too old: since Linux 6.6 a tmpfs has the
// attributes in which an overlay of a user namespace keeps its marks (tmpfs(5), user.*).
func checkScratch() error {
	if !kernel.Since(6, 6) {
		return fmt.Errorf("%w: it needs Linux 6.6", ErrNoScratch)
	}
	return nil
}

// cannotLay are the errors of a kernel that cannot mount such a layer at all.
var cannotLay = []unix.Errno{unix.EINVAL, unix.EPERM, unix.ENODEV, unix.EOPNOTSUPP, unix.ENOSYS}

// scratch mounts a layer over a tree, into a mount that is not attached yet, and returns
// that mount in the tree's place. The limits bound the layer. As with the overlay
// workspace, what is mounted on the old root disappears with it; the overlay keeps its
// layers.
func (b *builder) scratch(m mount, tree boxinit.Slot, l policies.BoxLimits) boxinit.Slot {
	b.Step(stepScratch + m.source)
	b.Call(unix.SYS_MOUNT, "belljar", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
		"mode=700,size="+strconv.FormatInt(l.Tmp, 10)+",nr_inodes="+strconv.FormatInt(l.TmpFiles+layerFiles, 10))
	b.Call(unix.SYS_CHDIR, base)
	for _, dir := range []string{"lower", "upper", "work"} {
		b.Call(unix.SYS_MKDIRAT, atFDCWD, dir, 0o755)
	}
	b.Call(unix.SYS_MOVE_MOUNT, tree, "", atFDCWD, "lower", unix.MOVE_MOUNT_F_EMPTY_PATH)
	return b.layered("lower", "upper", "work")
}

// explainScratch returns the error of a box that could not be built because the kernel
// cannot mount such a layer, or nil for other errors. If only memory or room for the layer
// was missing, that says nothing about the next box.
func explainScratch(step string, errno unix.Errno) error {
	if !strings.HasPrefix(step, stepScratch) || !slices.Contains(cannotLay, errno) {
		return nil
	}
	return &limit.Refusal{Message: ErrNoScratch.Error(), Err: fmt.Errorf("%w: %s: %w", ErrNoScratch, step, errno)}
}
