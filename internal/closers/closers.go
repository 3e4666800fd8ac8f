// Package closers releases what was opened in reverse order, so that each thing is released
// before those that it was made with. The sandbox and the server open in many steps. Each step may
// fail, and each puts its release on a stack at once.
package closers

import (
	"errors"
	"log/slog"
)

// Stack is what was opened. The zero value is empty. It is not safe for concurrent use.
type Stack struct{ releases []func() error }

// Add puts the release of what was just opened on top.
func (s *Stack) Add(release func() error) { s.releases = append(s.releases, release) }

// Do is Add for a release that cannot fail.
func (s *Stack) Do(release func()) {
	s.Add(func() error {
		release()
		return nil
	})
}

// Close releases everything, the last first, and returns the errors. A second call does nothing.
// A release that panics does not keep the rest from being released.
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

// Logged returns a release whose failure is logged and not returned: nobody can do
// more about it, and the rest must go as well.
func Logged(log *slog.Logger, what string, release func() error) func() error {
	return func() error {
		if err := release(); err != nil {
			log.Error(what, "err", err)
		}
		return nil
	}
}
