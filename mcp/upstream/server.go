package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"belljar.dev/policies"
)

// Server is one entry of a configuration.
type Server struct {
	Name string
	// ID is a digest of all that the server is: its entry, where the entry comes from, and
	// what the policy says of it. An instance lives on in a new configuration as long as the
	// ID is the same.
	ID       string
	Trusted  bool // no box can write the file of the entry
	Remote   bool // it is reached over HTTP, without a process
	Installs bool // the start may fetch the server first
	Settings policies.Upstream
}

// Caller is whose call needs a server.
type Caller struct{ Tenant, Principal, Session string }

// Key is what an instance works for. A member is empty if the instance is shared by all of
// its kind. The tenant never is.
type Key struct {
	Server string
	Caller
}

// compare orders keys by their members.
func (k Key) compare(o Key) int {
	return cmp.Or(strings.Compare(k.Server, o.Server), strings.Compare(k.Tenant, o.Tenant), strings.Compare(k.Principal, o.Principal), strings.Compare(k.Session, o.Session))
}

// keyOf returns the instance that serves a caller.
func keyOf(s *Server, c Caller) Key {
	switch s.Settings.Share {
	case policies.ShareTenant:
		c.Principal, c.Session = "", ""
	case policies.SharePrincipal:
		c.Session = ""
	case policies.ShareSession:
	}
	return Key{Server: s.Name, Caller: c}
}

// Spec is what is started, and for whom.
type Spec struct {
	Key    Key
	Server Server
	Grant  policies.Grant // of the server's box
}

// Starter starts the programs of servers.
type Starter interface {
	// Start starts a server, and returns when it runs. It keeps to ctx, which bounds the
	// start and not the life of the process. It leaves nothing behind if it fails.
	Start(ctx context.Context, s Spec) (Process, error)
}

// Process is a server that was started, with everything that it started itself.
type Process interface {
	In() io.WriteCloser
	Out() io.Reader
	// Stderr returns the last lines that it wrote there, at most so many, as they may be
	// shown: without control characters and without secrets.
	Stderr(most int) []string
	// Done is closed when the server has ended, and Err then says how; Err is nil if Close
	// ended it.
	Done() <-chan struct{}
	Err() error
	// Close kills all of it and waits until nothing is left. It may be called twice.
	Close()
}

// Conn is a connection to a server, such as a *peer.Conn.
type Conn interface {
	// Done is closed when the connection is over, and Err then says why.
	Done() <-chan struct{}
	Err() error
	// Close ends the connection and all calls on it, and waits for what belongs to it. It
	// may be called twice.
	Close()
}

// Dialer connects to servers.
type Dialer[C Conn] interface {
	// Dial shakes hands with a server, and does whatever else has to be done before calls
	// may use it. It keeps to ctx, which bounds the handshake and not the connection. p is
	// nil for a remote server; Dial does not close it.
	Dial(ctx context.Context, s Spec, p Process) (C, error)
}

// Errors of a Starter or a Dialer that mean more than that a start failed.
var (
	// ErrHeld is wrapped by the error for a server that must not run until a person has
	// decided about it. It is not started again before Pool.Restart.
	ErrHeld = errors.New("a person has to decide about it")
	// ErrLasting is wrapped by an error that another start hardly cures, such as a package
	// that does not exist. Such a server is started twice more, and no further.
	ErrLasting = errors.New("another start does not help")
	// ErrLogin is ErrLasting for a server at which a person has to log in first.
	ErrLogin = fmt.Errorf("%w before a person has logged in", ErrLasting)
)
