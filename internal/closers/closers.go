// Package closers releases resources in the reverse order in which they were opened, so
// that each resource is released before those that it was made with. The sandbox and the
// server open in many steps, and each step may fail. Each step puts its release on a stack
// immediately.
package closers

import (
	"errors"
	"log/slog"
)

// Stack contains the releases of the resources that were opened. The zero value is empty. A
// Stack is not safe for concurrent use.
type Stack struct{ releases []func() error }

// Add puts the release of a resource that was just opened on top of the stack.
func (s *Stack) Add(release func() error) { s.releases = append(s.releases, release) }

// Do is Add for a release that cannot fail.
func (s *Stack) Do(release func()) {
	s.Add(func() error {
		release()
		return nil
	})
}

// Close calls all releases, the last one first, and returns their errors. A second call
// does nothing. If a release panics, the rest is still released.
func (s *Stack) Close() error {
	releases := s.releases
	s.releases = nil
	return closeAll(releases)
}

func closeAll(releases []func() error) (err error) {
	if len(releases) == 0 {
		return nil
	}
	top := len(releases) - 1
	defer func() { err = errors.Join(err, closeAll(releases[:top])) }()
	return releases[top]()
}

// Logged returns a release whose error is logged and not returned: the caller cannot do
// more about the error, and the rest must be released as well.
func Logged(log *slog.Logger, what string, release func() error) func() error {
	return func() error {
		if err := release(); err != nil {
			log.Error(what, "err", err)
		}
		return nil
	}
}
