package sandbox

import (
	"fmt"
	"sync"

	"belljar.dev/sandbox/boxinit"
	"golang.org/x/sys/unix"
)

// kept is what outlives the init of a box.
type kept struct {
	able    bool     // whether all that the box writes to is kept, so that it may be parked
	overlay int      // mount of its overlay workspace, or -1
	storage int      // mount of its storage in memory, or -1
	want    int      // number of mounts that the init has yet to hand over
	places  []uint64 // inode numbers of the storage's directories, see kept.find

	closing sync.Mutex // held to use storage without keeping the box open
}

// keep makes a mount outlive the init: the init hands it over to the supervisor, and the
// box gets a copy.
func (p *plan) keep(b *builder, tree boxinit.Slot) boxinit.Slot {
	if !p.keeps {
		return tree
	}
	b.kept = append(b.kept, tree)
	return b.clone(tree)
}

// keeping returns how many mounts the script of p hands over.
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

// again gives a plan what is kept of the box, or the area on a disk. It must be called
// last, when it is known whether p keeps.
func (k *kept) again(p *plan, area *storage) (err error) {
	switch {
	case area != nil && p.keeps:
		// The init takes the mount with it when it ends, so it gets another one.
		p.area, err = openTreeFlags(area.fd, "", mountAttr{set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, propagation: unix.MS_PRIVATE}, nil, 0)
	case area != nil:
		p.area, err = unix.FcntlInt(uintptr(area.fd), unix.F_DUPFD_CLOEXEC, 0)
	case k.storage >= 0:
		p.kept = true
		p.area, err = unix.FcntlInt(uintptr(k.storage), unix.F_DUPFD_CLOEXEC, 0)
	}
	// The downloads of a browser are in a file system of their own, which no other init gets.
	k.able, k.want = p.keeps && p.downloads == 0, p.keeping()
	return err
}

// take takes ownership of the mounts that an init sent: that of its overlay workspace, if
// it has one, and that of its storage in memory.
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
		k.closing.Lock()
		k.storage = files[0]
		k.closing.Unlock()
	}
	return nil
}

// find returns the inode numbers of the storage's directories, under their present names.
// area is the storage on a disk, or nil.
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
		all = append(all, st.Ino) // no other file has this number while the mount exists
	}
	return all, nil
}

// close closes the mounts.
func (k *kept) close() {
	k.closing.Lock()
	defer k.closing.Unlock()
	for _, fd := range []*int{&k.overlay, &k.storage} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}
