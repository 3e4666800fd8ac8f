package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// groupsTop is the directory where control groups are mounted.
const groupsTop = "/sys/fs/cgroup"

// trees1 are the hierarchies of version 1 that systemd mounts. The two controllers that
// measure CPU time share one hierarchy, and one hierarchy has no controller but a name.
var trees1 = []string{"memory", "pids", "cpu,cpuacct", "blkio", "freezer", "devices", "cpuset", "name=systemd"}

// controllers2 are the controllers that each cgroup of version 2 with children enables for
// the children.
var controllers2 = []string{"cpu", "io", "memory", "pids"}

// tree is a mounted hierarchy.
type tree struct {
	dir         string
	v2          bool
	controllers []string // controllers that are enabled for children; version 2 only
	cpuset      bool     // CPUs must be set in a cgroup before a process can enter it
}

// makeGroups mounts the control groups that the order names, and makes a cgroup of a
// service in each tree, as a service manager does. The cgroup may be delegated to a user
// (cgroups(7), "Delegation"). In trees of version 1 this process enters the cgroup, and so
// does the test that it starts. In version 2 only the test may enter the cgroup, or the
// cgroup could not enable controllers: makeGroups returns its path, and the caller starts
// the test in it.
func makeGroups(w *order) (string, error) {
	trees, err := mountGroups(w.Groups)
	if err != nil {
		return "", err
	}
	group := ""
	for _, t := range trees {
		scope, err := t.make(w)
		if err != nil {
			return "", err
		}
		if t.v2 {
			group = scope
		} else if err := os.WriteFile(filepath.Join(scope, "cgroup.procs"), []byte("0"), 0); err != nil {
			return "", fmt.Errorf("enter cgroup: %w", err)
		}
	}
	return group, nil
}

func mountGroups(kind string) ([]tree, error) {
	const options2 = "nsdelegate,memory_recursiveprot"
	if kind == groupsV2 {
		return []tree{{dir: groupsTop, v2: true, controllers: controllers2}}, mountAll(mount{"cgroup", groupsTop, "cgroup2", 0, options2})
	}
	if err := mountAll(mount{"cgroup", groupsTop, "tmpfs", 0, "mode=755"}); err != nil {
		return nil, err
	}
	var trees []tree
	for _, name := range trees1 {
		options := name
		if strings.HasPrefix(name, "name=") {
			options = "none," + name
		}
		dir := filepath.Join(groupsTop, strings.TrimPrefix(name, "name="))
		if err := mountAll(mount{"cgroup", dir, "cgroup", 0, options}); err != nil {
			return nil, err
		}
		trees = append(trees, tree{dir: dir, cpuset: name == "cpuset"})
		if strings.Contains(name, ",") {
			for link := range strings.SplitSeq(name, ",") {
				if err := os.Symlink(name, filepath.Join(groupsTop, link)); err != nil {
					return nil, err
				}
			}
		}
	}
	if kind == groupsHybrid {
		// The trees of version 1 use the controllers, so this tree cannot enable any.
		dir := filepath.Join(groupsTop, "unified")
		if err := mountAll(mount{"cgroup", dir, "cgroup2", 0, "nsdelegate"}); err != nil {
			return nil, err
		}
		trees = append(trees, tree{dir: dir, v2: true})
	}
	return trees, nil
}

// make makes the cgroup of the test and returns its path.
func (t tree) make(w *order) (string, error) {
	scope := t.dir
	for _, name := range []string{"test.slice", "test.scope"} {
		if len(t.controllers) > 0 {
			want := "+" + strings.Join(t.controllers, " +")
			if err := os.WriteFile(filepath.Join(scope, "cgroup.subtree_control"), []byte(want), 0); err != nil {
				return "", fmt.Errorf("hand out controllers: %w", err)
			}
		}
		parent := scope
		scope = filepath.Join(scope, name)
		if err := os.Mkdir(scope, 0o755); err != nil { //nolint:gosec // cgroups have no secrets
			return "", err
		}
		if t.cpuset {
			if err := inherit(parent, scope, "cpuset.cpus", "cpuset.mems"); err != nil {
				return "", err
			}
		}
	}
	if !w.Delegated {
		return scope, nil
	}
	names := []string{"", "cgroup.procs", "tasks"}
	if t.v2 {
		names = []string{"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"}
	}
	for _, name := range names {
		if err := os.Chown(filepath.Join(scope, name), w.User, w.User); err != nil {
			return "", err
		}
	}
	return scope, nil
}

// inherit copies the parent's settings to a new cgroup (cpusets(7)).
func inherit(parent, child string, names ...string) error {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(child, name), text, 0); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}
