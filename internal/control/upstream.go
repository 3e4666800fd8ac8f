package control

import "time"

// Upstreams are other people's servers in one place of a server.
type Upstreams struct {
	Server int        `json:"server"` // process id
	Place  string     `json:"place"`  // the workspace
	Own    Listing    `json:"own"`    // the tools of the server itself
	All    []Upstream `json:"upstreams"`
	Faults []string   `json:"faults"`         // of the files and their entries, one text each
	More   int        `json:"more,omitempty"` // upstreams and faults that the answer has no room for
}

// Listing is how large a part of the list of tools is.
type Listing struct {
	Tools int `json:"tools"`
	Bytes int `json:"bytes"`
}

// Upstream is how a server of somebody else is, or one of its instances. Its name is as the file
// has it. Its other texts have no line breaks and no characters that hide, and are cut.
type Upstream struct {
	Name      string    `json:"name"`
	Tenant    string    `json:"tenant,omitempty"`
	Principal string    `json:"principal,omitempty"`
	Session   string    `json:"session,omitempty"` // cut
	State     string    `json:"state"`
	Since     time.Time `json:"since,omitzero"`
	Reason    string    `json:"reason,omitempty"`  // why it is not ready
	Step      string    `json:"step,omitempty"`    // of a start: the installation, the start of the program or the handshake
	Attempt   int       `json:"attempt,omitempty"` // starts in ten minutes
	Until     time.Time `json:"until,omitzero"`    // of waiting: the next start
	Stderr    []string  `json:"stderr,omitempty"`  // the last lines
	Calls     int       `json:"calls"`             // that run

	File    string   `json:"file"` // of its entry
	Line    int      `json:"line"`
	Hides   []string `json:"hides,omitempty"` // entries that it replaces, as FILE:LINE
	Trusted bool     `json:"trusted"`         // no box can write the file
	Pin     string   `json:"pin,omitempty"`   // the mode of its pins
	Held    int      `json:"held"`            // definitions that wait for a person

	NeedsLogin bool `json:"needs_login,omitempty"` // the reason is that a person has to log in

	Listing // of what is offered of it
}

// UpstreamName asks for something to be done with the server of a name.
type UpstreamName struct {
	Name string `json:"name"`
}

// Ended says how many instances of a server were ended.
type Ended struct {
	Server    int `json:"server"` // process id
	Instances int `json:"instances"`
}

// UpstreamLogs asks for the last lines that a server has written to standard error.
type UpstreamLogs struct {
	Name  string `json:"name"`
	Lines int    `json:"lines"`
}

// UpstreamLog is the last lines of one instance of a server. Its texts have no line breaks and no
// characters that hide.
type UpstreamLog struct {
	Tenant    string   `json:"tenant"`
	Principal string   `json:"principal,omitempty"`
	Session   string   `json:"session,omitempty"` // cut
	State     string   `json:"state"`
	Lines     []string `json:"lines"`
}

// Changes of pins, in the words of UpstreamChange and of the audit log.
const (
	PinsTrusted   = "trusted"
	PinsRefused   = "refused"
	PinsImported  = "imported"
	PinsForgotten = "forgotten"
)

// UpstreamChange says that a person has changed the pins of a server.
type UpstreamChange struct {
	What      string   `json:"what"` // PinsTrusted and so on
	Name      string   `json:"name"` // empty for all servers of the tenant
	Tenant    string   `json:"tenant"`
	Workspace string   `json:"workspace,omitempty"` // whose file has the entry
	Items     []string `json:"items,omitempty"`
}
