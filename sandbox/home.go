package sandbox

import (
	"errors"
	"sync"

	"belljar.dev/policies"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/protect"
)

// sharedProtector is the protector that all boxes of a workspace share.
type sharedProtector struct {
	mu        sync.Mutex
	protector *protect.Protector // one for all profiles; nil until a profile needs it
}

// protector returns the protector of the workspace for boxes of a grant, or nil if nothing
// must be protected. All profiles share one, which protects the paths of all of them. If
// there were two, each would take the changes of a command in a box of the other for the
// work of a person.
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

// held returns how each limit is enforced in boxes of the workspace.
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

// holds returns the policy that Regrant was last called with, or nil.
func (w *Workspace) holds() *policies.Policy {
	w.sup.mu.Lock()
	defer w.sup.mu.Unlock()
	return w.policy
}
