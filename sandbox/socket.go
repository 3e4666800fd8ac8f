package sandbox

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/limit"
)

// maxSockets bounds the sockets that an init is asked for at once.
const maxSockets = 64

// socketRequests are requests for sockets that the init has not answered yet.
type socketRequests struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan socketAnswer // nil for those that were given up
}

type socketAnswer struct {
	fd  int
	err error
}

// socketIDs begins the numbers of such requests, away from those of commands.
const socketIDs = 1 << 63

// socket is a new TCP socket of the box's network. The caller closes it, and
// sees to it that the box is awake.
func (i *initProc) socket(ctx context.Context) (int, error) {
	if err := context.Cause(ctx); err != nil {
		return -1, err
	}
	i.table.mu.Lock()
	closed := i.table.cause != nil
	i.table.mu.Unlock()
	if closed {
		return -1, fmt.Errorf("box %s: %w", i.table.box, ErrClosed)
	}
	s := &i.sockets
	answer := make(chan socketAnswer, 1)
	s.mu.Lock()
	if len(s.waiting) >= maxSockets {
		s.mu.Unlock()
		return -1, fmt.Errorf("%d sockets were asked for at once: %w", maxSockets, limit.ErrTooMany)
	}
	if s.waiting == nil {
		s.waiting = map[uint64]chan socketAnswer{}
	}
	s.last++
	id := socketIDs + s.last
	s.waiting[id] = answer
	s.mu.Unlock()
	if err := i.send(&boxinit.Request{Op: boxinit.OpSocket, ID: id}); err != nil {
		s.mu.Lock()
		delete(s.waiting, id) // nothing will come
		s.mu.Unlock()
		return -1, err
	}
	ctx, cancel := context.WithTimeout(ctx, i.patience.start)
	defer cancel()
	select {
	case a := <-answer:
		return a.fd, a.err
	case <-i.gone:
		s.forget(id, answer)
		return -1, fmt.Errorf("box %s: %w", i.table.box, ErrClosed)
	case <-ctx.Done():
		s.forget(id, answer)
		return -1, fmt.Errorf("the init of box %s made no socket: %w", i.table.box, context.Cause(ctx))
	}
}

// forget gives up a request. An answer that came meanwhile is closed, and so is
// one that comes yet: until then the request counts among those that wait.
func (s *socketRequests) forget(id uint64, answer chan socketAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.waiting[id]; ok {
		s.waiting[id] = nil
	}
	select {
	case a := <-answer:
		if a.err == nil {
			unix.Close(a.fd)
		}
	default:
	}
}

// hear takes the answer to a request and owns its files. It reports whether
// the reply was one.
func (s *socketRequests) hear(r boxinit.Reply, files []int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, ok := s.waiting[r.ID]
	if !ok || r.Op != boxinit.OpSocket && r.Op != boxinit.OpFailed {
		boxinit.CloseAll(files)
		return false
	}
	delete(s.waiting, r.ID)
	if answer == nil {
		boxinit.CloseAll(files)
		return true
	}
	if r.Op == boxinit.OpFailed || len(files) != 1 {
		boxinit.CloseAll(files)
		answer <- socketAnswer{-1, fmt.Errorf("the init made no socket: %w", r.Errno)}
		return true
	}
	answer <- socketAnswer{files[0], nil}
	return true
}

// maxConnect bounds the wait for a server in the box to take a connection, in
// seconds; one that listens does so at once.
const maxConnect = 5

// DialPort connects to a port of the box, as a program in it would to
// 127.0.0.1. The caller closes the connection. It fails where nothing listens
// there.
func (b *Box) DialPort(ctx context.Context, port uint16) (net.Conn, error) {
	if err := b.life.stay(ctx); err != nil {
		return nil, err
	}
	fd, err := b.init.socket(ctx)
	b.life.waking.RUnlock()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "port "+strconv.Itoa(int(port)))
	defer f.Close()
	// What came from an init may be any kind of file.
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || kind != unix.AF_INET {
		return nil, fmt.Errorf("dial port %d of box %s: no socket", port, b.id)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: maxConnect}); err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(port)}); err != nil {
		return nil, fmt.Errorf("dial port %d of box %s: %w", port, b.id, err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{}); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}
