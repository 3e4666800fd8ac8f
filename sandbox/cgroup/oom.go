package cgroup

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/procfs"
)

// When the memory of a box runs out, the kernel kills one process of it and leaves the rest
// of the command running without that process. The memory.oom.group of v2 would do better,
// but needs a memory controller below the box. So the supervisor must be notified of the
// kill.

// oomWatch waits for changes of the memory.events of boxes on v2 (kernel:
// Documentation/admin-guide/cgroup-v2.rst). One inotify instance serves all boxes,
// because a user may have only 128 (inotify(7), max_user_instances). On v1 each
// box has an eventfd instead.
type oomWatch struct {
	mu      sync.Mutex
	file    *os.File // nil until the first box is watched
	boxes   map[int32]*oomAlarm
	reading sync.WaitGroup
}

// oomAlarm is one box that is watched.
type oomAlarm struct {
	group  *Group
	notify func()
	gone   chan struct{} // closed by stop

	mu   sync.Mutex // held while notify runs, so that stop can wait for it
	seen int64
}

// WatchOOM calls notify after out-of-memory kills in the box, once for kills that
// come together, and never concurrently. stop ends the watch and waits for a
// running call, so notify must not call it; stop may be called twice. Without a
// memory controller notify is never called.
func (g *Group) WatchOOM(notify func()) (stop func(), err error) {
	a := &oomAlarm{group: g, notify: notify, gone: make(chan struct{}), seen: g.OOMKills()}
	end := func() {}
	switch {
	case g.v1[ctlMemory] != "":
		end, err = a.listen()
	case g.tree.v2ctl[ctlMemory]:
		end, err = g.tree.ooms.add(a)
	}
	if err != nil {
		return nil, fmt.Errorf("watch memory of box: %w", err)
	}
	return sync.OnceFunc(func() {
		close(a.gone)
		end()
		a.mu.Lock() // waits for a call that is in progress
		defer a.mu.Unlock()
	}), nil
}

// check calls notify if there was a kill since the last check, and reports whether
// there was one.
func (a *oomAlarm) check() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.gone:
		return false
	default:
	}
	n := a.group.OOMKills()
	if n <= a.seen {
		return false
	}
	a.seen = n
	a.notify()
	return true
}

// listen watches a box on v1: the kernel adds to an eventfd when the box is
// out of memory (kernel: Documentation/admin-guide/cgroup-v1/memory.rst,
// section 10).
func (a *oomAlarm) listen() (stop func(), err error) {
	dir := a.group.v1[ctlMemory]
	control, err := os.Open(filepath.Join(dir, "memory.oom_control"))
	if err != nil {
		return nil, err
	}
	defer control.Close() // the kernel needs it for the next write only
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	events := os.NewFile(uintptr(fd), "eventfd") // non-blocking, so the runtime polls it
	if err := procfs.Write(filepath.Join(dir, "cgroup.event_control"), fmt.Sprintf("%d %d", fd, control.Fd())); err != nil {
		events.Close()
		return nil, err
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		var count [8]byte
		for {
			if _, err := events.Read(count[:]); err != nil {
				return
			}
			a.settle()
		}
	})
	return func() {
		events.Close()
		reading.Wait()
	}, nil
}

// settle waits for the kill, which cgroup v1 announces before it happens. The kill mostly
// follows immediately, but later on a busy machine. No kill follows if the tenant's total
// ran out and the kernel chose a process of another box.
func (a *oomAlarm) settle() {
	const longest, patience = 100 * time.Millisecond, 5 * time.Second
	began := time.Now()
	for wait := time.Millisecond; !a.check() && time.Since(began) < patience; wait = min(2*wait, longest) {
		select {
		case <-a.gone:
			return
		case <-time.After(wait):
		}
	}
}

// add watches a box on v2.
func (w *oomWatch) add(a *oomAlarm) (stop func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return nil, err
		}
		w.file, w.boxes = os.NewFile(uintptr(fd), "inotify"), map[int32]*oomAlarm{}
		file := w.file
		w.reading.Go(func() { w.read(file) })
	}
	raw, err := w.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var wd int
	if controlErr := raw.Control(func(fd uintptr) {
		wd, err = unix.InotifyAddWatch(int(fd), filepath.Join(a.group.v2, "memory.events"), unix.IN_MODIFY)
	}); controlErr != nil {
		return nil, controlErr
	}
	if err != nil {
		return nil, err
	}
	id := int32(wd) // the kernel's own type, inotify(7)
	w.boxes[id] = a
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.boxes, id)
		// This fails if the cgroup was removed, and its watch with it.
		_ = raw.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(id)) })
	}, nil
}

// read passes events to the alarms until the file is closed.
func (w *oomWatch) read(file *os.File) {
	var buf [64 * unix.SizeofInotifyEvent]byte // events of files have no name
	for {
		n, err := file.Read(buf[:])
		if err != nil {
			return
		}
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; rest = rest[unix.SizeofInotifyEvent:] {
			// struct inotify_event: wd, mask, cookie, len.
			id := int32(binary.NativeEndian.Uint32(rest))
			mask := binary.NativeEndian.Uint32(rest[4:])
			for _, a := range w.about(id, mask) {
				a.check()
			}
		}
	}
}

// about returns the alarms that an event is for: all of them if events were lost.
func (w *oomWatch) about(id int32, mask uint32) []*oomAlarm {
	w.mu.Lock()
	defer w.mu.Unlock()
	if mask&unix.IN_Q_OVERFLOW != 0 {
		all := make([]*oomAlarm, 0, len(w.boxes))
		for _, a := range w.boxes {
			all = append(all, a)
		}
		return all
	}
	if a := w.boxes[id]; a != nil && mask&unix.IN_IGNORED == 0 {
		return []*oomAlarm{a}
	}
	return nil
}

// close ends the watch. All boxes must be closed.
func (w *oomWatch) close() {
	w.mu.Lock()
	file := w.file
	w.mu.Unlock()
	if file == nil {
		return
	}
	file.Close()
	w.reading.Wait()
}
