package search

import (
	"bytes"
	"sync"

	"belljar.dev/search/engine"
)

// sizes remembers how long the bodies of hosts are.
type sizes struct {
	mu   sync.Mutex
	last map[string]int64
}

// sizesMost bounds the hosts that are remembered: all engines have fewer.
const sizesMost = 256

// guess is how much room to have for a body; length is what its header says, or
// below zero.
func (s *sizes) guess(host string, length int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(min(max(length, s.last[host]), engine.MaxBody) + bytes.MinRead)
}

// saw remembers a body's length.
func (s *sizes) saw(host string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.last[host]; known || len(s.last) < sizesMost {
		s.last[host] = n + n/8
	}
}
