package sandbox

import (
	"slices"
	"time"
)

// A box that was idle for a while is parked: its init ends, and with it the
// namespaces, which are most of what an idle box uses. The next command wakes the
// box: a new init builds it again, by the same script
// (docs/decisions/2026-11-22-parking.md).
//
// The state that a command could miss is kept:
//
//   - the file systems that the box writes to, by mounts of them that are
//     attached nowhere (kept);
//   - its cgroups, with what is counted there, because what is stored in memory
//     belongs to one of them;
//   - what the supervisor knows: jobs, outputs, the door with its rules and
//     authority.
//
// A box that has more than that is not parked: for example a command or another
// process, a System V object, a published port, a file system for the downloads of
// a browser, or a directory of its storage that a command has moved. A box is not
// parked either if this cannot be found out.

// restAfter is how long a box must be idle after its last command before it gives up its
// warm shell, and again before it is parked. A person or a model that thinks for a minute
// will probably think longer, and what is given up costs the next command about two
// milliseconds.
const restAfter = 30 * time.Second

// rest makes an idle box give up its warm shell, and parks the box the next time.
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

// restLater begins to wait again until the box was idle for long enough. The timer is not
// set again for each command: see initProc.ask.
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

// park ends the init of an idle box, and reports whether it did. It does not if a command
// is being started, or if something would be lost.
func (l *life) park() bool {
	b := l.box
	if !l.waking.TryLock() {
		return false
	}
	defer l.waking.Unlock()
	if !l.kept.able || !l.idle() || !b.init.holdsNothing() {
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

// idle reports whether nothing runs in the box, as far as the supervisor knows. l.waking is
// held for writing.
func (l *life) idle() bool {
	b := l.box
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	return b.table.cause == nil && !l.parked && len(b.table.running) == 0 && b.table.warm == nil && len(b.ports.open) == 0
}

// letGo ends the init and the goroutines that serve it, and reports whether the box is
// parked now. It is not if it was closed, or has failed, before. l.waking is held for
// writing.
func (l *life) letGo() bool {
	b := l.box
	b.table.mu.Lock()
	l.parked = b.table.cause == nil
	parked, ended := l.parked, l.ended
	b.table.mu.Unlock()
	if !parked {
		return false
	}
	b.init.kill()
	b.init.conn.Close()
	<-ended
	b.means.detach()
	return true
}
