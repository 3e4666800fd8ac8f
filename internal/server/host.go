package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"belljar.dev/internal/config"
	"belljar.dev/internal/hooks"
	"belljar.dev/internal/hostexec"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/search/engine"
)

// host contains what a server uses of the machine outside of boxes: programs, secrets and
// directories of the operator, if no box could have written them.
type host struct {
	Place
	gate    *gate
	places  *places
	pass    []string            // names of further variables for programs
	audit   *ledger             // nil if no log is kept
	sandbox *sandbox.Supervisor // nil until it is open
}

// openHost makes the host, for the later steps of opening.
func (s *Server) openHost(context.Context) error {
	s.host = &host{Place: s.Place, gate: s.gate, places: s.places, pass: s.cfg.HostEnv, audit: s.audit}
	return nil
}

// boxes returns the places that boxes can write under the policy in force.
func (h *host) boxes() hostexec.Boxes {
	return config.Boxes(h.gate.now.Load(), h.places.layout.Load().all, h.State)
}

// program returns what all programs of the operator outside a box have in common. They
// begin in "/", where no box writes.
func (h *host) program() hostexec.Program {
	p := hostexec.Program{Dir: "/", Boxes: h.boxes(), Inherit: os.Environ(), Pass: h.pass}
	if h.sandbox != nil {
		p.Cgroup = h.sandbox.Cgroup()
	}
	return p
}

// secret returns the value of a secret of the policy in force.
func (h *host) secret(ctx context.Context, name string) (string, error) {
	from, ok := h.gate.now.Load().Secret(name)
	if !ok {
		return "", fmt.Errorf("secret %s: the policy has no secret with this name", name)
	}
	value, err := config.ReadSecret(ctx, name, from, h.program())
	if err == nil && h.audit != nil {
		h.audit.log.Hide(name, value)
	}
	return value, err
}

// keys returns the secrets of the policy that search engines need, by name.
func (h *host) keys(ctx context.Context, engines *engine.Set) engine.Keys {
	keys := make(engine.Keys)
	policy := h.gate.now.Load()
	for _, e := range engines.All() {
		for _, name := range e.Secrets() {
			if _, known := policy.Secret(name); !known || keys[name] != "" {
				continue
			}
			value, err := h.secret(ctx, name)
			if err != nil {
				h.Log.Warn("a search engine is not used: its secret cannot be read", "engine", e.Name, "secret", name, "err", err)
				continue
			}
			keys[name] = value
		}
	}
	return keys
}

// spool returns the directory for the storage and the output of boxes while they run. It is
// the directory of temporary files, unless an agent works there: the agent would see the
// data of other boxes.
func (h *host) spool() (string, error) {
	dir := os.TempDir()
	err := h.boxes().Check(dir)
	if err == nil {
		return dir, nil
	}
	if dir = "/tmp"; h.boxes().Check(dir) != nil {
		return "", fmt.Errorf("TMPDIR: %w; name another directory", err)
	}
	h.Log.Warn("temporary files go into /tmp and not into TMPDIR", "err", err)
	return dir, nil
}

// onlyMine reports whether no box can write a directory.
func (h *host) onlyMine(dir string) bool {
	place, _, err := config.Reached(dir, h.places.layout.Load().all, h.gate.now.Load(), func(m policies.Mount) bool { return m.Writable })
	return err == nil && place == ""
}

// hookFolder returns a folder that the command line names. The folder must exist.
func (h *host) hookFolder(dir string) (hooks.Folder, error) {
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if errors.Is(err, os.ErrNotExist) {
		return hooks.Folder{}, fmt.Errorf("hooks %s: no such folder; `belljar hook init %s` makes it", dir, dir)
	} else if err != nil {
		return hooks.Folder{}, fmt.Errorf("hooks %s: %w", dir, err)
	}
	return h.folderAt(path), nil
}

// folderAt returns the folder at a path without links. A folder in a workspace is opened
// so that no link leads out of the workspace, since an agent could make one.
func (h *host) folderAt(path string) hooks.Folder {
	for _, workspace := range h.places.layout.Load().all {
		if rel, err := filepath.Rel(workspace, path); err == nil && config.Inside(path, workspace) {
			return hooks.Folder{Dir: cmp.Or(rel, "."), Beneath: workspace}
		}
	}
	return hooks.Folder{Dir: path}
}
