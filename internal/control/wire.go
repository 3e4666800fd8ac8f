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

// Box describes a box for the other commands.
type Box struct {
	Server    int         `json:"server"` // process id of the server
	ID        string      `json:"id"`     // id of the box, shortened like the id of a session
	Tenant    string      `json:"tenant"`
	Profile   string      `json:"profile"`
	Jobs      int         `json:"jobs"` // number of background tasks that run
	Listening []uint16    `json:"listening"`
	Published []Published `json:"published"`
	Browser   bool        `json:"browser,omitempty"` // whether a Chrome runs in the box

	// Usage of resources. A number that the host cannot measure is zero, and absent.
	Memory      int64 `json:"memory,omitempty"`       // bytes in use now
	MemoryLimit int64 `json:"memory_limit,omitempty"` // bytes
	CPU         int64 `json:"cpu_ms,omitempty"`       // milliseconds of processor time since the box was opened, or since its init began if no cgroup counts it
	Processes   int64 `json:"processes,omitempty"`    // number of processes and threads now
	Network     int64 `json:"network,omitempty"`      // bytes sent and received since the box was opened
	Disk        int64 `json:"disk,omitempty"`         // bytes stored in /tmp, /dev/shm, /run and the home directory
}

// Browser describes a browser of an agent for the other commands.
type Browser struct {
	Server    int       `json:"server"` // process id of the server
	ID        string    `json:"id"`
	Tenant    string    `json:"tenant"`
	Profile   string    `json:"profile"`
	State     string    `json:"state"` // live, frozen or parked
	Tabs      int       `json:"tabs"`
	Memory    int64     `json:"memory,omitempty"`  // memory of its box in bytes
	HeldBy    string    `json:"held_by,omitempty"` // name of the person who has stopped its actions
	HeldSince time.Time `json:"held_since,omitzero"`
}

// Picture is a picture of what a browser shows.
type Picture struct {
	JPEG   []byte `json:"jpeg"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// Published is a port of a box that is published on the host.
type Published struct {
	Box  string `json:"box"`
	Port uint16 `json:"port"`
	At   string `json:"at"` // address on the host
}

// Session describes a session for the other commands. Its id is shortened: over HTTP,
// anyone with the whole id could use the session.
type Session struct {
	Server int `json:"server"` // process id of the server
	mcp.SessionInfo
	Jobs int `json:"jobs"` // number of background tasks that run
}

// Job describes a background task for the other commands and for the console, which also
// shows tasks that have ended.
type Job struct {
	Server int `json:"server"` // process id of the server
	tools.JobInfo
}

// End requests the end of sessions, or of tasks of one session.
type End struct {
	Sessions []string `json:"sessions,omitempty"` // shortened ids
	Session  string   `json:"session,omitempty"`  // session of the tasks
	Tasks    []int64  `json:"tasks,omitempty"`
	Note     string   `json:"note,omitempty"` // note for the agent
}

// Approvals contains the approvals of a server, and the places of the server.
type Approvals struct {
	Place  string              `json:"place"`            // workspace of the server's own place
	Places []string            `json:"places,omitempty"` // workspaces of all open places
	All    []approval.Approval `json:"approvals"`
}

// Answer is a person's answer to a question.
type Answer struct {
	Yes   bool   `json:"yes"`
	Scope string `json:"scope,omitempty"` // text that ParseScope reads
	Note  string `json:"note,omitempty"`
}

// QuestionAnswer is a person's answer to a question of an agent.
type QuestionAnswer struct {
	Words   map[string][]string `json:"words,omitempty"`
	Decline bool                `json:"decline,omitempty"`
	Note    string              `json:"note,omitempty"`
}

// Policy describes the policy of a server for the other commands.
type Policy struct {
	Server    int       `json:"server"` // process id of the server
	File      string    `json:"file"`   // absolute path, or the name of a bundled policy
	SHA256    string    `json:"sha256"`
	Since     time.Time `json:"since"`             // when the policy in force was read
	Refused   string    `json:"refused,omitempty"` // why the present content of the file cannot be used
	RefusedAt time.Time `json:"refused_at,omitzero"`
}

// String describes what a server does if it cannot use the file.
func (i Policy) String() string {
	return fmt.Sprintf("server %d keeps the policy that it read at %s (%s): %s",
		i.Server, i.Since.Format(time.DateTime), i.SHA256[:min(len(i.SHA256), 12)], cmp.Or(i.Refused, "it has not read the file again"))
}

// Audit describes the audit log of a server.
type Audit struct {
	Dir string `json:"dir"` // empty if the server keeps no log
	audit.Health
}

// AuditReport is the result of a worker's check of its audit log, compared with the
// checkpoints that other workers have of it.
type AuditReport struct {
	Fault     string   `json:"fault,omitempty"`  // first place at which the log was changed
	Unread    string   `json:"unread,omitempty"` // why the log cannot be read
	Records   uint64   `json:"records"`
	First     uint64   `json:"first"`
	Last      uint64   `json:"last"`
	Signed    uint64   `json:"signed"`
	Witnessed uint64   `json:"witnessed"` // last record that a checkpoint of Witnesses signs; 0 without a checkpoint
	Witnesses []string `json:"witnesses,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	Disputes  []string `json:"disputes,omitempty"` // claims of witnesses that cannot be decided
}

// ShortID returns the beginning of a session's id. It is long enough to recognise the
// session, and too short to use it over HTTP, which needs the whole id.
func ShortID(id string) string { return id[:min(len(id), 12)] }

// ShortBox returns the id of a box with a shortened session id in it. A suffix of further
// boxes of a session, for example -2, is kept. Ids of other boxes stay unchanged.
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

// HostPort parses a loopback address with a port, or only one of the two. The default is
// 127.0.0.1 and a free port.
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

// ParseScope parses the scope of a yes: "once" or empty, "session", or a duration.
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
