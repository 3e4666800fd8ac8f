package initconn

import (
	"time"

	"golang.org/x/sys/unix"
)

// glance waits with a timer of the kernel that is in the same epoll instance as the socket
// and stderr: setting a timer of the Go runtime would wake a thread.
type glance struct {
	stderr int
}

// GlanceTime is how long a glance takes at most. A command that fills its pipe earlier
// waits until the glance ends.
const GlanceTime = 1500 * time.Microsecond

// Glance is Attend for at most GlanceTime, and only until the command writes to stderr: what
// the command wrote to stdout before must be read before what it wrote to stderr.
func Glance(stderr int) Strategy { return glance{stderr} }

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

// alarm sets the timer; 0 stops it.
func (c *Conn) alarm(after time.Duration) error {
	return c.do(func(int) error {
		return unix.TimerfdSettime(c.timer, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(after))}, nil)
	})
}
