package peer

import (
	"encoding/json"
	"strconv"
	"time"

	"belljar.dev/mcp/wire"
)

const (
	perSecond    = 4        // progress messages of one call in any second, and log messages
	mostProgress = 64 << 10 // bytes of one progress message
)

// pace lets so many events pass in any second as perSecond says. Its zero value has let none
// pass.
type pace struct {
	last [perSecond]time.Time // a ring of the latest
	n    int                  // where the oldest of those is
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

// show passes on the progress that waits. It returns how long the rest must wait; 0 if
// nothing does. Only the goroutine of the call may use it.
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

// withoutToken is an object without its progress token, which is that of this hop.
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

// number reads an id or token of ours.
func number(raw []byte) (int64, bool) {
	if len(raw) == 0 || len(raw) > 20 || raw[0] == '"' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}
