package initconn

import (
	"cmp"
	"errors"

	"golang.org/x/sys/unix"
)

// Strategy is how a goroutine that has sent a request to the init receives the answer. See
// the package comment for when each is used, and what it saves.
type Strategy interface {
	// hear returns when heard reports true, or when Listen is to receive the rest.
	hear(c *Conn, deal Handler, heard func() bool)
}

// The strategies; the third is Glance.
var (
	// Listen leaves the answer to the goroutine that listens.
	Listen Strategy = listen{}
	// Attend receives the answer in place of the goroutine that listens.
	Attend Strategy = attend{}
)

// Hear receives messages by a strategy and passes them to deal, until heard reports true.
// It may return before that: the caller then waits for what the deal of Listen passes to
// it. An error closes the connection, and Listen returns it.
func (c *Conn) Hear(how Strategy, deal Handler, heard func() bool) { how.hear(c, deal, heard) }

type listen struct{}

func (listen) hear(*Conn, Handler, func() bool) {}

type attend struct{}

func (attend) hear(c *Conn, deal Handler, heard func() bool) {
	c.inTurn(deal, heard, func() bool { return false }, func() {})
}

// inTurn receives messages, unless another goroutine has the turn, until heard or over
// reports true. It calls over each time that no message has arrived, and leave before the
// turn ends.
func (c *Conn) inTurn(deal Handler, heard, over func() bool, leave func()) {
	if heard() || !c.takeTurn() {
		return
	}
	defer c.endTurn()
	defer leave()
	var failed error
	waited := c.direct.Wait(func() bool {
		for !heard() {
			text, files, err := c.next()
			if errors.Is(err, unix.EAGAIN) {
				return over()
			}
			if err == nil {
				err = deal(text, files)
			}
			if err != nil {
				failed = err
				return true
			}
		}
		return true
	})
	if failed != nil || waited != nil {
		c.Fail(cmp.Or(failed, waited))
	}
}
