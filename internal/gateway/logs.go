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
	listenersMost = 256             // most sessions to which one instance sends log messages
	levelTimeout  = 2 * time.Second // time that a server has to accept a level
	loggerMost    = 100             // most bytes of the name that a server gives its logger
)

// muted is the level of a session that gets no log messages, because the policy redacts the
// answers of the server to it.
const muted = "muted"

// listeners contains the sessions that have used a server, and the level of log messages
// that each session wants.
type listeners struct {
	mu     sync.Mutex
	levels map[*mcp.Session]string // guarded by mu: lowest level that each session wants, or muted
	told   string                  // guarded by mu: level that was sent to the server; empty if none was sent
	lost   int                     // guarded by mu: number of messages that went to no client
}

// join records the level that the client of a call wants, and returns it; empty if the
// client wants no messages. tell is the level that must be sent to the server; empty if
// none must be sent.
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

// put records the level of a session. The caller holds mu. If there are too many sessions,
// put forgets those that have ended. If there are still too many, put does not record this
// session.
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

// least returns the lowest level that a session wants. The caller holds mu.
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

// all returns the sessions that get messages which belong to no call. If only is not empty,
// all returns at most the session with this ID.
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

// lose counts n messages that go to no client. found returns their number since the last
// call of found.
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

// listen returns the level of log messages that a call wants, and the function that gets
// them. A legacy server gets the level once, a modern server with each request.
func (c *conn) listen(ctx context.Context, run *running) (level string, to func(params json.RawMessage, lost int)) {
	level, tell := c.listeners.join(run.call)
	info := c.Info()
	if tell != "" && info.Era == wire.Legacy && wire.Member(info.Capabilities, "logging") != nil {
		params, err := json.Marshal(map[string]string{"level": tell})
		if err == nil {
			_, err = c.Call(ctx, "logging/setLevel", params, peer.CallOptions{Timeout: levelTimeout})
		}
		if err != nil {
			c.site.cfg.Log.Warn("an upstream does not accept a level for log messages", "upstream", c.server.Name, "level", tell, "err", err)
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

// pass sends a log message to a client, after a message with the number of messages that
// were left out before. params are the params of the server's notification; if they are
// nil, pass sends only the number.
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
