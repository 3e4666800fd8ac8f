package control

import "time"

// Upstreams are the upstreams in one place of a server.
type Upstreams struct {
	Server int        `json:"server"` // process id of the server
	Place  string     `json:"place"`  // path of the place's workspace
	Own    Listing    `json:"own"`    // size of the list of the server's own tools
	All    []Upstream `json:"upstreams"`
	Faults []string   `json:"faults"`         // faults of the files and their entries, one text for each
	More   int        `json:"more,omitempty"` // number of upstreams and faults that were left out
}

// Listing is the size of a part of the list of tools.
type Listing struct {
	Tools int `json:"tools"`
	Bytes int `json:"bytes"`
}

// Upstream describes an upstream, or one of its instances. Its name is as in the file. Its
// other texts have no line breaks and no hidden characters, and are cut.
type Upstream struct {
	Name      string    `json:"name"`
	Tenant    string    `json:"tenant,omitempty"`
	Principal string    `json:"principal,omitempty"`
	Session   string    `json:"session,omitempty"` // shortened id of the session
	State     string    `json:"state"`
	Since     time.Time `json:"since,omitzero"`
	Reason    string    `json:"reason,omitempty"` // why the upstream is not ready
	// step of a start: the installation, the start of the program or the handshake
	Step    string    `json:"step,omitempty"`
	Attempt int       `json:"attempt,omitempty"` // number of starts in the last ten minutes
	Until   time.Time `json:"until,omitzero"`    // time of the next start, if the upstream waits for it
	Stderr  []string  `json:"stderr,omitempty"`  // last lines of standard error
	Calls   int       `json:"calls"`             // number of calls that run

	File    string   `json:"file"` // file with its entry
	Line    int      `json:"line"`
	Hides   []string `json:"hides,omitempty"` // entries that its entry replaces, as FILE:LINE
	Trusted bool     `json:"trusted"`         // whether no box can write the file
	Pin     string   `json:"pin,omitempty"`   // mode of its pins
	Held    int      `json:"held"`            // number of definitions that wait for a person

	NeedsLogin bool `json:"needs_login,omitempty"` // whether it is not ready because a person has to log in

	Listing // size of what is offered of this upstream
}

// UpstreamName is a request about the upstream with a name.
type UpstreamName struct {
	Name string `json:"name"`
}

// Ended is the number of instances of an upstream that were ended.
type Ended struct {
	Server    int `json:"server"` // process id of the server
	Instances int `json:"instances"`
}

// UpstreamLogs requests the last lines that an upstream has written to standard error.
type UpstreamLogs struct {
	Name  string `json:"name"`
	Lines int    `json:"lines"`
}

// UpstreamLog contains the last lines of one instance of an upstream. Its texts have no
// line breaks and no hidden characters.
type UpstreamLog struct {
	Tenant    string   `json:"tenant"`
	Principal string   `json:"principal,omitempty"`
	Session   string   `json:"session,omitempty"` // shortened id of the session
	State     string   `json:"state"`
	Lines     []string `json:"lines"`
}

// Kinds of changes of pins, for UpstreamChange and for the audit log.
const (
	PinsTrusted   = "trusted"
	PinsRefused   = "refused"
	PinsImported  = "imported"
	PinsForgotten = "forgotten"
)

// UpstreamChange reports that a person has changed the pins of an upstream.
type UpstreamChange struct {
	What      string   `json:"what"` // kind of the change, for example PinsTrusted
	Name      string   `json:"name"` // name of the upstream; empty for all upstreams of the tenant
	Tenant    string   `json:"tenant"`
	Workspace string   `json:"workspace,omitempty"` // workspace whose file has the entry
	Items     []string `json:"items,omitempty"`
}
