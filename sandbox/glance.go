package sandbox

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// glance watches commands in their first moments; most commands end within them.
// Each wake of this program switches threads on the CPU that runs the command,
// so the supervisor waits only for the command's end and not for its output. A
// glance ends when the command takes longer or writes to stderr: the earlier
// output on stdout must be read before that on stderr.
//
// It uses a timer and an epoll instance of the kernel, which cost one system call
// each. Setting a timer of the Go runtime would wake a thread.
type glance struct {
	poll  int      // epoll(7)
	file  *os.File // the same
	timer int      // timerfd_create(2)
	done  chan struct{}

	mu    sync.Mutex
	last  int32
	looks map[int32]*glimpse // at most one for each running command
	armed bool
}

// glimpse is a glance at one command.
type glimpse struct {
	over chan struct{} // closed when the glance ends
	id   int32         // from 1; 0 is the timer
	fd   int           // its stderr
	old  bool          // the timer has seen it once
}

// glanceTime is the least time that a glance takes; it takes up to twice that,
// because commands share one timer. A command that fills its pipe earlier waits
// until the glance ends.
const glanceTime = time.Millisecond

// newGlance starts a glance. The caller must close it when no command is left.
func newGlance() (*glance, error) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make epoll: %w", err)
	}
	g := &glance{poll: poll, timer: -1, done: make(chan struct{}), looks: map[int32]*glimpse{}}
	if err = unix.SetNonblock(poll, true); err == nil { // so that the runtime waits for it
		if g.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err == nil {
			err = unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, g.timer, &unix.EpollEvent{Events: unix.EPOLLIN})
		}
	}
	if err != nil {
		unix.Close(poll)
		unix.Close(g.timer)
		return nil, fmt.Errorf("make timer: %w", err)
	}
	g.file = os.NewFile(uintptr(poll), "glance")
	go g.serve()
	return g, nil
}

// begin begins a glance at a command with that stderr. The caller must end the
// glance before it closes stderr.
func (g *glance) begin(stderr int) *glimpse {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last++; g.last <= 0 {
		g.last = 1
	}
	l := &glimpse{over: make(chan struct{}), id: g.last, fd: stderr}
	if !g.armed {
		g.armed = g.arm()
	}
	err := g.control(unix.EPOLL_CTL_ADD, l)
	if err != nil || !g.armed {
		close(l.over) // then the command is treated like a long one
		return l
	}
	g.looks[l.id] = l
	return l
}

// end ends a glance. It may be called twice.
func (g *glance) end(l *glimpse) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.looks, l.id)
	_ = g.control(unix.EPOLL_CTL_DEL, l)
}

func (g *glance) control(op int, l *glimpse) error {
	return unix.EpollCtl(g.poll, op, l.fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: l.id})
}

func (g *glance) arm() bool {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(glanceTime))}
	return unix.TimerfdSettime(g.timer, 0, &at, nil) == nil
}

// serve ends glances, until g is closed.
func (g *glance) serve() {
	defer close(g.done)
	raw, err := g.file.SyscallConn()
	if err != nil {
		return
	}
	var events [16]unix.EpollEvent
	for {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			var err error
			n, err = unix.EpollWait(int(fd), events[:], 0)
			return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
		})
		if err != nil || n <= 0 {
			return
		}
		g.mu.Lock()
		for _, e := range events[:n] {
			if e.Fd == 0 {
				g.tick()
			} else if l := g.looks[e.Fd]; l != nil {
				g.expire(l)
			}
		}
		g.mu.Unlock()
	}
}

// tick ends the glances that the timer has seen before. g.mu is held.
func (g *glance) tick() {
	var times [8]byte
	_, _ = unix.Read(g.timer, times[:])
	for _, l := range g.looks {
		if l.old {
			g.expire(l)
		}
		l.old = true
	}
	g.armed = len(g.looks) > 0 && g.arm()
}

// expire closes over of a glance. The caller holds g.mu.
func (g *glance) expire(l *glimpse) {
	delete(g.looks, l.id)
	close(l.over)
}

func (g *glance) close() {
	g.file.Close()
	<-g.done
	unix.Close(g.timer)
}
