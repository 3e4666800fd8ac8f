package mcp

import (
	"encoding/json"
	"slices"
	"sync"
)

// Log messages are sent to clients that want them. A legacy client sets a level for its
// session (logging/setLevel). A modern client names a level in the _meta of a request, for
// as long as the request runs. The server does not wait for a slow client: messages that
// cannot be sent are lost.

// LogMessage is a log message for a client.
type LogMessage struct {
	Level  string          // one of the levels of RFC 5424, section 6.2.1, as the protocol writes them
	Logger string          // name of the program or part that logs
	Data   json.RawMessage // the message, any JSON value
}

// logLevels returns the levels, the lowest first.
var logLevels = sync.OnceValue(func() []string {
	return []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
})

// LogLevel returns the rank of a level: 0 for debug, and a negative number for a text that is not
// a level.
func LogLevel(level string) int { return slices.Index(logLevels(), level) }

// reaches reports whether a message is sent to a client that wants the level want and all
// higher levels.
func (m LogMessage) reaches(want string) bool {
	least := LogLevel(want)
	return least >= 0 && LogLevel(m.Level) >= least
}

// frame returns the message as a line of the wire, without its LF; nil if its data is not
// JSON.
func (m LogMessage) frame() []byte {
	params, err := json.Marshal(struct {
		Level  string          `json:"level"`
		Logger string          `json:"logger,omitempty"`
		Data   json.RawMessage `json:"data"`
	}{m.Level, m.Logger, m.Data})
	if err != nil {
		return nil
	}
	return append(append([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":`), params...), '}')
}

// SendTo sends the message to the client of a session, if the client has set this level or
// a lower one.
func (m LogMessage) SendTo(s *Session) {
	s.mu.Lock()
	to, want, ended := s.conn.out, s.conn.level, s.life.ended
	s.mu.Unlock()
	if to == nil || ended || !m.reaches(want) {
		return
	}
	m.send(s, to)
}

func (m LogMessage) send(s *Session, to outlet) {
	frame := m.frame()
	if frame == nil {
		return
	}
	if err := to.Send(frame, aProgress); err != nil {
		s.server.cfg.Log.Debug("a log message was not sent", "session", s.id, "error", err)
	}
}

// callLogs is the destination of a call's log messages.
type callLogs struct {
	level string // lowest level that the client wants
	to    outlet // outlet of the call's answer
}

// logsOf returns the destination of a call's log messages; nil if the client wants none.
// level is the level in a modern request.
func logsOf(s *Session, to outlet, modern bool, level string) *callLogs {
	if !modern {
		level = s.logLevel()
	}
	if level == "" || to == nil {
		return nil
	}
	return &callLogs{level, to}
}

// LogLevel returns the lowest level of the log messages that the client wants while the
// call runs; empty if it wants none. ok is false if the client must not get any, because
// the policy wants a text removed from the call's answer: the text could be split over two
// messages.
func (c Call) LogLevel() (level string, ok bool) {
	if c.logs == nil {
		return "", len(c.redact) == 0
	}
	return c.logs.level, len(c.redact) == 0
}

// Log sends a message to the client of the call, if the client wants it. It may be called
// until the handler returns.
func (c Call) Log(m LogMessage) {
	if level, ok := c.LogLevel(); ok && m.reaches(level) {
		m.send(c.Session, c.logs.to)
	}
}
