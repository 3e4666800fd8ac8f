// Package claims says to which worker each place belongs. A place is claimed once, before
// the worker makes its directory: from then on the directory says the same. So claims can
// be made anew from what workers say that they have.
//
// A front alone has its claims in a [Journal]. Several fronts share them in a [Store], see
// [Shared], and each remembers in a journal what it has seen there.
package claims

import "context"

// Claim names the worker that a place belongs to. The zero Claim names none.
//
// While a place moves, its claim says how far the move is, and each step is one Swap:
//
//	{A}                    the place is settled on A
//	{A, to B, move 7}      begun: it is A's, which answers nothing until that is decided
//	{B, from A, move 7}    decided: it is B's, and A may still have its copy
//	{B, move 7}            settled on B
//
// A move that is given up before it is decided leaves {A, move 7}. A place that comes from
// a file begins as decided, see Brought. Numbers of moves grow: a worker refuses what is late.
type Claim struct {
	Worker string `json:"worker,omitempty"`
	To     string `json:"to,omitempty"`   // the worker that is about to get the place
	From   string `json:"from,omitempty"` // the worker that had the place
	Move   uint64 `json:"move,omitempty"` // number of the last move of the place
}

// FromFile is From of a place that was in a file. No worker has this name.
const FromFile = "-"

// MaxMove is the highest number of a move. No place moves that often; a number beyond it is a
// mistake or a lie, after which no move could come any more.
const MaxMove = 1 << 53

// Moving reports whether a place is on its way: its claim is begun or decided.
func (c Claim) Moving() bool { return c.To != "" || c.From != "" }

// Begin is the claim of a place that is to move. The number must be higher than that of
// any move before.
func (c Claim) Begin(to string, move uint64) Claim {
	return Claim{Worker: c.Worker, To: to, Move: move}
}

// Decide is the claim after Begin, once the place is complete at its next worker.
func (c Claim) Decide() Claim { return Claim{Worker: c.To, From: c.Worker, Move: c.Move} }

// Abandon is the claim after Begin, where the place stays.
func (c Claim) Abandon() Claim { return Claim{Worker: c.Worker, Move: c.Move} }

// Brought is the claim of a place that is complete at a worker, which has it from a file.
func Brought(worker string, move uint64) Claim {
	return Claim{Worker: worker, From: FromFile, Move: move}
}

// Settle is the claim after Decide, once the worker before has let the place go.
func (c Claim) Settle() Claim { return Claim{Worker: c.Worker, Move: c.Move} }

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
	// Moving returns the claims of all places that are on their way, as they are known here.
	Moving() map[string]Claim
	// Ready returns why no new place can be claimed now; nil if it can.
	Ready() error
	// Watch has changed called when others have changed something. It is
	// to be called once, before the first Swap; changed must not block.
	Watch(changed func())
}
