// Package claims says to which worker each place belongs. A place is claimed once, before
// the worker makes its directory: from then on the directory says the same. So claims can
// be made anew from what workers say that they have.
//
// A front alone has its claims in a [Journal]. Several fronts share them in a [Store], see
// [Shared], and each remembers in a journal what it has seen there.
package claims

import "context"

// Claim is to whom a place belongs. The zero Claim is that of a place that belongs to no
// worker.
type Claim struct {
	Worker string `json:"worker,omitempty"`
}

// stored is a claim as it is written down. The later of two claims of a place has the higher
// turn: so a front finds out that those who share the claims have lost the later one.
type stored struct {
	Claim

	Turn uint64 `json:"turn,omitempty"`
}

// Claims is the memory of all fronts of a fleet. Its methods are safe for concurrent use.
type Claims interface {
	// Owner returns the claim of a place as it is known here. That may be old, where fronts
	// share their claims.
	Owner(place string) Claim
	// Swap has next be the claim of a place, if old is its claim now. It returns the claim
	// that holds: next if all fronts agree on it from now on, and otherwise the one in its
	// way. So Swap(place, c, c) finds out whether c still holds. Before a worker makes a
	// directory by a claim, Swap must have returned that claim.
	Swap(ctx context.Context, place string, old, next Claim) (Claim, error)
	// All returns the claims of all places as they are known here.
	All() map[string]Claim
	// Ready returns why no new place can be claimed now; nil if it can.
	Ready() error
	// Watch has changed called whenever something is known that was not known before. It is
	// to be called once, before the first Swap; changed must not block.
	Watch(changed func())
}
