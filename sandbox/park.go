package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
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
//
// Box.waking orders all this. A goroutine that needs the init holds the lock for
// reading, from before it checks that the box is awake until its command is in
// the table. A goroutine that parks or wakes the box holds the lock for writing.

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
	places  []uint64 // see Box.places
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

// keep takes over the mounts that the init of a new box sent.
func (b *Box) keep(files []int) error {
	k := &b.kept
	if k.want == 0 || len(files) != k.want {
		boxinit.CloseAll(files)
		return fmt.Errorf("its init sent %d mounts", len(files))
	}
	k.want = 0
	if b.grant.Workspace() == policies.AccessOverlay {
		k.overlay, files = files[0], files[1:]
	}
	if len(files) > 0 {
		k.storage = files[0]
	}
	return nil
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

// places are the directories of the storage, by their numbers, as they are
// named now.
func (b *Box) places() ([]uint64, error) {
	fd := b.kept.storage
	if b.area != nil {
		fd = b.area.fd
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

// rest is what a box does that was left alone for a while.
func (b *Box) rest() {
	b.mu.Lock()
	if b.closed || b.parked {
		b.mu.Unlock()
		return
	}
	if left := b.sup.restAfter - time.Since(b.used); left > 0 {
		b.resting.Reset(left)
		b.mu.Unlock()
		return
	}
	b.waits = false
	b.wg.Add(1) // Close has not begun to wait
	b.mu.Unlock()
	defer b.wg.Done()
	if !b.coolDown() && (!b.kept.able || b.park()) {
		return
	}
	b.restLater()
}

// restLater begins to wait anew for the box to be left alone. The timer is not
// set anew for each command: see Box.ask.
func (b *Box) restLater() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = time.Now()
	switch {
	case b.closed || b.parked || b.waits:
		return
	case b.resting == nil:
		b.resting = time.AfterFunc(b.sup.restAfter, b.rest)
	default:
		b.resting.Reset(b.sup.restAfter)
	}
	b.waits = true
}

// park lets the init of an idle box go, and reports whether it did: not where a
// command is being started, nor where something would be lost.
func (b *Box) park() bool {
	if !b.waking.TryLock() {
		return false
	}
	defer b.waking.Unlock()
	if !b.idle() || !b.holdsNothing() {
		return false
	}
	if now, err := b.places(); err != nil || !slices.Equal(now, b.kept.places) {
		return false
	}
	if !b.letGo() {
		return false
	}
	b.mu.Lock()
	spare := b.spare
	b.spare = nil
	b.mu.Unlock()
	for _, l := range spare {
		l.Remove()
	}
	return true
}

// idle reports whether nothing runs in the box that the supervisor knows of.
// b.waking is held for writing.
func (b *Box) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.closed && !b.parked && len(b.running) == 0 && b.warm == nil && len(b.published) == 0
}

// holdsNothing asks the init whether something would be lost with it.
func (b *Box) holdsNothing() bool {
	select {
	case <-b.answers: // to a question that was given up
	default:
	}
	b.mu.Lock()
	b.lastID++
	id := b.lastID
	b.mu.Unlock()
	if b.send(&boxinit.Request{Op: boxinit.OpIdle, ID: id}) != nil {
		return false
	}
	late := time.NewTimer(b.sup.patience.start)
	defer late.Stop()
	select {
	case r := <-b.answers:
		return r.ID == id && r.Errno == 0
	case <-b.gone:
	case <-late.C:
	}
	return false
}

// letGo ends the init and what serves it, and reports whether the box is parked
// now: not if it was closed, or broke, before. b.waking is held for writing.
func (b *Box) letGo() bool {
	b.mu.Lock()
	b.parked = !b.closed
	parked, ended := b.parked, b.ended
	b.mu.Unlock()
	if !parked {
		return false
	}
	_ = b.process.Kill()
	b.conn.Close()
	<-ended
	b.door.leave()
	b.execs.close()
	return true
}

// stay wakes the box if it is parked, and locks b.waking for reading, which
// keeps it awake. If stay returns no error, the caller must unlock it.
func (b *Box) stay(ctx context.Context) error {
	for {
		b.waking.RLock()
		if !b.parked {
			return nil
		}
		b.waking.RUnlock()
		if err := b.wake(ctx); err != nil {
			return err
		}
	}
}

// wake builds a parked box again. If that fails it stays parked, and nothing of
// it is lost.
func (b *Box) wake(ctx context.Context) error {
	b.waking.Lock()
	defer b.waking.Unlock()
	b.mu.Lock()
	parked, closed := b.parked, b.closed
	err := b.goneErr()
	b.mu.Unlock()
	switch {
	case closed:
		return err
	case !parked:
		return nil // somebody else was first
	}
	if err := b.group.Room(); err != nil {
		return err
	}
	if err := b.live(ctx); err != nil {
		return fmt.Errorf("wake box %s: %w", b.id, err)
	}
	return nil
}

// live begins a life of the box: from its init to the init's end. Where it
// fails the box is as it was.
func (b *Box) live(ctx context.Context) error {
	if err := b.begin(ctx); err != nil {
		b.door.leave()
		b.execs.close()
		return err
	}
	_ = b.conn.expect(time.Time{})
	ended := make(chan struct{})
	b.mu.Lock()
	closed := b.closed
	if !closed {
		b.parked, b.ended = false, ended
		b.wg.Go(func() {
			defer close(ended)
			b.listen()
		})
	}
	b.mu.Unlock()
	if closed {
		b.endInit()
		b.door.leave()
		b.execs.close()
		return errors.New("it is being closed")
	}
	if err := b.door.listenAgain(ctx); err != nil {
		b.letGo()
		return fmt.Errorf("open the egress door: %w", err)
	}
	b.restLater()
	return nil
}

// endInit ends an init that nobody listens to.
func (b *Box) endInit() {
	b.conn.Close()
	_ = b.process.Kill()
	_, _ = b.process.Wait()
}
