package fleet

import "bytes"

// Sizes of the buffers for reading an answer. An idle stream has only the first buffer,
// because there are many such streams.
const (
	firstPiece = 512
	pieceSize  = 16 << 10
)

// cutter cuts a stream after whole events, so that another event can be added after them.
// It is not safe for concurrent use.
type cutter struct {
	message  Message
	protocol Protocol
	acquire  func() bool // reserves room for maxBuffered bytes
	release  func()      // releases that room

	pending  []byte // bytes that were sent, followed by an incomplete event
	sent     int    // number of bytes of pending that were sent
	room     bool   // whether acquire has returned true
	torn     bool   // whether a part of an event was sent
	answered bool   // whether the answer to message was sent
}

// next returns the bytes to send after piece has arrived: whole events, or a part of an
// event that is too large to be buffered. The result is valid until the next call, and only
// as long as piece is. After the bytes were sent, the caller must call written.
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

// written releases the room of the bytes that next has returned, if no further bytes are
// buffered.
func (c *cutter) written() {
	if c.sent == len(c.pending) {
		c.free()
	}
}

// free releases the room of an event that is not buffered any more.
func (c *cutter) free() {
	c.pending, c.sent = nil, 0
	if c.room {
		c.room = false
		c.release()
	}
}

// see looks for the answer in the bytes that will be sent next. within means that they
// begin inside an event, whose beginning was already checked.
func (c *cutter) see(events []byte, within bool) {
	for event := range bytes.SplitSeq(events, []byte("\n\n")) {
		if !within && !c.answered && c.message.ID != nil && len(event) > 0 {
			c.answered = c.protocol.Answers(event, c.message)
		}
		within = false
	}
}
