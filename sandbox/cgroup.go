package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/procfs"
	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/limit"
)

// cgroups describes what this host lets us do with control groups. It is found by
// trying, because the mode of the hierarchy says little (a hybrid host has a v2
// tree without controllers). Each hierarchy gets one directory per supervisor,
// below the cgroup that belljar itself runs in.
//
// It does not use containerd/cgroups: docs/decisions has the reason.
type cgroups struct {
	v1     map[string]string // controller -> our directory in its v1 hierarchy
	own    map[string]string // controller -> the directory we came from
	v2     string            // our directory in the v2 tree; "" where it is not writable
	v2ctl  map[string]bool   // controllers that can be used below v2
	disk   disk              // of the workspace
	watch  bool              // the watchdog can find the processes of a box
	ooms   oomWatch
	keeper *keeper

	mu        sync.Mutex
	shares    map[string]*share // by tenant
	kept      int               // of shares without a box
	lastShare int               // for names
}

// Names of controllers.
const (
	ctlMemory = "memory"
	ctlPids   = "pids"
	ctlCPU    = "cpu"
	ctlIO     = "io" // "blkio" on v1
)

var controllers = []string{ctlMemory, ctlPids, ctlCPU, ctlIO}

// hierarchy is one mounted cgroup tree and where this process is in it.
type hierarchy struct {
	dir         string
	controllers []string // v1: those bound to it; v2: those available
	v2          bool
}

// findHierarchies reads what is mounted (proc_pid_mountinfo(5)) and where this
// process is (cgroups(7), /proc/pid/cgroup).
func findHierarchies() ([]hierarchy, error) {
	where := map[string]string{} // controller, or "" for v2 -> path
	text, err := os.ReadFile("/proc/self/cgroup")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a kernel without cgroups
	}
	if err != nil {
		return nil, fmt.Errorf("read own cgroup: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if p := strings.SplitN(strings.TrimSpace(line), ":", 3); len(p) == 3 {
			for name := range strings.SplitSeq(p[1], ",") {
				where[name] = p[2]
			}
		}
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer f.Close()
	var found []hierarchy
	for lines := bufio.NewScanner(f); lines.Scan(); {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		mount, super := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 5 || len(super) < 3 {
			continue
		}
		root, point := mount[3], mount[4]
		switch super[0] {
		case "cgroup2":
			h := hierarchy{v2: true, dir: placeIn(root, point, where[""])}
			list, _ := os.ReadFile(filepath.Join(h.dir, "cgroup.controllers"))
			h.controllers = strings.Fields(string(list))
			found = append(found, h)
		case "cgroup":
			for option := range strings.SplitSeq(super[2], ",") {
				if path, ok := where[option]; ok && option != "" {
					found = append(found, hierarchy{dir: placeIn(root, point, path), controllers: []string{option}})
				}
			}
		}
	}
	return found, nil
}

// placeIn returns the directory of the cgroup path in a hierarchy whose subtree
// root is mounted at point. In a container the path may lie outside the mounted
// subtree; placeIn then returns the mount point, the nearest directory.
func placeIn(root, point, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return point
	}
	dir := filepath.Join(point, rel)
	if _, err := os.Stat(dir); err != nil {
		return point
	}
	return dir
}

// supervisors counts those of this program.
var supervisors atomic.Int64

// newCgroups makes our directory in every hierarchy that allows it. The limits on
// disk traffic are for the disk of the workspace, which may be "".
func newCgroups(workspace string) (*cgroups, error) {
	c := &cgroups{
		v1: map[string]string{}, own: map[string]string{}, v2ctl: map[string]bool{},
		disk: diskOf(workspace), shares: map[string]*share{}, kept: keptShares,
	}
	self, err := procfs.Self()
	if err != nil {
		return nil, err
	}
	// A program may have more than one supervisor.
	name := "belljar." + self + "." + strconv.FormatInt(supervisors.Add(1), 10)
	found, err := findHierarchies()
	if err != nil {
		return nil, err
	}
	for _, h := range found {
		if h.v2 {
			c.openV2(h, name)
			continue
		}
		sweep(h.dir)
		ctl := h.controllers[0]
		if ctl == "blkio" {
			ctl = ctlIO
		}
		dir := filepath.Join(h.dir, name)
		if !slices.Contains(controllers, ctl) || os.Mkdir(dir, 0o755) != nil {
			continue
		}
		c.v1[ctl], c.own[ctl] = dir, h.dir
	}
	c.tryDisk()
	c.watch = tellsChildren("/proc/thread-self")
	if err := c.startKeeper(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// openV2 makes our directory in the v2 tree and enables the controllers. The
// directory is below the cgroup that belljar runs in, which a service manager may
// have delegated to us. If that cgroup cannot enable controllers and we are root,
// the directory is at the top of the tree instead.
func (c *cgroups) openV2(h hierarchy, name string) {
	own := h.dir
	if filepath.Base(own) == selfLeaf {
		own = filepath.Dir(own) // a supervisor of this process was here before
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
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		c.v2 = dir
		for _, ctl := range got {
			if procfs.Write(filepath.Join(dir, "cgroup.subtree_control"), "+"+ctl) == nil {
				c.v2ctl[ctl] = true
			}
		}
		return
	}
}

// available returns those of our controllers that the v2 cgroup dir has.
func available(dir string) []string {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil
	}
	have := strings.Fields(string(text))
	return slices.DeleteFunc(slices.Clone(controllers), func(ctl string) bool { return !slices.Contains(have, ctl) })
}

// selfLeaf is the cgroup that a supervisor moves itself to if it is in the way
// (see handOut). It is beside the directories of supervisors, which are killed as
// a whole. It is removed with the delegated cgroup.
const selfLeaf = "supervisor"

// handOut enables controllers for the cgroups below dir: all or none. A cgroup with
// processes accepts pids and cpu alone, but then becomes "threaded", and no box
// can run in it.
//
// A cgroup with processes cannot enable memory for those below (cgroups(7), "no
// internal processes"). If we are the only process in it, for example in a service
// of our own or in a container, we move to another cgroup.
func handOut(dir string, ctls []string) error {
	if len(ctls) == 0 {
		return nil
	}
	file, want := filepath.Join(dir, "cgroup.subtree_control"), "+"+strings.Join(ctls, " +")
	err := procfs.Write(file, want)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	leaf := filepath.Join(dir, selfLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err = procfs.Write(filepath.Join(leaf, procsFile), "0")
	if err == nil {
		if err = procfs.Write(file, want); err == nil {
			return nil
		}
		_ = procfs.Write(filepath.Join(dir, procsFile), "0")
	}
	_ = os.Remove(leaf) // stays if another supervisor is in it
	return err
}

// procsFile lists the processes of a cgroup; writing moves one in.
const procsFile = "cgroup.procs"

// mountPoint returns the top of the cgroup tree that dir is in.
func mountPoint(dir string) string {
	var st, up unix.Stat_t
	for dir != "/" {
		if unix.Stat(dir, &st) != nil || unix.Stat(filepath.Dir(dir), &up) != nil || st.Dev != up.Dev {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// sweep removes the directories of dead supervisors in dir. Usually a supervisor's
// keeper has removed them, unless it was killed too.
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
		if procfs.Alive(p[1] + "." + p[2]) {
			continue
		}
		boxinit.RemoveCgroups(filepath.Join(dir, e.Name()))
	}
}

// dirs returns all our directories.
func (c *cgroups) dirs() []string {
	var dirs []string
	for _, dir := range c.v1 {
		dirs = append(dirs, dir)
	}
	if c.v2 != "" {
		dirs = append(dirs, c.v2)
	}
	return dirs
}

// Cgroup returns the cgroup v2 directory in which a caller may make cgroups for
// programs that run outside of boxes, or "" without cgroup v2. Processes in these
// cgroups are killed when the Supervisor ends, even if it is killed.
func (s *Supervisor) Cgroup() string { return s.groups.v2 }

// close removes our directories. All boxes must be closed.
func (c *cgroups) close() error {
	c.ooms.close()
	for _, dir := range c.dirs() {
		boxinit.RemoveCgroups(dir)
	}
	return c.keeper.close()
}

// held reports how each limit is enforced in a box.
func (c *cgroups) held() limit.Enforcements {
	l := limit.Enforcements{policies.LimitMemory: limit.NotEnforced, policies.LimitPids: limit.Enforced, policies.LimitCPU: limit.NotEnforced}
	if c.watch {
		l[policies.LimitMemory] = limit.Watchdog
	}
	for ctl, name := range map[string]policies.Limit{ctlMemory: policies.LimitMemory, ctlPids: policies.LimitPids, ctlCPU: policies.LimitCPU} {
		if c.v1[ctl] != "" || c.v2ctl[ctl] {
			l[name] = limit.Enforced
		}
	}
	l[policies.LimitIO] = c.ioHeld()
	return l
}

func (c *cgroups) has(ctl string) bool { return c.v1[ctl] != "" || c.v2ctl[ctl] }

// group is the cgroups of one box.
type group struct {
	c     *cgroups
	share *share            // of the tenant; the box's directories are in its directories
	v1    map[string]string // controller -> directory
	v2    string
	init  *leaf // the cgroup v2 itself, in which the init starts
}

// open makes the cgroups of a box with the limits of its grant, below those of its
// tenant. uid is the user of the box's processes on the host.
func (c *cgroups) open(name string, grant policies.Grant, uid int) (_ *group, err error) {
	g := &group{c: c, v1: map[string]string{}}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if g.share, err = c.enter(grant.Tenant(), grant.Totals()); err != nil {
		return nil, err
	}
	if err := g.share.room(c); err != nil {
		return nil, err
	}
	l := bounds{Limits: grant.Limits(), ram: grant.Limits().Memory, disk: c.disk}
	if grant.Storage() == policies.StorageMemory {
		// Files in the box's tmpfs count as its memory. Without room for them a
		// full /tmp would look like a command that ran out of memory.
		l.ram += l.Tmp
	}
	for ctl, top := range c.v1 {
		dir := filepath.Join(top, g.share.name, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make cgroup: %w", err)
		}
		g.v1[ctl] = dir
		if err := writeLimits(dir, v1Limits(ctl, l)); err != nil {
			return nil, err
		}
	}
	if c.v2 == "" {
		return g, nil
	}
	g.v2 = filepath.Join(c.v2, g.share.name, name)
	if err := os.Mkdir(g.v2, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	for ctl := range c.v2ctl {
		if err := writeLimits(g.v2, v2Limits(ctl, l)); err != nil {
			return nil, err
		}
	}
	// The init starts in the box's own cgroup and makes it the root of its cgroup
	// namespace. A process cannot leave that root, nor put a child anywhere outside
	// of it (cgroups(7), nsdelegate, ENOENT). The init puts its children into leaves
	// below, which needs write access to cgroup.procs of both. The box's cgroup
	// enables no controllers for those below, so it may have a process.
	g.init, err = openLeaf(g.v2, uid)
	return g, err
}

// setting is one file of a cgroup. Optional ones exist only with some kernel
// options.
type setting struct {
	file, value string
	optional    bool
}

// bounds are the limits of one box's cgroups.
type bounds struct {
	policies.Limits
	ram  int64 // bytes of memory, with the files that are stored in memory
	disk disk
}

func v1Limits(ctl string, l bounds) []setting {
	switch ctl {
	case ctlMemory:
		bytes := strconv.FormatInt(l.ram, 10)
		return []setting{
			{"memory.limit_in_bytes", bytes, false},
			{"memory.memsw.limit_in_bytes", bytes, true}, // kernels without swap accounting lack it
		}
	case ctlPids:
		return []setting{{"pids.max", strconv.FormatInt(l.Pids+ownProcesses, 10), false}}
	case ctlCPU:
		return []setting{
			{"cpu.cfs_period_us", strconv.Itoa(cpuPeriod), false},
			{"cpu.cfs_quota_us", strconv.Itoa(int(l.CPU * cpuPeriod)), false},
		}
	case ctlIO:
		return l.disk.v1Limits(l.IO)
	}
	return nil
}

func v2Limits(ctl string, l bounds) []setting {
	switch ctl {
	case ctlMemory:
		return []setting{
			{"memory.max", strconv.FormatInt(l.ram, 10), false},
			{"memory.swap.max", "0", true},
		}
	case ctlPids:
		return []setting{{"pids.max", strconv.FormatInt(l.Pids+ownProcesses, 10), false}}
	case ctlCPU:
		return []setting{{"cpu.max", fmt.Sprintf("%d %d", int(l.CPU*cpuPeriod), cpuPeriod), false}}
	case ctlIO:
		return l.disk.v2Limits(l.IO)
	}
	return nil
}

const (
	cpuPeriod    = 100_000 // microseconds, the kernel's default
	ownProcesses = 16      // on top of the box's limit: the init and, without leaves, the first process of each command
)

// writeLimits writes the settings of one cgroup.
func writeLimits(dir string, settings []setting) error {
	for _, s := range settings {
		if err := procfs.Write(filepath.Join(dir, s.file), s.value); err != nil && !s.optional {
			return fmt.Errorf("set limit %s=%s: %w", s.file, s.value, err)
		}
	}
	return nil
}

// join runs start on a thread that is in the box's v1 cgroups, so that a process
// made by start begins there. Moving a thread by its own "tasks" file costs
// microseconds. Moving a process by "cgroup.procs" takes a lock that waits for all
// CPUs, usually 7 milliseconds. The caller must be on a locked thread.
func (g *group) join(start func() error) (err error) {
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
		if back := procfs.Write(filepath.Join(g.c.own[ctl], "tasks"), "0"); back != nil && err == nil {
			err = fmt.Errorf("leave cgroup %s: %w", ctl, back)
		}
	}
	return err
}

// leaf is a cgroup below that of a box, for one command at a time. It is reused if
// the command left nothing in it, because looking costs less than making a new
// one. A leaf that was killed is not reused: Linux 6.18 kills at once any process
// that CLONE_INTO_CGROUP puts into a cgroup that ever got a cgroup.kill, because
// it compares the number of kills with that of the parent's cgroup.
type leaf struct {
	path   string
	killed bool
	dir    *os.File // for CLONE_INTO_CGROUP
	events *os.File // cgroup.events
}

func (g *group) makeLeaf(name string, uid int) (*leaf, error) {
	path := filepath.Join(g.v2, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	return openLeaf(path, uid)
}

// openLeaf opens a cgroup and lets uid put processes into it.
func openLeaf(path string, uid int) (_ *leaf, err error) {
	l := &leaf{path: path}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if err := chownProcs(l.path, uid); err != nil {
		return nil, err
	}
	if l.dir, err = procfs.Open(l.path); err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	if l.events, err = procfs.Open(filepath.Join(l.path, "cgroup.events")); err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	return l, nil
}

// empty reports whether no process is in the leaf (cgroups(7), cgroup.events).
func (l *leaf) empty() bool {
	var text [128]byte
	n, err := readFirstNow(int(l.events.Fd()), text[:])
	return err == nil && strings.Contains(string(text[:n]), "populated 0")
}

// kill kills all processes in the leaf and waits until it is empty. It reports
// whether the leaf is empty before the deadline.
func (l *leaf) kill(deadline time.Time) bool {
	for wait := 50 * time.Microsecond; !l.empty(); wait = min(2*wait, 10*time.Millisecond) {
		// Again in each round: a process that was being moved in can miss one.
		l.killed = true
		_ = procfs.Write(filepath.Join(l.path, "cgroup.kill"), "1")
		if time.Now().After(deadline) {
			return false
		}
		<-time.After(wait)
	}
	return true
}

// close closes the leaf's files; the group removes its directory.
func (l *leaf) close() {
	if l == nil {
		return
	}
	if l.dir != nil {
		l.dir.Close()
	}
	if l.events != nil {
		l.events.Close()
	}
}

// resident returns the memory of all processes in the leaf, in bytes. If the box's
// memory ran out while several commands ran, the largest is ended.
func (l *leaf) resident() (held int64) {
	if l == nil {
		return 0
	}
	f, err := os.Open(filepath.Join(l.path, procsFile))
	if err != nil {
		return 0
	}
	defer f.Close()
	// A box has at most as many processes as a profile can give it.
	for lines := bufio.NewScanner(f); lines.Scan(); {
		pid, _ := strconv.Atoi(lines.Text())
		held += resident(pid)
	}
	return held
}

func chownProcs(dir string, uid int) error {
	if uid == os.Geteuid() {
		return nil
	}
	if err := os.Chown(filepath.Join(dir, procsFile), uid, -1); err != nil {
		return fmt.Errorf("hand out cgroup: %w", err)
	}
	return nil
}

// oomKills returns the number of out-of-memory kills in the box.
func (g *group) oomKills() int64 {
	switch {
	case g.v1[ctlMemory] != "":
		return counter(filepath.Join(g.v1[ctlMemory], "memory.oom_control"), "oom_kill")
	case g.c.v2ctl[ctlMemory]:
		return counter(filepath.Join(g.v2, "memory.events"), "oom_kill")
	}
	return 0
}

// counter returns the value of the "name value" line in a file, or 0 if the file
// has no such line.
func counter(file, name string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}

// close removes the box's cgroups, and with the tenant's last box those of the
// tenant. The box's processes must have been killed.
func (g *group) close() {
	g.init.close()
	for _, dir := range g.v1 {
		boxinit.RemoveCgroups(dir)
	}
	if g.v2 != "" {
		boxinit.RemoveCgroups(g.v2)
	}
	if g.share != nil {
		g.c.leave(g.share)
	}
}
