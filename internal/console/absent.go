//go:build noconsole

package console

import (
	"context"
	"errors"

	"belljar.dev/internal/front"
)

// Open returns an error: this binary was built without a console.
func Open(context.Context, Config) (*Console, error) {
	return nil, errAbsent
}

var errAbsent = front.Mistake(errors.New("--console: this belljar was built without a console (the build tag noconsole); leave the flag out, or use another binary"))

// NewPart returns the same error.
func NewPart(Views) (*Part, error) { return nil, errAbsent }

// Serve does nothing, because no Console exists.
func (c *Console) Serve(context.Context, Views) error { return nil }
