package claims

// Mark is what a worker has written down beside a place about its moves. The zero Mark is that
// of a place that has never moved.
type Mark struct {
	Move uint64 `json:"move,omitempty"` // number of the last move that it has heard of
	To   string `json:"to,omitempty"`   // the place is frozen: it answers nothing, and goes to this worker
	From string `json:"from,omitempty"` // this is the copy of a place from that worker, complete and not in use
}

// Freezes reports whether a place may be frozen for a move. A move that was given up, or is
// older than the last one, comes late.
func (m Mark) Freezes(move uint64) bool {
	return move > m.Move || move == m.Move && m.To != ""
}

// Frozen reports whether a place is frozen for a move. Only then may it be packed and dropped.
func (m Mark) Frozen(move uint64) bool { return m.To != "" && m.Move == move }

// Action is what becomes of something that a move has left at a worker.
type Action int

// The actions.
const (
	Keep    Action = iota // the move goes on, or too little is known
	Thaw                  // the place stays: it is put to work again
	Drop                  // the place is at work elsewhere: the frozen one is removed
	Discard               // the place did not come: the copy is removed
	Reclaim               // nobody knows of it any more: the frozen place is claimed again
)

// Cleanup returns what becomes of what a worker has left of a move, by the claim that holds. The
// caller has confirmed the claim after it heard of the mark: the claim of the move was there
// before the mark, so one that does not know the move says that the move is over. served
// says that the worker of the claim has the place at work. other says that the other worker of the
// move is linked, and has nothing of the place at work.
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
