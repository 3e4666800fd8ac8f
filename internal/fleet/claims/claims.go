// Package claims says to which worker each place belongs. A place is claimed once, before
// the worker makes its directory: from then on the directory says the same. So claims can
// be made anew from what workers say that they have.
package claims

import "context"

// Claims is the memory of all fronts of a fleet. Its methods are safe for concurrent use.
// What Claim has returned is kept: no later Claim of that place gives it to another worker,
// unless Release has been called.
type Claims interface {
	// Claim has a place belong to a worker, if it belongs to none, and returns the worker
	// that it belongs to.
	Claim(ctx context.Context, place, worker string) (owner string, err error)
	// Owner returns the worker that a place belongs to; empty for none.
	Owner(ctx context.Context, place string) (owner string, err error)
	// Release has a place belong to no worker, if it belongs to this one.
	Release(ctx context.Context, place, worker string) error
	// All returns the owners of all places.
	All() (map[string]string, error)
}
