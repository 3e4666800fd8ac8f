package peer

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"belljar.dev/mcp/wire"
)

const (
	perSecond    = 4        // most progress messages of one call per second; the same for log messages
	mostProgress = 64 << 10 // most bytes of one progress message
)

// pace lets at most perSecond events pass per second. The zero value is ready to use.
type pace struct {
	last [perSecond]time.Time // ring of the times of the latest events
	n    int                  // index of the oldest time in last
}

// wait returns how long the next event has to wait; not above zero if it may pass now.
func (p *pace) wait(now time.Time) time.Duration {
	return p.last[p.n].Add(time.Second).Sub(now)
}

// pass notes that an event passes now.
func (p *pace) pass(now time.Time) {
	p.last[p.n] = now
	p.n = (p.n + 1) % perSecond
}

// show passes on the waiting progress. It returns how long the remaining progress must
// wait; 0 if none is left. Only the goroutine of the call may use it.
func (c *Conn) show(cl *call) time.Duration {
	for {
		c.mu.Lock()
		if len(cl.steps) == 0 {
			c.mu.Unlock()
			return 0
		}
		now := time.Now()
		if wait := cl.pace.wait(now); wait > 0 {
			c.mu.Unlock()
			return wait
		}
		step := cl.steps[0]
		cl.steps = append(cl.steps[:0], cl.steps[1:]...)
		c.mu.Unlock()
		cl.pace.pass(now)
		cl.progress(withoutToken(step))
	}
}

// withoutToken returns an object without its progress token, which belongs to this hop
// only.
func withoutToken(params []byte) json.RawMessage {
	b := []byte{'{'}
	var members []byte
	wire.Members(params, func(name, value []byte) bool {
		if string(name) != progressKey {
			members = appendMember(members, name, value)
		}
		return true
	})
	return append(append(b, members...), '}')
}

// number parses an id or a token that this package has issued.
func number(raw []byte) (int64, bool) {
	if len(raw) == 0 || len(raw) > 20 || raw[0] == '"' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}

const (
	logMethod = "notifications/message"
	mostLog   = 16 << 10 // most bytes of one log message
	mostLogs  = 16       // most log messages that wait for the goroutine of their call
)

// logs contains the log messages of one call, or those that belong to no single call.
type logs struct {
	to      func(json.RawMessage, int) // gets the messages of the call; may be nil
	session string                     // session of the call
	pace    pace
	lines   []json.RawMessage // messages that wait for the goroutine of the call
	lost    int               // messages that were dropped since the last one that passed
}

// passes reports whether a log message may pass now; the caller holds Conn.mu.
func (l *logs) passes(params []byte) bool {
	now := time.Now()
	if len(params) > mostLog || len(l.lines) >= mostLogs || l.pace.wait(now) > 0 {
		l.lost++
		return false
	}
	l.pace.pass(now)
	return true
}

// loggerOf returns the call that a log message belongs to: the call in whose response it
// came, or the only open call. It returns nil if that is not certain; the caller holds mu.
func (t *table) loggerOf(from *call) *call {
	if from != nil && !from.stream {
		return from
	}
	if len(t.open)-t.streams != 1 {
		return nil
	}
	for _, cl := range t.open {
		if !cl.stream {
			return cl
		}
	}
	return nil
}

// sessionOf returns the session of all open calls. shared reports that they have several
// sessions. The caller holds mu.
func (t *table) sessionOf() (session string, shared bool) {
	any := false
	for _, cl := range t.open {
		switch {
		case cl.stream:
		case any && cl.logs.session != session:
			return "", true
		default:
			session, any = cl.logs.session, true
		}
	}
	return session, false
}

// logged handles a log message. The goroutine of its call passes it on, so that no message
// comes after the call.
func (g guard) logged(params []byte, from *call) {
	g.mu.Lock()
	of, cl := &g.table.logs, g.loggerOf(from)
	n := Notification{Method: logMethod, Params: params}
	if cl != nil {
		of, n.Owner, n.Session = &cl.logs, cl.owner, cl.logs.session
	} else {
		n.Session, n.Shared = g.sessionOf()
	}
	handled := g.cfg.OnNotification != nil || cl != nil && cl.logs.to != nil
	if !handled || !of.passes(params) {
		g.stats.Dropped++
		g.mu.Unlock()
		return
	}
	if cl != nil && cl.logs.to != nil {
		// a copy, so that the params do not keep the whole message in memory
		of.lines = append(of.lines, bytes.Clone(params))
		g.mu.Unlock()
		select {
		case cl.wake <- struct{}{}:
		default:
		}
		return
	}
	n.Lost, of.lost = of.lost, 0
	g.mu.Unlock()
	g.queue(n)
}

// tell passes on the waiting log messages of a call. last reports that no more messages
// will follow. Only the goroutine of the call may use it.
func (c *Conn) tell(cl *call, last bool) {
	for {
		c.mu.Lock()
		lost := cl.logs.lost
		if len(cl.logs.lines) == 0 {
			c.mu.Unlock()
			if last && lost > 0 {
				cl.logs.to(nil, lost)
			}
			return
		}
		line := cl.logs.lines[0]
		cl.logs.lines = append(cl.logs.lines[:0], cl.logs.lines[1:]...)
		cl.logs.lost = 0
		c.mu.Unlock()
		cl.logs.to(line, lost)
	}
}
