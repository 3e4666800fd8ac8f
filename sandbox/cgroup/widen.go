package cgroup

import (
	"context"
	"os"
	"slices"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/scope"
)

// Scope is the result of asking the user's service manager for a cgroup. The zero Scope
// means that none was wanted: belljar is root, no controller is missing, or the host has no
// v2 tree. If Err wraps [scope.ErrService] or [scope.ErrContainer], a cgroup was wanted and
// the manager was not asked.
type Scope struct {
	Name    string   // name of the scope that belljar asked for and is in; "" if it is not in one
	Err     error    // why it is not in one, or why the cgroup of its scope was not found
	Missing []string // controllers of the v2 tree, except io, that cannot be used for boxes
}

// Scope returns the result of asking the service manager for a cgroup.
func (t *Tree) Scope() Scope { return t.scope }

// widen moves this process to a scope of the user's service manager, which usually has more
// controllers, if the directory that openV2 made lacks some. It then makes the directory
// there. If Enter fails, the directory stays where it is. Root does not need this, because
// root can make cgroups at the top of the tree.
func (t *Tree) widen(h hierarchy, name string) {
	if os.Geteuid() == 0 {
		return
	}
	missing := t.missing(h)
	if t.v2 != "" && len(missing) == 0 {
		return
	}
	// Once for all callers of the supervisor, so the context of none of them may end it.
	unit, err := scope.Enter(context.Background()) //nolint:forbidigo // bounded by the package scope
	t.scope = Scope{Name: unit, Err: err, Missing: missing}
	if err != nil {
		return
	}
	found, err := findHierarchies()
	if err != nil {
		t.scope.Err = err
		return
	}
	i := slices.IndexFunc(found, func(h hierarchy) bool { return h.v2 })
	if i < 0 {
		return
	}
	t.leaveV2()
	t.openV2(found[i], name)
	t.scope.Missing = t.missing(found[i])
}

// missing returns the controllers that the v2 tree has and that our directory cannot use,
// except the controller of the disk: systemd gives it to no user unless the operator adds it
// (docs/hosts.md).
func (t *Tree) missing(h hierarchy) (names []string) {
	for _, ctl := range available(mountPoint(h.dir)) {
		if ctl != ctlIO && !t.v2ctl[ctl] {
			names = append(names, ctl)
		}
	}
	return names
}

// leaveV2 removes the directory that openV2 made. The cgroup above it stays as handOut left
// it.
func (t *Tree) leaveV2() {
	if t.v2 == "" {
		return
	}
	boxinit.RemoveCgroups(t.v2)
	last := len(t.claims) - 1 // openV2 claims only one directory, and nothing was claimed after it
	t.claims[last].Close()
	t.claims = t.claims[:last]
	t.v2 = ""
	clear(t.v2ctl)
}
