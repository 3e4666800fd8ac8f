package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"belljar.dev/policies"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/protect"
)

// Workspace is a directory of the host that boxes see as /workspace. A supervisor may
// have any number of them, and each box belongs to one. Its methods are safe for
// concurrent use. It has nothing to close: it ends with its supervisor.
type Workspace struct {
	sup      *Supervisor
	dir      string // absolute; empty where boxes have no workspace
	guarding sharedProtector
	disk     func() cgroup.Disk // that of the directory; asked for after Prepare

	policy *policies.Policy // that Regrant was last called with, or nil; guarded by the supervisor's mu
}

// sharedProtector is the protector of a workspace.
type sharedProtector struct {
	mu        sync.Mutex
	protector *protect.Protector // for all profiles; nil until one needs it
}

// maxWorkspaces bounds the workspaces of a supervisor: it keeps each until its end.
const maxWorkspaces = 16384

// Workspace returns the workspace of a directory, which must exist. It is the same one
// for every call with that directory: two would each take for a person's work what
// commands in a box of the other have made. A directory has one name here, so the
// caller resolves symbolic links first.
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

// Dir is the directory.
func (w *Workspace) Dir() string { return w.dir }

// Open makes a box of the workspace with what g grants. The id is the caller's name for
// it and must not be in use in the whole supervisor. Open fails if the host cannot
// enforce what the grant requires, and with limit.ErrTooMany if Config.Boxes boxes are
// open. The caller must Close the Box.
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
	b.open = true // from here on Regrant finds it
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

// held says how each limit is held in boxes of the workspace.
func (w *Workspace) held() limit.Enforcements {
	l := w.sup.groups.Enforcements(w.disk())
	l[policies.LimitDisk] = w.sup.ground.disk
	return l
}

// heldFor is held for a grant: a tmpfs always enforces its size.
func (w *Workspace) heldFor(g policies.Grant) limit.Enforcements {
	l := w.held()
	if g.Storage() == policies.StorageMemory {
		l[policies.LimitDisk] = limit.Enforced
	}
	return l
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

// holds is the policy that Regrant was last called with, or nil.
func (w *Workspace) holds() *policies.Policy {
	w.sup.mu.Lock()
	defer w.sup.mu.Unlock()
	return w.policy
}

// protector returns the protector of the workspace for boxes of a grant, or nil if
// nothing must be protected. All profiles share one, which protects the paths of
// all of them: with two, each would take for a person's work what a command in a
// box of the other made.
func (w *Workspace) protector(g policies.Grant) (*protect.Protector, error) {
	if g.Workspace() != policies.AccessWrite || g.Protect().Off {
		return nil, nil //nolint:nilnil // documented
	}
	also := g.Protect().Also
	w.guarding.mu.Lock()
	defer w.guarding.mu.Unlock()
	if w.guarding.protector != nil {
		return w.guarding.protector, w.guarding.protector.Add(also)
	}
	log := w.sup.cfg.Log
	p, err := protect.Open(protect.Config{
		Workspace: w.dir,
		State:     w.sup.cfg.State,
		Also:      also,
		Report: func(r protect.Reverted) {
			log.Warn("a command changed a protected path of the workspace", "path", r.Path, "done", r.What)
		},
	})
	if unreadable, ok := errors.AsType[*protect.Unreadable](err); ok {
		return nil, &limit.Refusal{Message: unreadable.Error(), Err: unreadable.Err}
	}
	if err != nil {
		return nil, err
	}
	for _, remark := range p.Remarks() {
		log.Warn("workspace", "remark", remark)
	}
	w.guarding.protector = p
	return p, nil
}
