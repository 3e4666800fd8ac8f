package claims

// Mark is a record about the moves of a place, which a worker keeps next to the place. The
// zero Mark belongs to a place that has never moved.
type Mark struct {
	Move uint64 `json:"move,omitempty"` // number of the last move that the worker knows of
	// next worker of a frozen place, which answers nothing; empty if the place is not
	// frozen
	To string `json:"to,omitempty"`
	// earlier worker of this copy, which is complete and not in use; empty if it is not a
	// copy
	From string `json:"from,omitempty"`
}

// Freezes reports whether a place may be frozen for a move. For a move that was abandoned,
// or that is older than the last one, the message is too late.
func (m Mark) Freezes(move uint64) bool {
	return move > m.Move || move == m.Move && m.To != ""
}

// Frozen reports whether a place is frozen for a move. Only a frozen place may be packed
// and removed.
func (m Mark) Frozen(move uint64) bool { return m.To != "" && m.Move == move }

// Action says what to do with something that a move has left at a worker.
type Action int

// Actions for the remnants of a move.
const (
	Keep    Action = iota // do nothing: the move continues, or too little is known
	Thaw                  // put the frozen place to work again, because it stays here
	Drop                  // remove the frozen place, because it is at work elsewhere
	Discard               // remove the copy, because the move was abandoned or is over
	Reclaim               // claim the frozen place again, because no front has a claim for it
)

// Cleanup returns what to do with something that a move has left at a worker, according to
// the claim in force. The caller must have confirmed the claim after it got the mark. A
// move's claim exists before its marks, so a claim that does not know the move shows that
// the move is over. served says that the worker of the claim has the place at work. other
// says that the other worker of the move is linked and does not have the place at work.
func (c Claim) Cleanup(worker string, m Mark, served, other bool) Action {
	switch {
	case c.Moving() && c.Move == m.Move:
		return Keep
	case c == Claim{} && m.To != "" && other:
		return Reclaim
	case c == Claim{} && m.From == FromFile:
		return Discard
	case c == Claim{}:
		return Keep
	case m.To != "" && c.Worker == worker:
		return Thaw
	case m.To != "" && c.Worker != worker && served:
		return Drop
	case m.From != "" && (c.Worker != worker || served):
		return Discard
	}
	return Keep
}
