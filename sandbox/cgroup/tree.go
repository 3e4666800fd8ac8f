package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"belljar.dev/internal/claim"
	"belljar.dev/internal/procfs"
	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/limit"
)

// Tree is one supervisor's part of this host's control groups. What it can use is found out
// by trying, because the mode of the hierarchy says little (a hybrid host has a v2 tree
// without controllers). Each hierarchy gets one directory per supervisor, below the cgroup
// that belljar itself runs in.
//
// It does not use containerd/cgroups: docs/decisions has the reason.
type Tree struct {
	v1     map[string]string // controller -> our directory in its v1 hierarchy
	own    map[string]string // controller -> the directory we came from
	v2     string            // our directory in the v2 tree; "" if it is not writable
	v2ctl  map[string]bool   // controllers that can be used below v2
	scope  Scope             // result of asking systemd for a cgroup
	watch  bool              // the watchdog can find the processes of a box
	ooms   oomWatch
	keeper *keeper
	claims []*os.File // our directories, open and locked

	mu        sync.Mutex
	shares    map[string]*share // shares by tenant
	kept      int               // number of shares without a box that are kept
	lastShare int               // number of the last share, for names
}

// Names of controllers.
const (
	ctlMemory = "memory"
	ctlPids   = "pids"
	ctlCPU    = "cpu"
	ctlIO     = "io" // "blkio" on v1
)

var controllers = []string{ctlMemory, ctlPids, ctlCPU, ctlIO}

// supervisors counts the supervisors of this program.
var supervisors atomic.Int64

// New makes a directory in every hierarchy that allows it. The caller must Close
// the Tree. If the program is killed, another process of it, the keeper, removes
// the directories with all that is in them.
func New() (*Tree, error) {
	t := &Tree{
		v1: map[string]string{}, own: map[string]string{}, v2ctl: map[string]bool{},
		shares: map[string]*share{}, kept: keptShares,
	}
	self, err := claim.Process()
	if err != nil {
		return nil, err
	}
	// A program may have more than one supervisor.
	name := "belljar." + self + "." + strconv.FormatInt(supervisors.Add(1), 10)
	found, err := findHierarchies()
	if err != nil {
		return nil, err
	}
	t.open(found, name)
	t.watch = listsChildren("/proc/thread-self")
	if t.keeper, err = startKeeper(t.dirs()); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// open makes our directory in every hierarchy that allows it. The tree of version 2 may be
// mounted more than once. It is still one tree, so the first mount with our directory is
// enough.
func (t *Tree) open(found []hierarchy, name string) {
	for _, h := range found {
		if h.v2 {
			if t.v2 == "" {
				t.openV2(h, name)
				t.widen(h, name)
			}
			continue
		}
		sweep(h.dir)
		ctl := h.controllers[0]
		if ctl == "blkio" {
			ctl = ctlIO
		}
		dir := filepath.Join(h.dir, name)
		if !slices.Contains(controllers, ctl) || !t.claim(dir) {
			continue
		}
		t.v1[ctl], t.own[ctl] = dir, h.dir
	}
}

// openV2 makes our directory in the v2 tree and enables the controllers. The
// directory is below the cgroup that belljar runs in, which a service manager may
// have delegated to us. If that cgroup cannot enable controllers and we are root,
// the directory is at the top of the tree instead.
func (t *Tree) openV2(h hierarchy, name string) {
	own := h.dir
	if filepath.Base(own) == selfLeaf {
		own = filepath.Dir(own) // an earlier supervisor of this process moved it here
	}
	tops := []string{own}
	if os.Geteuid() == 0 {
		if point := mountPoint(own); point != own {
			tops = append(tops, point)
		}
	}
	most := 0
	for _, top := range tops {
		most = max(most, len(available(top)))
	}
	for i, top := range tops {
		got := available(top)
		last := i+1 == len(tops)
		if len(got) < most && !last {
			continue
		}
		if err := handOut(top, got); err != nil {
			if !last {
				continue
			}
			got = nil
		}
		sweep(top)
		dir := filepath.Join(top, name)
		if !t.claim(dir) {
			continue
		}
		t.v2 = dir
		for _, ctl := range got {
			if procfs.Write(filepath.Join(dir, "cgroup.subtree_control"), "+"+ctl) == nil {
				t.v2ctl[ctl] = true
			}
		}
		return
	}
}

// claim makes a directory that no sweep takes for the directory of a dead supervisor.
func (t *Tree) claim(dir string) bool {
	f, err := claim.Make(dir, 0o755)
	if err == nil {
		t.claims = append(t.claims, f)
	}
	return err == nil
}

// sweep removes the directories of dead supervisors in dir. Usually a supervisor's keeper
// has removed them, unless it was killed too. A live supervisor may be in another PID
// namespace, for example in a container that sees these cgroups.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		p := strings.Split(e.Name(), ".")
		if len(p) != 4 || p[0] != "belljar" {
			continue
		}
		if claim.Runs(p[1] + "." + p[2]) {
			continue
		}
		left := filepath.Join(dir, e.Name())
		if f, yes := claim.Abandoned(left); yes {
			boxinit.RemoveCgroups(left)
			f.Close()
		}
	}
}

// dirs returns all our directories.
func (t *Tree) dirs() []string {
	var dirs []string
	for _, dir := range t.v1 {
		dirs = append(dirs, dir)
	}
	if t.v2 != "" {
		dirs = append(dirs, t.v2)
	}
	return dirs
}

// Close kills the processes that are left in the tree, removes its directories, and waits
// for both. All groups must be closed. It must be called once.
func (t *Tree) Close() error {
	t.ooms.close()
	for _, dir := range t.dirs() {
		boxinit.RemoveCgroups(dir)
	}
	for _, f := range t.claims {
		f.Close()
	}
	return t.keeper.close()
}

// Enforcements returns how each limit is enforced in a group whose traffic is limited on
// the disk d. Without a controller for processes, the caller must set RLIMIT_NPROC to
// Processes. Without a controller for memory, the caller must end the command that
// Overweight finds.
func (t *Tree) Enforcements(d Disk) limit.Enforcements {
	l := limit.Enforcements{policies.LimitMemory: limit.NotEnforced, policies.LimitPids: limit.Enforced, policies.LimitCPU: limit.NotEnforced}
	if t.watch {
		l[policies.LimitMemory] = limit.Watchdog
	}
	for ctl, name := range map[string]policies.Limit{ctlMemory: policies.LimitMemory, ctlPids: policies.LimitPids, ctlCPU: policies.LimitCPU} {
		if t.has(ctl) {
			l[name] = limit.Enforced
		}
	}
	l[policies.LimitIO] = t.ioHeld(d)
	return l
}

// Dir returns the directory in the tree of version 2, or "" if none is writable. A caller
// may make cgroups in it for programs that run outside of boxes.
func (t *Tree) Dir() string { return t.v2 }

// Version returns the version of the hierarchy, 1 or 2, whose controller enforces a limit,
// or 0 if no controller enforces it. The controllers have the names of the limits.
func (t *Tree) Version(l policies.Limit) int {
	switch {
	case t.v1[string(l)] != "":
		return 1
	case t.v2ctl[string(l)]:
		return 2
	}
	return 0
}

func (t *Tree) has(ctl string) bool { return t.v1[ctl] != "" || t.v2ctl[ctl] }

// DiskOf returns the disk of a directory, which may be "". It returns the zero Disk if the
// io controllers refuse the disk: some disks have no queue to throttle.
func (t *Tree) DiskOf(dir string) Disk {
	d := diskOf(dir)
	tries := map[string][]setting{t.v1[ctlIO]: d.v1Limits(0)}
	if t.v2ctl[ctlIO] {
		tries = map[string][]setting{t.v2: {{"io.max", d.number + " rbps=max wbps=max", false}}}
	}
	for dir, settings := range tries {
		if dir == "" || d.number == "" || writeLimits(dir, settings) != nil {
			return Disk{}
		}
	}
	return d
}

// ioHeld returns how io on a disk is limited. On v1, and on v2 without cgroup writeback,
// writes through the page cache are counted for the kernel and are not limited; reads and
// direct writes are.
func (t *Tree) ioHeld(d Disk) limit.Enforcement {
	switch {
	case d.number == "" || !t.has(ctlIO):
		return limit.NotEnforced
	case t.v2ctl[ctlIO] && t.v2ctl[ctlMemory] && d.writeback:
		return limit.Enforced
	}
	return limit.Partly
}
