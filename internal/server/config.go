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

// Config is the configuration of a Server. With zero values, a server opens less: a command
// that runs something in a box needs only the first group of fields.
type Config struct {
	Command     string   // name of the command, for the audit log; empty for a command that keeps no log
	Workspace   string   // directory that boxes see as /workspace
	Policy      string   // path of the policy, or the name of a bundled policy; empty for the user's own policy
	State       string   // directory of the state that outlives the program; empty for the user's own directory
	Mode        Mode     // most that boxes may do with the workspace
	Tenant      string   // tenant of the calls that come without a token; empty for the local tenant
	HostEnv     []string // names of further variables that programs outside boxes get
	Checkpoints bool     // whether a checkpoint is made after each call
	Log         *slog.Logger

	Places    map[string]string // further workspaces for clients over HTTP, by name
	Tools     *Tools            // MCP server with all tools; nil for no server
	Hooks     *Hooks            // hooks around calls; nil for no hooks
	Callbacks *Callbacks        // skills and callbacks in results, which need Tools and Hooks; nil for neither
	Upstreams []string          // files with other people's servers, in addition to the files of the policy
	Trace     bool              // whether calls are traced, if the policy names a collector
	Service   *Service          // parts of a server that runs until its context ends; nil for a command that makes one call
}

// Tools configures the answers of the MCP server.
type Tools struct {
	Structured   bool      // whether every client gets structured results in addition to texts
	TrustClients bool      // whether clients may answer questions without a person
	Toolkit      bool      // whether the toolkit is offered even if the policy names none of its tools
	Suite        mcp.Suite // tools for the protocol's conformance suite; nil for none
}

// Hooks selects the hooks that run.
type Hooks struct {
	Folders []string // folders of hooks; empty for the user's own folder
	OnHost  []string // hooks that run outside a box, each as EVENT/NAME
	Trusted []string // an error if not empty: a folder can no longer be trusted as a whole
}

// Callbacks configures the messages of callbacks.
type Callbacks struct {
	Inbox string // directory that gets a file for each message; empty for no files
}

// Service configures what a server does in addition to answering calls.
type Service struct {
	HTTP *front.Config // listener for clients over HTTP; nil for stdio
	Transports
	Admin   string // address of probes and metrics; empty for none
	Console string // address of the console in a browser; empty for none

	ConsoleRemote console.Remote // access of browsers on other machines to the console; People is not set here

	Inherited *front.Inherited // inherited sockets, and perhaps the server that hands over; nil for none
	Watch     bool             // whether the policy is read again when its files change
	Announce  io.Writer        // writer that gets a line for each question that waits for a person; nil for none
	Webhook   *Webhook         // webhook that gets these questions too; nil for none
	// configuration of a worker of a fleet, whose clients connect to its fronts; nil for
	// another server
	Link   *Link
	Routes *Routes // configuration of a front of a fleet, which has no places; nil for another server
}

// Link is the configuration of a worker of a fleet.
type Link struct {
	Name        string   // name of the worker
	Fronts      []string // addresses of its fronts, each https://HOST:PORT
	Credentials fleet.Credentials
	Places      string        // directory of its places
	Drain       time.Duration // time in which running calls may end once the worker stops
	Console     bool          // whether the consoles at its fronts show the worker, so that people decide there
	FleetPolicy bool          // whether its fronts may give it another policy
}

// Routes is the configuration of a front of a fleet.
type Routes struct {
	Addr        string // address to which workers connect
	Credentials fleet.Credentials
	Workers     []string   // names of the workers that get new places; empty for all linked workers
	NATS        bus.Config // NATS servers that all fronts share; without servers this is the only front
	FleetPolicy bool       // whether its operator, and the operators of fronts that share NATS, may give the fleet a policy
}

// Transports contains the transports that a server over HTTP offers in addition to
// Streamable HTTP.
type Transports struct {
	SSE     bool // whether HTTP with SSE is offered, the transport of 2024-11-05
	Sockets bool // whether WebSockets are offered
}

// fleetPolicy reports whether a policy of the fleet may replace the policy of the file.
func (c *Config) fleetPolicy() bool {
	return c.linked() && c.Service.Link.FleetPolicy || c.routes() && c.Service.Routes.FleetPolicy
}

func (c *Config) http() bool { return c.Service != nil && c.Service.HTTP != nil }

// linked reports whether this server is a worker of a fleet. routes reports whether it is a
// front.
func (c *Config) linked() bool { return c.Service != nil && c.Service.Link != nil }
func (c *Config) routes() bool { return c.Service != nil && c.Service.Routes != nil }

// tenanted reports whether clients connect over HTTP, directly or through a front, so that
// there may be several tenants.
func (c *Config) tenanted() bool { return c.http() || c.linked() }

// toolkitIn reports whether clients get the tools of the toolkit: Config.Tools has the
// toolkit on, or the policy of a gate names one of its tools.
func (c *Config) toolkitIn(g *gate) bool {
	return c.Tools != nil && c.Tools.Toolkit || policies.Names(g.now.Load(), tools.ToolkitNames()...)
}
