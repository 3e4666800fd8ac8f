package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"belljar.dev/internal/procfs"
	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
)

// Group is the cgroups of one box. The zero Group has no cgroups: a process that is started
// in it has no limits.
type Group struct {
	tree  *Tree
	share *share            // share of the tenant, whose directories contain those of the box
	v1    map[string]string // controller -> directory
	v2    string
	uid   int   // user of the box's processes on the host
	init  *Leaf // the box's cgroup in v2, in which the init starts; may be nil
}

// Open makes the cgroups of a box with the limits of its grant, below those of its tenant.
// The limit on disk traffic is for the disk d. uid is the user of the box's processes on
// the host. The error wraps limit.ErrTooMany if the tenant's boxes have all of the
// processes that the tenant may have. The caller must Close the Group.
func (t *Tree) Open(name string, grant policies.Grant, uid int, d Disk) (_ *Group, err error) {
	g := &Group{tree: t, uid: uid, v1: map[string]string{}}
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	if g.share, err = t.enter(grant.Tenant(), grant.Totals()); err != nil {
		return nil, err
	}
	if err := g.share.room(t); err != nil {
		return nil, err
	}
	l := bounds{BoxLimits: grant.Limits().BoxLimits, ram: grant.Limits().Memory, disk: d}
	// Files in a tmpfs of the box count as its memory. Without room for them a full tmpfs
	// would look like a command that ran out of memory.
	l.ram += grant.Downloads()
	if grant.Storage() == policies.StorageMemory {
		l.ram += l.Tmp
	}
	for ctl, top := range t.v1 {
		dir := filepath.Join(top, g.share.name, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make cgroup: %w", err)
		}
		g.v1[ctl] = dir
		if err := writeLimits(dir, v1Limits(ctl, l)); err != nil {
			return nil, err
		}
	}
	if t.v2 == "" {
		return g, nil
	}
	g.v2 = filepath.Join(t.v2, g.share.name, name)
	if err := os.Mkdir(g.v2, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	for ctl := range t.v2ctl {
		if err := writeLimits(g.v2, v2Limits(ctl, l)); err != nil {
			return nil, err
		}
	}
	// The init starts in the box's own cgroup and makes it the root of its cgroup
	// namespace. A process cannot leave that root, nor put a child anywhere outside of it
	// (cgroups(7), nsdelegate, ENOENT). The init puts its children into leaves below, which
	// needs write access to cgroup.procs of both. The box's cgroup enables no controllers
	// for the leaves, so it may contain a process.
	g.init, err = openLeaf(g.v2, uid)
	return g, err
}

// Start runs start on a thread that is in the box's v1 cgroups, so that a process
// made by start begins there. Moving a thread by its own "tasks" file costs
// microseconds. Moving a process by "cgroup.procs" takes a lock that waits for all
// CPUs, usually 7 milliseconds. The caller must be on a locked thread.
func (g *Group) Start(start func() error) (err error) {
	for ctl, dir := range g.v1 {
		if err = procfs.Write(filepath.Join(dir, "tasks"), "0"); err != nil {
			err = fmt.Errorf("join cgroup %s: %w", ctl, err)
			break
		}
	}
	if err == nil {
		err = start()
	}
	for ctl := range g.v1 {
		if back := procfs.Write(filepath.Join(g.tree.own[ctl], "tasks"), "0"); back != nil && err == nil {
			err = fmt.Errorf("leave cgroup %s: %w", ctl, back)
		}
	}
	return err
}

// Close removes the box's cgroups with all leaves and, with the tenant's last box, the
// tenant's cgroups. The box's processes must have been killed, and its leaves must be
// closed. It must be called once, and not on the zero Group.
func (g *Group) Close() {
	g.init.Close()
	for _, dir := range g.v1 {
		boxinit.RemoveCgroups(dir)
	}
	if g.v2 != "" {
		boxinit.RemoveCgroups(g.v2)
	}
	if g.share != nil {
		g.tree.leave(g.share)
	}
}

// Leaves reports whether each command can have a cgroup of its own.
func (g *Group) Leaves() bool { return g.v2 != "" }

// InitFD returns a descriptor of the cgroup in which the box's init must start (clone3(2),
// CLONE_INTO_CGROUP), or -1. It is valid until Close.
func (g *Group) InitFD() int {
	if g.init == nil {
		return -1
	}
	return g.init.FD()
}

// Room returns an error that wraps limit.ErrTooMany if the tenant's boxes have all of
// the processes that the tenant may have, so that no init could be started.
func (g *Group) Room() error { return g.share.room(g.tree) }

// Memory returns how many bytes of the box are in memory: those of its processes, and those of
// its files in memory (tmpfs), also if no process is left. The kernel's cache of other files
// does not count. It reports false if no controller counts the bytes.
func (g *Group) Memory() (bytes int64, counted bool) {
	switch {
	case g.v1[ctlMemory] != "":
		file := filepath.Join(g.v1[ctlMemory], "memory.stat")
		return counter(file, "total_rss") + counter(file, "total_shmem"), true
	case g.v2 != "" && g.tree.v2ctl[ctlMemory]:
		file := filepath.Join(g.v2, "memory.stat")
		return counter(file, "anon") + counter(file, "shmem"), true
	}
	return 0, false
}

// CPU returns the processor time of everything that has run in the box. It reports false if
// no cgroup counts it; a cgroup of version 2 always does.
func (g *Group) CPU() (spent time.Duration, counted bool) {
	if g.v2 != "" {
		us := counter(filepath.Join(g.v2, "cpu.stat"), "usage_usec")
		return time.Duration(us) * time.Microsecond, us > 0
	}
	return 0, false
}

// Processes returns how many processes and threads are in the box. It reports false if no
// controller counts them.
func (g *Group) Processes() (n int64, counted bool) {
	dir := g.v1[ctlPids]
	if g.v2 != "" && g.tree.v2ctl[ctlPids] {
		dir = g.v2
	}
	n, err := strconv.ParseInt(word(filepath.Join(dir, "pids.current")), 10, 64)
	return n, err == nil && dir != ""
}

// OOMKills returns the number of out-of-memory kills in the box.
func (g *Group) OOMKills() int64 {
	switch {
	case g.v1[ctlMemory] != "":
		return counter(filepath.Join(g.v1[ctlMemory], "memory.oom_control"), "oom_kill")
	case g.tree.v2ctl[ctlMemory]:
		return counter(filepath.Join(g.v2, "memory.events"), "oom_kill")
	}
	return 0
}
