package mcp

import (
	"encoding/json"
	"slices"
	"sync"
)

// Log messages are for clients that want them: legacy ones set a level for their session
// (logging/setLevel), and modern ones name one in the _meta of a request, for the time that it
// runs. None waits for a slow client; those that cannot be sent are lost.

// LogMessage is a log message for a client.
type LogMessage struct {
	Level  string          // one of those of RFC 5424, section 6.2.1, as the protocol writes them
	Logger string          // the name of the program or part that logs
	Data   json.RawMessage // what is said, any JSON value
}

// logLevels are the levels, the least first.
var logLevels = sync.OnceValue(func() []string {
	return []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
})

// LogLevel returns the rank of a level: 0 for debug, and a negative number for a text that is not
// a level.
func LogLevel(level string) int { return slices.Index(logLevels(), level) }

// reaches reports whether a message of one level goes to a client that wants another and those
// above it.
func (m LogMessage) reaches(want string) bool {
	least := LogLevel(want)
	return least >= 0 && LogLevel(m.Level) >= least
}

// frame is the message as a line of the wire, without its LF; nil if its data is not JSON.
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

// SendTo sends the message to the client of a session, if that has set a level that the message
// reaches.
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

// callLogs is where the log messages of a call go.
type callLogs struct {
	level string // the least that the client wants
	to    outlet // of the answer
}

// logsOf returns where the log messages of a call go; nil for nowhere. level is what its request
// names.
func logsOf(s *Session, to outlet, modern bool, level string) *callLogs {
	if !modern {
		level = s.logLevel()
	}
	if level == "" || to == nil {
		return nil
	}
	return &callLogs{level, to}
}

// LogLevel returns the least level of the log messages that the client wants while the call
// runs; empty for none. It is not ok if the client must have none, since the policy wants
// something taken out of what the call answers: the text could come in two pieces.
func (c Call) LogLevel() (level string, ok bool) {
	if c.logs == nil {
		return "", len(c.redact) == 0
	}
	return c.logs.level, len(c.redact) == 0
}

// Log sends a message to the client of the call, if that wants it. It may be called until the
// handler returns.
func (c Call) Log(m LogMessage) {
	if level, ok := c.LogLevel(); ok && m.reaches(level) {
		m.send(c.Session, c.logs.to)
	}
}
