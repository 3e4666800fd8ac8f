package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"belljar.dev/mcp"
	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/login"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/egress"
)

// Config is the configuration of a gateway. All fields are required except Files, Logins,
// Record, Allowed and Wait.
type Config struct {
	Server    *mcp.Server             // MCP server of the place
	Boxes     *sandbox.Workspace      // boxes for the upstreams
	Workspace string                  // directory of the workspace
	Policy    func() *policies.Policy // returns the policy in force
	Files     []string                // absolute paths of further files of servers
	Trusted   func(file string) bool  // reports whether it is known that no box can write a file
	Cache     string                  // directory for what launchers fetch, which no box sees
	Pins      *pin.Book
	Logins    *login.Book                                            // logins at remote servers; may be nil
	Secret    func(ctx context.Context, name string) (string, error) // returns the value of a secret of the policy
	Record    func(tenant string, r egress.Record)                   // records requests to remote servers
	Allowed   func(policies.Grant) *egress.Allowance
	Wait      time.Duration // how long to wait for servers that start; zero means as in the policy
	Version   string        // version of this program, for servers
	Log       *slog.Logger
}

// Gateway contains the upstreams in one place. Its methods are safe for concurrent use, but
// New must be called before the first session.
type Gateway struct {
	*site
	calls *calls

	reloading sync.Mutex // held by Reload
}

// New returns the gateway of a place, with the servers that the files name now. It starts
// nothing. A file of the operator that cannot be read is an error. A fault of a single
// entry is logged, and the other servers are used.
func New(cfg Config) (*Gateway, error) {
	client, err := json.Marshal(map[string]string{"name": "belljar", "version": cfg.Version})
	if err != nil {
		return nil, err // impossible: a map of strings can always be written
	}
	here := newSite(cfg)
	o := &offers{site: here, tenants: make(map[string]*offered)}
	grant := func(tenant string, b policies.UpstreamBox) (policies.Grant, error) {
		return cfg.Policy().Upstreams().Grant(tenant, b)
	}
	g := &Gateway{site: here, calls: &calls{site: here, offers: o}}
	o.run, o.keep = g.calls.run, g.calls.kept.wait
	g.calls.pool = upstream.NewPool(upstream.Config[*conn]{
		Starter: &starter{boxes: cfg.Boxes, command: here.command, check: here.check, grant: grant, store: cache{dir: cfg.Cache}},
		Dialer:  &dialer{site: here, offers: o, client: client},
		Changed: o.state, Wait: cmp.Or(cfg.Wait, cfg.Policy().Upstreams().Wait()),
		Grant: func(tenant string, s upstream.Server) (policies.Grant, error) {
			return grant(tenant, policies.UpstreamBox{Server: s.Name, Trusted: s.Trusted})
		},
	})
	if err := g.Reload(); err != nil {
		return nil, err
	}
	cfg.Server.AddPrompts(g.calls.prompts())
	mcp.AddRemoteResources(cfg.Server, g.calls.resources())
	return g, nil
}

// Reload reads the files again, under the policy in force. Servers whose entries are
// unchanged continue to run. After an error, everything stays as it was.
func (g *Gateway) Reload() error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	next, err := g.readSetup()
	if err != nil {
		return err
	}
	before := g.current.Load()
	for _, f := range next.faults {
		if !slices.Contains(before.faults, f) {
			g.logFault(f)
		}
	}
	g.current.Store(next)
	servers := make([]upstream.Server, 0, len(next.servers))
	for _, name := range slices.Sorted(maps.Keys(next.servers)) {
		servers = append(servers, next.servers[name].Server)
	}
	g.calls.pool.Set(servers)
	g.calls.offers.reset(before.servers)
	return nil
}

// Files returns the names of the files of servers.
func (g *Gateway) Files() []string { return g.files() }

// Gather starts the servers that the session's tenant has not seen yet, and waits for them
// as long as the policy says. The client is notified of servers that are ready later.
func (g *Gateway) Gather(ctx context.Context, s *mcp.Session) { g.calls.gather(ctx, s) }

// Begin starts the servers that the policy starts together with a session.
func (g *Gateway) Begin(ctx context.Context, s *mcp.Session) { g.calls.pool.Begin(ctx, callerOf(s)) }

// End ends the instances that run for this session only.
func (g *Gateway) End(s *mcp.Session) { g.calls.pool.End(s.Tenant(), s.ID()) }

// Restart ends all instances of a server and starts them again. It returns how many there were.
func (g *Gateway) Restart(ctx context.Context, server string) (int, error) {
	if g.setup().servers[server] == nil {
		return 0, fmt.Errorf("the server %s: %w", upstream.Line(server), upstream.ErrUnknown)
	}
	return g.calls.pool.Restart(ctx, server), nil
}

// Stop ends all instances of a server, which starts again when it is needed. It returns how
// many there were.
func (g *Gateway) Stop(server string) (int, error) {
	if g.setup().servers[server] == nil {
		return 0, fmt.Errorf("the server %s: %w", upstream.Line(server), upstream.ErrUnknown)
	}
	return g.calls.pool.Stop(server), nil
}

// Logs returns the last lines that the instances of a server have written to standard error,
// without the values of secrets.
func (g *Gateway) Logs(server string, lines int) []upstream.Log {
	return g.calls.pool.Logs(server, lines)
}

// Decided applies the decision of a person about the pins of a server immediately.
func (g *Gateway) Decided(ctx context.Context, server string) {
	for _, s := range g.calls.pool.Status() {
		// An instance that is starting may already have been compared with the old pins.
		if s.Server == server && (s.State == upstream.Held || s.State == upstream.Starting) {
			g.calls.pool.Restart(ctx, server)
			break
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		if c.server.Name == server {
			c.again()
		}
	}
}

// Close ends all servers, and waits until nothing is left of them.
func (g *Gateway) Close() {
	g.calls.pool.Close()
	g.calls.kept.close(upstream.ErrClosed)
}
