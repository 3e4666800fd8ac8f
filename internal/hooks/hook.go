package hooks

import (
	"encoding/json"
	"fmt"
	"regexp"
	"sync"
	"time"

	"belljar.dev/internal/printable"
)

// The events for which belljar itself runs hooks. A folder with any other name is for
// events that people send with `belljar hook emit` (C21).
const (
	SessionStart = "session_start"
	SessionEnd   = "session_end"
	ToolUse      = "tool_use"    // before a call that the policy allows; a hook may refuse the call
	ToolResult   = "tool_result" // after a call
	JobEnd       = "job_end"     // a background task has ended
	Callback     = "callback"    // a callback has fired
	Approval     = "approval"    // a question to a person was put, answered, or ended
	Error        = "error"       // a call could not be done
)

// Events returns the names above in order, each with the meaning of the event.
func Events() [][2]string {
	return [][2]string{
		{SessionStart, "a client has begun a session"},
		{SessionEnd, "a session has ended"},
		{ToolUse, "a call is about to run; a sync- hook may refuse it"},
		{ToolResult, "a call has ended"},
		{JobEnd, "a background task has ended"},
		{Callback, "a callback has fired"},
		{Approval, "a question to a person was put, answered, or has ended"},
		{Error, "a call could not be done"},
	}
}

// Bounds of hooks.
const (
	DefaultTimeout = 30 * time.Second
	MaxTimeout     = 10 * time.Minute
	MaxOutput      = 64 << 10 // most bytes of each output stream
	MaxScript      = 64 << 10 // most bytes of the script
	MaxEvent       = 32 << 10 // most bytes of an event as JSON

	maxHooks  = 64 // most hooks of one event in one folder
	maxEvents = 64 // most folders of events in one folder
	maxQueue  = 64 // most hooks that wait to be started
	workers   = 4  // most hooks that run at the same time without being waited for
	maxText   = 4 << 10
)

var eventName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_-]*$`) })

// isEvent reports whether name is a valid name of an event.
func isEvent(name string) bool { return len(name) <= 64 && eventName().MatchString(name) }

// Event is something that happened.
type Event struct {
	Name    string
	Session string // session of the event; empty if it has none
	Tenant  string // tenant to which the event belongs
	Time    time.Time
	Data    map[string]any // further data of the event; long texts are cut
}

// text returns the event as hooks read it, in JSON.
func (e Event) text() ([]byte, error) {
	all := map[string]any{"event": e.Name, "session": e.Session, "tenant": e.Tenant, "time": e.Time.UTC().Format(time.RFC3339)}
	for name, v := range e.Data {
		if _, ours := all[name]; !ours {
			all[name] = v
		}
	}
	for most := maxText; most >= 64; most /= 4 {
		text, err := json.Marshal(cut(all, most, 0))
		if err != nil {
			return nil, fmt.Errorf("event %s: %w", e.Name, err)
		}
		if len(text) <= MaxEvent {
			return text, nil
		}
	}
	return json.Marshal(map[string]any{"event": e.Name, "session": e.Session, "tenant": e.Tenant, "time": all["time"], "truncated": true})
}

// cut returns a value. most is the number of bytes at which each of its texts is cut.
func cut(v any, most, depth int) any {
	switch v := v.(type) {
	case string:
		if len(v) <= most {
			return v
		}
		return printable.Head(v, most) + fmt.Sprintf("... (%d bytes in all)", len(v))
	case map[string]any:
		if depth > 32 {
			return "..."
		}
		out := make(map[string]any, len(v))
		for name, one := range v {
			out[name] = cut(one, most, depth+1)
		}
		return out
	case []any:
		if depth > 32 {
			return "..."
		}
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = cut(one, most, depth+1)
		}
		return out
	}
	return v
}

// Verdict is the answer of an event's hooks.
type Verdict struct {
	Denied bool
	By     string   // hook that refused
	Reason string   // reason that the hook gave, or the failure of the hook
	Notes  []string // notes for the agent, from hooks that belljar waited for
}

// Ran is the result of one hook.
type Ran struct {
	Hook    Hook
	Code    int
	Denied  bool
	Reason  string
	Note    string
	Failure string // what failed; empty if nothing did
	Took    time.Duration
	Stdout  string
	Stderr  string
}
