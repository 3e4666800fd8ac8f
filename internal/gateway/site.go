package gateway

import (
	"sync"
	"sync/atomic"

	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/config"
	"belljar.dev/mcp/upstream/names"
)

// site is what all parts of a gateway share: the configuration, and the servers as the
// files define them now.
type site struct {
	cfg     Config
	current atomic.Pointer[setup]

	programs digests // digests of the programs that servers run

	mu      sync.Mutex
	noticed map[names.Notice]struct{} // guarded by mu: notices that were logged
	conns   map[*conn]struct{}        // guarded by mu: open connections
}

func newSite(cfg Config) *site {
	g := &site{cfg: cfg, noticed: make(map[names.Notice]struct{}), conns: make(map[*conn]struct{})}
	g.current.Store(&setup{})
	return g
}

// setup returns all servers as they are configured now.
func (g *site) setup() *setup { return g.current.Load() }

// server returns the server that a Spec means.
func (g *site) server(spec *upstream.Spec) (*server, error) {
	if one := g.setup().servers[spec.Server.Name]; one != nil && one.ID == spec.Server.ID {
		return one, nil
	}
	return nil, errChanged
}

// own returns the names of the place's own tools.
func (g *site) own() []string {
	all := g.cfg.Server.Tools()
	own := make([]string, len(all))
	for i, t := range all {
		own[i] = t.Name
	}
	return own
}

// logFault logs what is wrong with a file.
func (g *site) logFault(f config.Fault) {
	log := g.cfg.Log.Warn
	if f.Level == config.Error {
		log = g.cfg.Log.Error
	}
	log("upstreams", "file", f.File, "line", f.Line, "col", f.Col, "server", f.Entry, "fault", f.Message, "hint", f.Hint)
}

// maxNoticed bounds the number of remembered notices.
const maxNoticed = 4096

// notice logs once what a table of names leaves out or changes.
func (g *site) notice(all []names.Notice) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.noticed) > maxNoticed {
		clear(g.noticed)
	}
	for _, n := range all {
		if _, known := g.noticed[n]; !known {
			g.noticed[n] = struct{}{}
			g.cfg.Log.Warn("a name of an upstream", "upstream", n.Server, "tool", n.Tool, "notice", n.Text)
		}
	}
}

// add records an open connection.
func (g *site) add(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns[c] = struct{}{}
}

// remove forgets a connection.
func (g *site) remove(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
}
