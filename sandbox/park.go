package sandbox

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/boxinit"
)

// A box that was idle for a while is parked: its init goes, and with it the
// namespaces, which are most of what an idle box holds. Its next command wakes
// it: a new init builds it again, by the same script
// (docs/decisions/2026-11-22-parking.md).
//
// What a command could miss is kept:
//
//   - the file systems that the box writes to, by mounts of them that are
//     attached nowhere (kept);
//   - its cgroups, with what is counted there, since what is stored in memory
//     belongs to one of them;
//   - what the supervisor knows: jobs, outputs, the door with its rules and
//     authority.
//
// A box that has more than that is not parked: for example a command or another
// process, a System V object, a published port, or a directory of its storage
// that a command has moved. It is not parked either if this cannot be found out.

// restAfter is how long a box is left alone after its last command before it
// gives up its warm shell, and once more before it is parked: a person or a
// model that thinks for a minute is likely to think on, and what is given up
// costs the next command some two milliseconds.
const restAfter = 30 * time.Second

// kept is what outlives the init of a box.
type kept struct {
	able    bool     // all that the box writes to is kept
	overlay int      // the mount of its overlay workspace, or -1
	storage int      // that of its storage in memory, or -1
	want    int      // how many mounts the init has yet to hand over
	places  []uint64 // see kept.find
}

// keep makes a mount outlive the init: it is handed over to the supervisor, and
// what the box gets is a copy.
func (p *plan) keep(b *builder, tree boxinit.Slot) boxinit.Slot {
	if !p.keeps {
		return tree
	}
	b.kept = append(b.kept, tree)
	return b.clone(tree)
}

// keeping is how many mounts the script of p hands over.
func (p *plan) keeping() (n int) {
	if p.keeps && p.overlaid() && p.tree < 0 {
		n++
	}
	if p.keeps && p.area < 0 {
		n++
	}
	return n
}

func (p *plan) handOverKept(b *builder) {
	if len(b.kept) > 0 {
		b.Step("hand over the mounts")
		b.handOver(boxinit.KeptReply(), b.kept...)
	}
}

// treeSlot holds p.tree.
func (p *plan) treeSlot() boxinit.Slot {
	n := len(p.passed()) - 1
	if p.area >= 0 {
		n--
	}
	return boxinit.Slot(n)
}

// again gives a plan what is kept of the box, or the area of a disk. It comes
// last, when it is known whether p keeps.
func (k *kept) again(p *plan, area *storage) (err error) {
	switch {
	case area != nil && p.keeps:
		// Its init takes the mount with it, so it gets another.
		p.area, err = openTreeFlags(area.fd, "", mountAttr{set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, propagation: unix.MS_PRIVATE}, nil, 0)
	case area != nil:
		p.area, err = unix.FcntlInt(uintptr(area.fd), unix.F_DUPFD_CLOEXEC, 0)
	case k.storage >= 0:
		p.kept = true
		p.area, err = unix.FcntlInt(uintptr(k.storage), unix.F_DUPFD_CLOEXEC, 0)
	}
	k.able, k.want = p.keeps, p.keeping()
	return err
}

// take takes over the mounts that an init sent: that of its overlay workspace, if it
// has one, and that of its storage in memory.
func (k *kept) take(files []int, overlaid bool) error {
	if k.want == 0 || len(files) != k.want {
		boxinit.CloseAll(files)
		return fmt.Errorf("its init sent %d mounts", len(files))
	}
	k.want = 0
	if overlaid {
		k.overlay, files = files[0], files[1:]
	}
	if len(files) > 0 {
		k.storage = files[0]
	}
	return nil
}

// find returns the directories of the storage, by their numbers, as they are named
// now. area is that of a disk, or nil.
func (k *kept) find(area *storage) ([]uint64, error) {
	fd := k.storage
	if area != nil {
		fd = area.fd
	}
	var all []uint64
	for _, dir := range storageDirs {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, dir.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nil, fmt.Errorf("find %s of the box's storage: %w", dir.name, err)
		}
		all = append(all, st.Ino) // which nothing else has, as long as its mount is there
	}
	return all, nil
}

// close lets go of the mounts.
func (k *kept) close() {
	for _, fd := range []*int{&k.overlay, &k.storage} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// rest is what a box does that was left alone for a while.
func (l *life) rest() {
	b := l.box
	b.table.mu.Lock()
	if b.table.cause != nil || l.parked {
		b.table.mu.Unlock()
		return
	}
	if left := b.sup.restAfter - time.Since(l.used); left > 0 {
		l.resting.Reset(left)
		b.table.mu.Unlock()
		return
	}
	l.waits = false
	b.table.wg.Add(1) // Close has not begun to wait
	b.table.mu.Unlock()
	defer b.table.wg.Done()
	if !b.table.coolDown() && (!l.kept.able || l.park()) {
		return
	}
	l.restLater()
}

// restLater begins to wait anew for the box to be left alone. The timer is not
// set anew for each command: see initProc.ask.
func (l *life) restLater() {
	b := l.box
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	l.used = time.Now()
	switch {
	case b.table.cause != nil || l.parked || l.waits:
		return
	case l.resting == nil:
		l.resting = time.AfterFunc(b.sup.restAfter, l.rest)
	default:
		l.resting.Reset(b.sup.restAfter)
	}
	l.waits = true
}

// park lets the init of an idle box go, and reports whether it did: not where a
// command is being started, nor where something would be lost.
func (l *life) park() bool {
	b := l.box
	if !l.waking.TryLock() {
		return false
	}
	defer l.waking.Unlock()
	if !l.idle() || !b.init.holdsNothing() {
		return false
	}
	if now, err := l.kept.find(b.means.area); err != nil || !slices.Equal(now, l.kept.places) {
		return false
	}
	if !l.letGo() {
		return false
	}
	b.table.dropSpare()
	return true
}

// idle reports whether nothing runs in the box that the supervisor knows of.
// l.waking is held for writing.
func (l *life) idle() bool {
	b := l.box
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	return b.table.cause == nil && !l.parked && len(b.table.running) == 0 && b.table.warm == nil && len(b.ports.open) == 0
}
