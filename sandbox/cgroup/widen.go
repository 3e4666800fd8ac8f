package cgroup

import (
	"context"
	"os"
	"slices"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/scope"
)

// Scope is the result of asking the user's service manager for a cgroup. The zero Scope
// means that the manager was not asked, because nothing was missing or it cannot help.
type Scope struct {
	Name    string   // name of the unit that this process is in; "" if it is in none
	Err     error    // why this process is in no unit
	Missing []string // controllers that the host has, but not the cgroup of this process
}

// Scope returns the result of asking the service manager for a cgroup.
func (t *Tree) Scope() Scope { return t.scope }

// widen moves this process to a cgroup with all controllers of the v2 tree, if the
// directory that openV2 made lacks some, and makes the directory there. Without an answer,
// nothing changes. Root does not need this, because root can make cgroups at the top of the
// tree.
func (t *Tree) widen(h hierarchy, name string) {
	if os.Geteuid() == 0 {
		return
	}
	missing := t.missing(h)
	if t.v2 != "" && len(missing) == 0 {
		return
	}
	unit, err := scope.Enter(context.Background()) //nolint:forbidigo // bounded, and whoever prepares the first box has no context
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

// missing returns the controllers that the v2 tree has and our directory lacks, except the
// controller of the disk, which systemd gives to no user.
func (t *Tree) missing(h hierarchy) (names []string) {
	for _, ctl := range available(mountPoint(h.dir)) {
		if ctl != ctlIO && !t.v2ctl[ctl] {
			names = append(names, ctl)
		}
	}
	return names
}

// leaveV2 undoes openV2.
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
