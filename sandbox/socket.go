package sandbox

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/boxinit"
)

// maxSockets bounds the sockets that an init is asked for at the same time.
const maxSockets = 64

// socketRequests are requests for sockets that the init has not answered yet.
type socketRequests struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan socketAnswer // nil for a request that was given up
}

type socketAnswer struct {
	fd  int
	err error
}

// socketIDs is the first number of such requests, far from those of commands.
const socketIDs = 1 << 63

// forget gives up a request. An answer that has arrived meanwhile is closed, and so is one
// that arrives later: until then the request counts as waiting.
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

// hear takes the answer to a request and owns its files. It reports whether the reply was
// such an answer.
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
