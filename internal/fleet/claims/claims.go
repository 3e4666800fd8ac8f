// Package claims records which worker each place belongs to. A place is claimed once,
// before the worker makes its directory. From then on the directory shows the same, so
// claims can be restored from the lists of places that workers report.
//
// A single front keeps its claims in a [Journal]. Several fronts share them in a [Store],
// see [Shared], and each of them keeps in a journal the claims that it has seen there.
package claims

import "context"

// Claim names the worker that a place belongs to. The zero Claim names no worker.
//
// While a place moves, its claim says how far the move is. Each step is one Swap:
//
//	{A}                    the place is settled on A
//	{A, to B, move 7}      begun: it belongs to A, which answers nothing until the decision
//	{B, from A, move 7}    decided: it belongs to B, and A may still have its copy
//	{B, move 7}            settled on B
//
// A move that is abandoned before it is decided leaves {A, move 7}. A place that comes from
// a file begins as decided, see Brought. The numbers of moves grow, and a worker refuses a
// message with an old number.
type Claim struct {
	Worker string `json:"worker,omitempty"`
	To     string `json:"to,omitempty"`   // worker that is about to get the place
	From   string `json:"from,omitempty"` // worker that had the place
	Move   uint64 `json:"move,omitempty"` // number of the last move of the place
}

// FromFile is the value of From for a place from a file. No worker has this name.
const FromFile = "-"

// MaxMove is the largest number of a move. No place moves that often. A larger number is a
// mistake or a lie, and no further move would be possible after it.
const MaxMove = 1 << 53

// Moving reports whether a place is moving: its claim is begun or decided.
func (c Claim) Moving() bool { return c.To != "" || c.From != "" }

// Begin returns the claim of a place whose move begins. The number must be larger than the
// number of any move before.
func (c Claim) Begin(to string, move uint64) Claim {
	return Claim{Worker: c.Worker, To: to, Move: move}
}

// Decide returns the claim that follows Begin, when the place is complete at its next
// worker.
func (c Claim) Decide() Claim { return Claim{Worker: c.To, From: c.Worker, Move: c.Move} }

// Abandon returns the claim that follows Begin if the place stays.
func (c Claim) Abandon() Claim { return Claim{Worker: c.Worker, Move: c.Move} }

// Brought returns the claim of a place that a worker has made completely from a file.
func Brought(worker string, move uint64) Claim {
	return Claim{Worker: worker, From: FromFile, Move: move}
}

// Settle returns the claim that follows Decide, when the worker before has removed the
// place.
func (c Claim) Settle() Claim { return Claim{Worker: c.Worker, Move: c.Move} }

// stored is a claim in the form in which it is written. A later claim of a place has a
// larger turn. So a front notices if the store has only an older claim than its own
// journal.
type stored struct {
	Claim

	Turn uint64 `json:"turn,omitempty"`
}

// Claims records which worker each place belongs to, for one front (Journal) or for all
// fronts that share it (Shared). Its methods are safe for concurrent use.
type Claims interface {
	// Owner returns the claim of a place as it is known here. It may be outdated if fronts
	// share their claims.
	Owner(place string) Claim
	// Swap makes next the claim of a place if old is its claim now. It returns the claim in
	// force: next if all fronts agree on it from now on, and otherwise the claim that
	// prevented it. So Swap(place, c, c) finds out whether c is still in force. A worker
	// may make a directory for a claim only after Swap has returned that claim.
	Swap(ctx context.Context, place string, old, next Claim) (Claim, error)
	// All returns the claims of all places as they are known here.
	All() map[string]Claim
	// Moving returns the claims of all places that are moving, as they are known here.
	Moving() map[string]Claim
	// Ready returns why no new place can be claimed now; nil if new places can be claimed.
	Ready() error
	// Watch sets the function that is called when other fronts have changed a claim. It
	// must be called once, before the first Swap. changed must not block.
	Watch(changed func())
}
