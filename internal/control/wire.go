package control

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"belljar.dev/internal/people/approval"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies/audit"
)

// Box is one box, as the other commands see it.
type Box struct {
	Server    int         `json:"server"` // process id
	ID        string      `json:"id"`     // cut, like a session's
	Tenant    string      `json:"tenant"`
	Profile   string      `json:"profile"`
	Jobs      int         `json:"jobs"` // in the background, that run
	Listening []uint16    `json:"listening"`
	Published []Published `json:"published"`
	Browser   bool        `json:"browser,omitempty"` // a Chrome runs in it

	// The resources that it uses. A number that the host cannot tell is zero, and absent.
	Memory      int64 `json:"memory,omitempty"`       // bytes, now
	MemoryLimit int64 `json:"memory_limit,omitempty"` // bytes
	CPU         int64 `json:"cpu_ms,omitempty"`       // processor time since it was opened
	Processes   int64 `json:"processes,omitempty"`    // and threads, now
	Network     int64 `json:"network,omitempty"`      // bytes sent and received since it was opened
	Disk        int64 `json:"disk,omitempty"`         // bytes that it has stored in /tmp and its home directory
}

// Browser is a browser that an agent uses, as the other commands see it.
type Browser struct {
	Server    int       `json:"server"` // process id
	ID        string    `json:"id"`
	Tenant    string    `json:"tenant"`
	Profile   string    `json:"profile"`
	State     string    `json:"state"` // live or parked
	Tabs      int       `json:"tabs"`
	Memory    int64     `json:"memory,omitempty"`  // bytes of its box
	HeldBy    string    `json:"held_by,omitempty"` // who has stopped its acts
	HeldSince time.Time `json:"held_since,omitzero"`
}

// Picture is what a browser shows.
type Picture struct {
	JPEG   []byte `json:"jpeg"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// Published is a port of a box that the host has.
type Published struct {
	Box  string `json:"box"`
	Port uint16 `json:"port"`
	At   string `json:"at"` // address on the host
}

// Session is a session, as the other commands see it. Its id is cut: over HTTP
// the whole of it is what opens the session.
type Session struct {
	Server int `json:"server"` // process id
	mcp.SessionInfo
	Jobs int `json:"jobs"` // in the background, that run
}

// Job is a background task that runs, as the other commands see it.
type Job struct {
	Server int `json:"server"` // process id
	tools.JobInfo
}

// End asks for the end of sessions, or of tasks of one session.
type End struct {
	Sessions []string `json:"sessions,omitempty"` // cut ids
	Session  string   `json:"session,omitempty"`  // whose tasks are meant
	Tasks    []int64  `json:"tasks,omitempty"`
	Note     string   `json:"note,omitempty"` // for the agent
}

// Approvals has the approvals that a server sees, and the server's places.
type Approvals struct {
	Place  string              `json:"place"`            // the workspace of its own place
	Places []string            `json:"places,omitempty"` // those of all places that are open
	All    []approval.Approval `json:"approvals"`
}

// Answer is a person's answer to a question.
type Answer struct {
	Yes   bool   `json:"yes"`
	Scope string `json:"scope,omitempty"` // as ParseScope reads it
	Note  string `json:"note,omitempty"`
}

// QuestionAnswer is what a person says to a question.
type QuestionAnswer struct {
	Words   map[string][]string `json:"words,omitempty"`
	Decline bool                `json:"decline,omitempty"`
	Note    string              `json:"note,omitempty"`
}

// Policy is which policy a server holds, as the other commands see it.
type Policy struct {
	Server    int       `json:"server"` // process id
	File      string    `json:"file"`   // absolute, or the name of a bundled policy
	SHA256    string    `json:"sha256"`
	Since     time.Time `json:"since"`             // when it was read last
	Refused   string    `json:"refused,omitempty"` // why what the file is now cannot be used
	RefusedAt time.Time `json:"refused_at,omitzero"`
}

// String says what a server does with a file that it cannot use.
func (i Policy) String() string {
	return fmt.Sprintf("server %d keeps the policy that it read at %s (%s): %s",
		i.Server, i.Since.Format(time.DateTime), i.SHA256[:min(len(i.SHA256), 12)], cmp.Or(i.Refused, "it has not read the file again"))
}

// Audit is what a server says of its audit log.
type Audit struct {
	Dir string `json:"dir"` // empty where it keeps none
	audit.Health
}

// AuditReport is what a worker of a fleet found in its audit log, compared with what other
// workers have of it.
type AuditReport struct {
	Fault     string   `json:"fault,omitempty"`  // the first place at which it was changed
	Unread    string   `json:"unread,omitempty"` // why it cannot be read
	Records   uint64   `json:"records"`
	First     uint64   `json:"first"`
	Last      uint64   `json:"last"`
	Signed    uint64   `json:"signed"`
	Witnessed uint64   `json:"witnessed"` // the last record that a checkpoint of Witnesses signs; 0 without any
	Witnesses []string `json:"witnesses,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	Disputes  []string `json:"disputes,omitempty"` // what witnesses say and nothing decides
}

// ShortID is the beginning of a session's id: enough to recognise it, and too little to
// use the session, which needs the whole id over HTTP.
func ShortID(id string) string { return id[:min(len(id), 12)] }

// ShortBox is the id of a box with the session's id in it cut like one: further boxes of
// a session have something behind it, such as -2. Ids of other boxes stay whole.
func ShortBox(id string) string {
	session, whole := strings.CutPrefix(id, "s-")
	if !whole {
		return id
	}
	session, further, more := strings.Cut(session, "-")
	if id = ShortID("s-" + session); more {
		id += "-" + further
	}
	return id
}

// HostPort reads a loopback address with a port, or either of them: the
// default is 127.0.0.1 and a free port.
func HostPort(s string) (netip.AddrPort, error) {
	local := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if s == "" {
		return netip.AddrPortFrom(local, 0), nil
	}
	if port, err := strconv.ParseUint(s, 10, 16); err == nil {
		return netip.AddrPortFrom(local, uint16(port)), nil
	}
	at, err := netip.ParseAddrPort(s)
	if err != nil || !at.Addr().IsLoopback() {
		return at, fmt.Errorf("%q is not a loopback address with a port; write 127.0.0.1:8080 or 8080", s)
	}
	return at, nil
}

// ParseScope reads the scope that a person gives a yes: empty, "session", or a time.
func ParseScope(text string) (approval.Scope, time.Duration, error) {
	switch text {
	case "", string(approval.Once):
		return approval.Once, 0, nil
	case string(approval.Session):
		return approval.Session, 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return "", 0, fmt.Errorf("a yes for %q: want once, session, or a time such as 2h", text)
	}
	return approval.Hours, d, nil
}
