package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"belljar.dev/policies"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/limit"
)

// Workspace is a directory of the host that boxes see as /workspace. A supervisor may
// have any number of them, and each box belongs to one. Its methods are safe for
// concurrent use. It ends with its supervisor, or before that by Close.
type Workspace struct {
	sup      *Supervisor
	dir      string // absolute path; empty if boxes have no workspace
	guarding sharedProtector
	disk     func() cgroup.Disk // disk of the directory; called only after Prepare

	policy *policies.Policy // policy of the last Regrant, or nil; guarded by the supervisor's mu
}

// maxWorkspaces bounds the workspaces of a supervisor, which keeps each one until it is
// closed.
const maxWorkspaces = 16384

// Workspace returns the workspace of a directory, which must exist. All calls with the same
// directory return the same Workspace. If there were two, each would mistake the files that
// commands made in a box of the other for a person's work. A directory has one name here,
// so the caller must resolve symbolic links first.
func (s *Supervisor) Workspace(dir string) (*Workspace, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find workspace: %w", err)
	}
	info, err := os.Stat(abs)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open workspace %s: it is not a directory", abs)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.known.workspaces[abs]
	switch {
	case w != nil:
		return w, nil
	case s.known.closed:
		return nil, fmt.Errorf("open workspace %s: %w", abs, ErrClosed)
	case len(s.known.workspaces) >= maxWorkspaces:
		return nil, fmt.Errorf("open workspace %s: %d are open: %w", abs, len(s.known.workspaces), limit.ErrTooMany)
	}
	w = newWorkspace(s, abs)
	s.known.workspaces[abs] = w
	return w, nil
}

func newWorkspace(s *Supervisor, dir string) *Workspace {
	w := &Workspace{sup: s, dir: dir}
	w.disk = sync.OnceValue(func() cgroup.Disk { return s.groups.DiskOf(dir) })
	return w
}

// Close ends a workspace whose boxes are closed. The caller must close the workspace before
// it removes the directory. Close fails while a box is open. After Close, the same path
// gives another Workspace. Close may be called twice.
func (w *Workspace) Close() error {
	w.sup.mu.Lock()
	for _, b := range w.sup.known.boxes {
		if b.home == w {
			w.sup.mu.Unlock()
			return fmt.Errorf("close workspace %s: box %s is open", w.dir, b.id)
		}
	}
	if w.sup.known.workspaces[w.dir] == w {
		delete(w.sup.known.workspaces, w.dir)
	}
	w.sup.mu.Unlock()
	w.guarding.mu.Lock()
	defer w.guarding.mu.Unlock()
	p := w.guarding.protector
	w.guarding.protector = nil
	if p == nil {
		return nil
	}
	return p.Close()
}

// Dir returns the directory of the workspace.
func (w *Workspace) Dir() string { return w.dir }

// Open makes a box of the workspace with what g grants. The id is the caller's name for the
// box and must not be in use in the whole supervisor. Open fails if the host cannot enforce
// what the grant requires, and with limit.ErrTooMany if Config.Boxes boxes are open. The
// caller must Close the Box.
func (w *Workspace) Open(ctx context.Context, id string, g policies.Grant) (*Box, error) {
	s := w.sup
	if err := s.Prepare(); err != nil {
		return nil, fmt.Errorf("open box %s: %w", id, err)
	}
	if err := w.admit(g); err != nil {
		return nil, err
	}
	b, name, uid, err := s.reserve(id, g, w)
	if err != nil {
		return nil, err
	}
	defer s.known.opening.Done()
	if err := b.start(ctx, name, uid); err != nil {
		s.forget(id)
		return nil, err
	}
	s.mu.Lock()
	b.open = true // from now on Regrant finds the box
	s.mu.Unlock()
	b.regrant(ctx) // Regrant may have been called after the grant was decided
	return b, nil
}

// admit refuses grants that this host cannot honour.
func (w *Workspace) admit(g policies.Grant) error {
	if g.IsZero() {
		return &limit.Refusal{Message: "the call has no grant; ask the operator for a policy that allows it"}
	}
	if name := g.Limits().Unset(); name != "" {
		return &limit.Refusal{Message: fmt.Sprintf("profile %q has no limit %q above zero; set one in the policy", g.Profile(), name)}
	}
	if g.Exec() == policies.ExecEnforce {
		if err := execSupport().err; err != nil {
			return refuseExec(g.Profile(), err)
		}
	}
	held := w.heldFor(g)
	for _, r := range g.Require() {
		if held[r] != limit.Enforced {
			return &limit.Refusal{Message: fmt.Sprintf(
				"profile %q requires the %s limit to be enforced, and this host only offers %q; run \"belljar doctor\" for how to fix it",
				g.Profile(), r, held[r])}
		}
	}
	if g.Workspace() != policies.AccessNone && w.dir == "" {
		return &limit.Refusal{Message: fmt.Sprintf("profile %q needs a workspace and none was given; start belljar with --workspace", g.Profile())}
	}
	return nil
}

// Boxes returns the open boxes of the workspace, sorted by id.
func (w *Workspace) Boxes() []*Box {
	return slices.DeleteFunc(w.sup.Boxes(), func(b *Box) bool { return b.home != w })
}

// Regrant gives the boxes of the workspace, and those that are opened later, the egress
// and the published ports that their tenants and profiles have under another policy.
// Open connections continue as they were allowed. A box lets nothing out any more
// if its profile was removed, or changed in a way that a running box cannot take
// over.
func (w *Workspace) Regrant(ctx context.Context, p *policies.Policy) {
	w.sup.mu.Lock()
	w.policy = p
	w.sup.mu.Unlock()
	for _, b := range w.Boxes() {
		b.regrant(ctx)
	}
}

// StartDir returns what Box.StartDir would return for a box with this grant that was opened
// now.
func (w *Workspace) StartDir(g policies.Grant) string {
	return startDir(g, w.sup.runtimeOf(g))
}

// Prepare makes what all boxes need: control groups, filters of system calls, and the
// process and the threads that start boxes. Open calls Prepare first, so a caller needs it
// only to get an error before the first box, or to open the first box sooner. Prepare may
// be called twice and concurrently; every caller waits.
func (s *Supervisor) Prepare() error { return s.prepare() }

// reserve enters a box into the table, so that the box counts and has its name while it is
// being made. It returns the name of the box's cgroups and the user of its processes on the
// host.
func (s *Supervisor) reserve(id string, g policies.Grant, w *Workspace) (b *Box, name string, uid int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.known.closed:
		return nil, "", 0, fmt.Errorf("open box %s: %w", id, ErrClosed)
	case s.known.boxes[id] != nil:
		return nil, "", 0, fmt.Errorf("open box %s: the name is in use", id)
	case len(s.known.boxes) >= s.cfg.Boxes:
		return nil, "", 0, fmt.Errorf("open box %s: %d boxes are open: %w", id, len(s.known.boxes), limit.ErrTooMany)
	}
	if err := s.known.room(g); err != nil {
		return nil, "", 0, err
	}
	uid = os.Geteuid()
	if s.root {
		if uid, err = s.known.user(g.Tenant()); err != nil {
			return nil, "", 0, err
		}
	}
	s.known.count++
	b = newBox(w, id, g)
	s.known.boxes[id] = b
	s.known.opening.Add(1)
	return b, "box-" + strconv.Itoa(s.known.count), uid, nil
}
