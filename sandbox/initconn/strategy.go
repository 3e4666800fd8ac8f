package initconn

import (
	"cmp"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Strategy is how a goroutine that has sent a request to the init receives the answer. See
// the package comment for when each is used, and what it saves.
type Strategy interface {
	// hear returns when heard reports true, or when Listen is to receive the rest.
	hear(c *Conn, deal Handler, heard func() bool)
}

// The strategies without a parameter. Glance has one.
var (
	// Listen leaves the answer to the goroutine that listens.
	Listen Strategy = listen{}
	// Attend receives the answer in place of the goroutine that listens.
	Attend Strategy = attend{}
)

// GlanceTime is how long a glance takes at most. A command that fills its pipe earlier
// waits until the glance ends.
const GlanceTime = 1500 * time.Microsecond

// Glance is Attend for at most GlanceTime, and only until the command writes to stderr: what
// the command wrote to stdout before must be read before what it wrote to stderr.
func Glance(stderr int) Strategy { return glance{stderr} }

// Hear receives messages by a strategy and passes them to deal, until heard reports true.
// It may return before that: the caller then waits for what the deal of another Hear or of
// Listen passes to it. An error closes the connection, and Listen returns it.
func (c *Conn) Hear(how Strategy, deal Handler, heard func() bool) { how.hear(c, deal, heard) }

type listen struct{}

func (listen) hear(*Conn, Handler, func() bool) {}

type attend struct{}

func (attend) hear(c *Conn, deal Handler, heard func() bool) {
	c.inTurn(deal, heard, func() bool { return false }, func() {})
}

// glance waits with a timer of the kernel that is in the same epoll instance as the socket
// and stderr: setting a timer of the Go runtime would wake a thread.
type glance struct {
	stderr int
}

func (g glance) hear(c *Conn, deal Handler, heard func() bool) {
	begun := false
	c.inTurn(deal, heard, func() (over bool) {
		if begun {
			return c.direct.Other()
		}
		begun = true // not before Wait, which forgets earlier events
		return c.alarm(GlanceTime) != nil || c.direct.Add(g.stderr) != nil
	}, func() { // while it has the turn: later it would stop the timer of the next turn
		if begun {
			_ = c.direct.Remove(g.stderr)
			_ = c.alarm(0)
		}
	})
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

// alarm sets the timer; 0 stops it.
func (c *Conn) alarm(after time.Duration) error {
	return c.do(func(int) error {
		return unix.TimerfdSettime(c.timer, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(after))}, nil)
	})
}
