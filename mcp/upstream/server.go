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
	// ID is a digest of everything that determines the server: its entry, the source of the
	// entry, and the policy for it. An instance continues under a new configuration as long
	// as the ID is the same.
	ID       string
	Trusted  bool // no box can write the file that contains the entry
	Remote   bool // the server is reached over HTTP, without a process
	Installs bool // the start may fetch the server's package first
	Settings policies.Upstream
}

// Caller identifies the tenant, the principal and the session whose call needs a server.
type Caller struct{ Tenant, Principal, Session string }

// Key identifies an instance: the server and the callers that share it. Principal or
// Session is empty if it is shared by all of them. Tenant is never empty.
type Key struct {
	Server string
	Caller
}

// compare orders keys by their members.
func (k Key) compare(o Key) int {
	return cmp.Or(strings.Compare(k.Server, o.Server), strings.Compare(k.Tenant, o.Tenant), strings.Compare(k.Principal, o.Principal), strings.Compare(k.Session, o.Session))
}

// keyOf returns the key of the instance that serves a caller.
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

// Spec describes a server to start, and for whom.
type Spec struct {
	Key    Key
	Server Server
	Grant  policies.Grant // grant of the server's box
}

// Starter starts the programs of servers.
type Starter interface {
	// Start starts a server, and returns when it runs. ctx bounds the start, and not the
	// life of the process. If Start fails, it leaves nothing running.
	Start(ctx context.Context, s Spec) (Process, error)
}

// Process is a started server, with all processes that it started itself.
type Process interface {
	In() io.WriteCloser
	Out() io.Reader
	// Stderr returns the last lines of standard error, in a form that may be shown: without
	// control characters and secrets. most is the largest number of lines.
	Stderr(most int) []string
	// Done returns a channel that is closed when the server has ended. Err then returns how
	// it ended; nil if Close ended it.
	Done() <-chan struct{}
	Err() error
	// Close kills all processes of the server and waits until none is left. It may be
	// called twice.
	Close()
}

// Conn is a connection to a server, such as a *peer.Conn.
type Conn interface {
	// Done returns a channel that is closed when the connection is over. Err then returns
	// why.
	Done() <-chan struct{}
	Err() error
	// Close ends the connection and all calls on it, and waits for its goroutines. It may
	// be called twice.
	Close()
}

// Dialer connects to servers.
type Dialer[C Conn] interface {
	// Dial makes the handshake with a server, and all other steps before calls may use it.
	// ctx bounds the handshake, and not the connection. p is nil for a remote server; Dial
	// does not close it.
	Dial(ctx context.Context, s Spec, p Process) (C, error)
}

// Errors of a Starter or a Dialer that have further effects than a failed start.
var (
	// ErrHeld is wrapped by the error for a server that must not run until a person has
	// decided about it. It is not started again before Pool.Restart.
	ErrHeld = errors.New("a person has to decide about it")
	// ErrLasting is wrapped by an error that another start will hardly fix, for example a
	// package that does not exist. Such a server is started twice more, and then not again.
	ErrLasting = errors.New("another start would fail in the same way")
	// ErrLogin is ErrLasting for a server at which a person must log in first.
	ErrLogin = fmt.Errorf("%w until a person has logged in", ErrLasting)
)
