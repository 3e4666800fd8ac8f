package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"belljar.dev/mcp"
	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/peer"
	"belljar.dev/mcp/wire"
)

// Log messages of a server go to the client whose call they belong to. Those that belong to no
// call go to the clients that have used this instance of the server, and those that may belong
// to calls of several clients to none.

const (
	listenersMost = 256             // sessions that one instance has log messages for
	levelTimeout  = 2 * time.Second // for a server to take a level
	loggerMost    = 100             // bytes of the name that a server gives its logger
)

// muted is the level of a session that gets no log messages: the policy wants something taken out
// of what a server answers it.
const muted = "muted"

// listeners are the sessions that have used a server, and the log messages that each wants.
type listeners struct {
	mu     sync.Mutex
	levels map[*mcp.Session]string // guarded by mu: the least level that each wants, or muted
	told   string                  // guarded by mu: the level that the server was told; empty for none
	lost   int                     // guarded by mu: messages that went to nobody
}

// join notes what the client of a call wants, and returns it; empty for nothing. tell is a level
// that the server has to be told; empty for none.
func (l *listeners) join(call mcp.Call) (level, tell string) {
	level, may := call.LogLevel()
	s := call.Session
	l.mu.Lock()
	defer l.mu.Unlock()
	switch was, known := l.levels[s]; {
	case was == muted, known && was == level && may:
		if was == muted {
			level = ""
		}
		return level, ""
	case !may:
		level = ""
		l.put(s, muted)
	case level == "":
		delete(l.levels, s)
	default:
		l.put(s, level)
	}
	if least := l.least(); least != "" && least != l.told {
		l.told, tell = least, least
	}
	return level, tell
}

// put notes the level of a session; mu is held. If there are too many, those that have ended are
// forgotten, and a further one is not noted.
func (l *listeners) put(s *mcp.Session, level string) {
	if l.levels == nil {
		l.levels = make(map[*mcp.Session]string)
	}
	if _, known := l.levels[s]; !known && len(l.levels) >= listenersMost {
		for old := range l.levels {
			if over(old) {
				delete(l.levels, old)
			}
		}
		if len(l.levels) >= listenersMost {
			return
		}
	}
	l.levels[s] = level
}

// least returns the least level that a session wants; mu is held.
func (l *listeners) least() (least string) {
	for s, level := range l.levels {
		switch rank := mcp.LogLevel(level); {
		case over(s):
			delete(l.levels, s)
		case rank >= 0 && (least == "" || rank < mcp.LogLevel(least)):
			least = level
		}
	}
	return least
}

// all returns the sessions that get messages which belong to no call, or of those only the one
// with an ID.
func (l *listeners) all(only string) (some []*mcp.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s, level := range l.levels {
		switch {
		case over(s):
			delete(l.levels, s)
		case level != muted && (only == "" || s.ID() == only):
			some = append(some, s)
		}
	}
	return some
}

// lose counts messages that go to nobody; found returns how many there were since it was called
// last.
func (l *listeners) lose(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += n
}

func (l *listeners) found() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, l.lost = l.lost, 0
	return n
}

// over reports whether a session has ended.
func over(s *mcp.Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// listen returns which log messages a call wants: the level, and what gets them. A legacy server
// gets the level once; a modern one with each request.
func (c *conn) listen(ctx context.Context, run *running) (level string, to func(params json.RawMessage, lost int)) {
	level, tell := c.listeners.join(run.call)
	info := c.Info()
	if tell != "" && info.Era == wire.Legacy && wire.Member(info.Capabilities, "logging") != nil {
		params, err := json.Marshal(map[string]string{"level": tell})
		if err == nil {
			_, err = c.Call(ctx, "logging/setLevel", params, peer.CallOptions{Timeout: levelTimeout})
		}
		if err != nil {
			c.site.cfg.Log.Warn("an upstream does not take a level of log messages", "upstream", c.server.Name, "level", tell, "err", err)
		}
	}
	if level == "" {
		return "", nil
	}
	return level, func(params json.RawMessage, lost int) {
		c.pass(params, lost, func(m mcp.LogMessage) { run.tell(func(call mcp.Call) { call.Log(m) }) })
	}
}

// logged handles a log message that belongs to no single call. It does not block.
func (c *conn) logged(n peer.Notification) {
	if n.Shared {
		c.listeners.lose(n.Lost + 1)
		return
	}
	to := c.listeners.all(n.Session)
	if len(to) == 0 {
		return
	}
	lost := n.Lost + c.listeners.found()
	for _, s := range to {
		c.pass(n.Params, lost, func(m mcp.LogMessage) { m.SendTo(s) })
	}
}

// pass gives a log message to a client, after the number of those that were left out before it.
// params are those of the server's notification; nil for the number alone.
func (c *conn) pass(params json.RawMessage, lost int, to func(mcp.LogMessage)) {
	name := upstream.Line(c.server.Name)
	if lost > 0 {
		text := fmt.Sprintf("belljar has left out %d of the log messages of the server %s: they came too fast, were too large, or might have been those of another client", lost, name)
		if data, err := json.Marshal(text); err == nil {
			to(mcp.LogMessage{Level: "warning", Logger: name, Data: data})
		}
	}
	if data := wire.Member(params, "data"); data != nil {
		m := mcp.LogMessage{Level: wire.Text(wire.Member(params, "level")), Logger: name, Data: data}
		if own := wire.Text(wire.Member(params, "logger")); own != "" {
			m.Logger += "/" + upstream.Line(own[:min(len(own), loggerMost)])
		}
		to(m)
	}
}
