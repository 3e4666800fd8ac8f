package fleet

import "bytes"

// Sizes of what a front reads of an answer at once. An idle stream has a buffer of the
// first one, and there are many such streams.
const (
	firstPiece = 512
	pieceSize  = 16 << 10
)

// cutter cuts a stream into whole events, so that another event can be put behind them. It is
// not safe for concurrent use.
type cutter struct {
	message  Message
	protocol Protocol
	acquire  func() bool // room for maxBuffered bytes
	release  func()      // gives that back

	pending  []byte // an event whose end has not come, behind what has been sent
	sent     int    // bytes of pending
	room     bool   // acquire has returned true
	torn     bool   // a part of an event has been sent
	answered bool   // the answer to message has been sent
}

// next returns what can be sent after piece has come: whole events, or what is too large to
// be buffered. It is valid until the next call, and as long as piece is. When it has been sent,
// the caller calls written.
func (c *cutter) next(piece []byte) []byte {
	if len(piece) == 0 {
		return nil
	}
	text := piece
	if c.pending = append(c.pending[:0], c.pending[c.sent:]...); len(c.pending) > 0 {
		c.pending = append(c.pending, piece...)
		text = c.pending
	}
	c.sent = 0
	whole := bytes.LastIndex(text, []byte("\n\n")) + 2
	if whole < 2 {
		whole = 0
	}
	before := c.torn
	switch {
	case whole == len(text):
		c.torn, c.sent = false, len(c.pending)
	case (whole > 0 || !c.torn) && len(text)-whole <= maxBuffered && (c.room || c.acquire()):
		c.room, c.torn = true, false
		if len(c.pending) == 0 {
			c.pending, text = append(c.pending, text[whole:]...), text[:whole]
			c.see(text, before)
			return text
		}
		c.sent, text = whole, text[:whole]
	default:
		c.torn, c.sent = true, len(c.pending)
	}
	c.see(text, before)
	return text
}

// written gives back the room of what next has returned, if nothing is held behind it.
func (c *cutter) written() {
	if c.sent == len(c.pending) {
		c.free()
	}
}

// free gives back the room of an event that is not buffered any more.
func (c *cutter) free() {
	c.pending, c.sent = nil, 0
	if c.room {
		c.room = false
		c.release()
	}
}

// see looks for the answer in what is about to be sent. If it begins within an event, that
// begin has been looked at.
func (c *cutter) see(events []byte, within bool) {
	for event := range bytes.SplitSeq(events, []byte("\n\n")) {
		if !within && !c.answered && c.message.ID != nil && len(event) > 0 {
			c.answered = c.protocol.Answers(event, c.message)
		}
		within = false
	}
}
