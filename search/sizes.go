package search

import (
	"bytes"
	"sync"

	"belljar.dev/search/engine"
)

// sizes remembers the sizes of the bodies of each host.
type sizes struct {
	mu   sync.Mutex
	last map[string]int64
}

// sizesMost bounds the hosts that are remembered: there are fewer hosts of engines.
const sizesMost = 256

// guess returns how many bytes to allocate for a body. length is the value of its header,
// or negative if it has no such header.
func (s *sizes) guess(host string, length int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(min(max(length, s.last[host]), engine.MaxBody) + bytes.MinRead)
}

// saw records the size of a body.
func (s *sizes) saw(host string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.last[host]; known || len(s.last) < sizesMost {
		s.last[host] = n + n/8
	}
}
