package gateway

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/config"
	"belljar.dev/mcp/upstream/names"
)

// site is what all parts of a gateway share: the configuration, and the servers as the files
// have them now.
type site struct {
	cfg     Config
	current atomic.Pointer[setup]

	mu      sync.Mutex
	noticed map[names.Notice]struct{} // guarded by mu: what was logged of names
	conns   map[*conn]struct{}        // guarded by mu: those that are open
}

func newSite(cfg Config) *site {
	s := &site{cfg: cfg, noticed: make(map[names.Notice]struct{}), conns: make(map[*conn]struct{})}
	s.current.Store(&setup{})
	return s
}

// setup is all servers as they are configured now.
func (s *site) setup() *setup { return s.current.Load() }

// server returns the server that a Spec means.
func (s *site) server(spec *upstream.Spec) (*server, error) {
	if one := s.setup().servers[spec.Server.Name]; one != nil && one.ID == spec.Server.ID {
		return one, nil
	}
	return nil, errChanged
}

// own are the names of the tools of the place itself.
func (s *site) own() []string {
	all := s.cfg.Server.Tools()
	own := make([]string, len(all))
	for i, t := range all {
		own[i] = t.Name
	}
	return own
}

// logFault logs what is wrong with a file.
func (s *site) logFault(f config.Fault) {
	level := slog.LevelWarn
	if f.Level == config.Error {
		level = slog.LevelError
	}
	s.cfg.Log.Log(context.Background(), level, "upstreams", "file", f.File, "line", f.Line, "col", f.Col, "server", f.Entry, "fault", f.Message, "hint", f.Hint)
}

// maxNoticed bounds the notices that are remembered.
const maxNoticed = 4096

// notice logs what a table of names leaves out or changes, once.
func (s *site) notice(all []names.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.noticed) > maxNoticed {
		clear(s.noticed)
	}
	for _, n := range all {
		if _, known := s.noticed[n]; !known {
			s.noticed[n] = struct{}{}
			s.cfg.Log.Warn("a name of an upstream", "upstream", n.Server, "tool", n.Tool, "notice", n.Text)
		}
	}
}

// opened notes a connection that is open.
func (s *site) opened(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
}

// closed forgets a connection.
func (s *site) closed(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}
