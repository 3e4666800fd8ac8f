package sandbox

import (
	"errors"
	"log/slog"
	"slices"
)

// closers is a stack of what was opened. close releases it in reverse, so each
// thing goes before what it was made with. The zero value is empty. It is not safe
// for concurrent use.
type closers struct{ stack []func() error }

// add puts the release of what was just opened on top.
func (c *closers) add(release func() error) { c.stack = append(c.stack, release) }

// do is add for a release that cannot fail.
func (c *closers) do(release func()) {
	c.add(func() error {
		release()
		return nil
	})
}

// close releases everything, once, and returns what failed.
func (c *closers) close() error {
	var all []error
	for _, release := range slices.Backward(c.stack) {
		all = append(all, release())
	}
	c.stack = nil
	return errors.Join(all...)
}

// logged returns a release whose failure is logged and not returned: nobody can do
// more about it, and the rest must go as well.
func logged(log *slog.Logger, what string, release func() error) func() error {
	return func() error {
		if err := release(); err != nil {
			log.Error(what, "err", err)
		}
		return nil
	}
}
