package testenv

import (
	"strings"
	"sync"
)

// Log keeps the text that is written to it. It is safe for concurrent use, and its zero value
// is empty.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends p. It does not fail.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
