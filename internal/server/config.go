package server

import (
	"io"
	"log/slog"
	"time"

	"belljar.dev/internal/console"
	"belljar.dev/internal/fleet"
	"belljar.dev/internal/fleet/bus"
	"belljar.dev/internal/front"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies"
)

// Config says what a command needs. Zero values ask for less: a command that runs
// something in a box needs only the first part.
type Config struct {
	Command     string   // the name of the command, for the audit log; empty for one that keeps none
	Workspace   string   // the directory that boxes see as /workspace
	Policy      string   // a file, or the name of a bundled policy; empty for the user's own
	State       string   // the directory for what outlives the program; empty for the user's own
	Mode        Mode     // what boxes get of the workspace at most
	Tenant      string   // whose calls those are that come without a token; empty for the local one
	HostEnv     []string // names of further variables of programs outside boxes
	Checkpoints bool     // a checkpoint after each call
	Log         *slog.Logger

	Places    map[string]string // further directories for clients over HTTP, by name
	Tools     *Tools            // an MCP server with all tools; nil for none
	Hooks     *Hooks            // hooks around calls; nil runs none
	Callbacks *Callbacks        // skills and callbacks with results, which need tools and hooks; nil adds none
	Upstreams []string          // files of other people's servers, beside those of the policy
	Trace     bool              // calls are traced, if the policy says where to
	Service   *Service          // a server that stays until its context ends; nil for a command that makes one call
}

// Tools says how the MCP server answers.
type Tools struct {
	Structured   bool      // results for every client, beside the texts
	TrustClients bool      // clients answer questions without a person
	Toolkit      bool      // the toolkit is there, whether or not the policy names a tool of it
	Suite        mcp.Suite // what the protocol's conformance suite calls; nil for none
}

// Hooks says which hooks run.
type Hooks struct {
	Folders []string // empty for the user's own
	OnHost  []string // EVENT/NAME of each hook that runs outside a box
	Trusted []string // folders; an error, since nobody can trust one as a whole any more
}

// Callbacks says where messages of callbacks go.
type Callbacks struct {
	Inbox string // a directory that gets a file for each message; empty for none
}

// Service says what a server does beside answering calls.
type Service struct {
	HTTP *front.Config // where clients come over HTTP; nil for stdio
	Transports
	Admin   string // where probes and metrics are answered; empty for nowhere
	Console string // where people see the server in a browser; empty for nowhere

	ConsoleRemote console.Remote // how browsers of other machines reach that; without People

	Inherited *front.Inherited // sockets, and perhaps the server that hands over; nil for none
	Watch     bool             // the policy is read again when its files change
	Announce  io.Writer        // gets a line for each question that waits for a person; nil for none
	Webhook   *Webhook         // gets the questions as well; nil for none
	Link      *Link            // this is a worker of a fleet: clients come by its fronts; nil for none
	Routes    *Routes          // this is a front of a fleet, which has no places; nil for none
}

// Link is the configuration of a worker of a fleet.
type Link struct {
	Name        string   // of the worker
	Fronts      []string // https://HOST:PORT
	Credentials fleet.Credentials
	Places      string        // its directory
	Drain       time.Duration // how long running calls may take to end once it stops
	Console     bool          // the consoles at its fronts show it, and people decide there
	FleetPolicy bool          // its fronts may give it another policy
}

// Routes is the configuration of a front of a fleet.
type Routes struct {
	Addr        string // where workers connect
	Credentials fleet.Credentials
	Workers     []string   // to which new places go; empty for whichever is linked
	NATS        bus.Config // what all fronts share; without servers this is the only one
	FleetPolicy bool       // its operator, and those of the fronts that share NATS, may give the fleet a policy
}

// Transports says what a server over HTTP serves beside Streamable HTTP.
type Transports struct {
	SSE     bool // HTTP with SSE, the transport of 2024-11-05
	Sockets bool // WebSockets
}

// fleetPolicy reports whether a policy of the fleet may hold in place of the file.
func (c *Config) fleetPolicy() bool {
	return c.linked() && c.Service.Link.FleetPolicy || c.routes() && c.Service.Routes.FleetPolicy
}

func (c *Config) http() bool { return c.Service != nil && c.Service.HTTP != nil }

// linked reports whether this is a worker of a fleet, and routes whether it is a front.
func (c *Config) linked() bool { return c.Service != nil && c.Service.Link != nil }
func (c *Config) routes() bool { return c.Service != nil && c.Service.Routes != nil }

// tenanted reports whether clients come over HTTP, from whoever it is.
func (c *Config) tenanted() bool { return c.http() || c.linked() }

// toolkitIn reports whether clients get the tools of the toolkit: where the server was
// asked for them, or the policy of a gate names one.
func (c *Config) toolkitIn(g *gate) bool {
	return c.Tools != nil && c.Tools.Toolkit || policies.Names(g.now.Load(), tools.ToolkitNames()...)
}
