// Package claims says to which worker each place belongs. A place is claimed once, before
// the worker makes its directory: from then on the directory says the same. So claims can
// be made anew from what workers say that they have.
//
// A front alone has its claims in a [Journal]. Several fronts share them in a [Store], see
// [Shared], and each remembers in a journal what it has seen there.
package claims

import "context"

// Claim names the worker that a place belongs to. The zero Claim names none.
type Claim struct {
	Worker string `json:"worker,omitempty"`
}

// stored is a claim as it is written down. A later claim of a place has a higher turn:
// so a front notices when the store has only an older claim than its own journal.
type stored struct {
	Claim

	Turn uint64 `json:"turn,omitempty"`
}

// Claims is which worker each place belongs to, for one front (Journal) or for all that share
// it (Shared). Its methods are safe for concurrent use.
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
	// Watch has changed called when others have changed something. It is
	// to be called once, before the first Swap; changed must not block.
	Watch(changed func())
}
