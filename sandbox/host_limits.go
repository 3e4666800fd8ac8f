package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/hostexec"
	"belljar.dev/internal/procfs"
	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/limit"
)

// unheld says what a box can still do if a limit is enforced in part or not at all.
var unheld = map[policies.Limit]map[limit.Enforcement]string{
	policies.LimitMemory: {
		limit.Watchdog:    "memory is sampled 20 times a second, so a fast command can exceed its limit for a moment",
		limit.NotEnforced: "a box can use all of the host's memory: no cgroup limits it, and a kernel without CONFIG_PROC_CHILDREN does not list the processes of a box",
	},
	policies.LimitPids: {limit.NotEnforced: "a box can use all of the host's process numbers"},
	policies.LimitCPU:  {limit.NotEnforced: "a box can use all CPUs"},
	policies.LimitIO: {
		limit.NotEnforced: "a box can use all of the disk's bandwidth",
		limit.Partly:      "reads and direct writes are limited, writes through the page cache are not",
	},
	policies.LimitDisk: {limit.NotEnforced: "a profile with storage: disk opens no box here (with storage: memory, /tmp is bounded everywhere)"},
}

// checkLimits makes a supervisor, and reports how the supervisor enforces each limit and
// kills commands.
func checkLimits(a around, workspace string) (limit.Enforcements, []Check) {
	s, err := New(Config{Workspace: workspace})
	if err == nil {
		defer s.Close()
		err = s.Prepare()
	}
	if err != nil {
		return nil, []Check{{
			Name: "supervisor", Required: true, Detail: err.Error(),
			Degraded: "no box can be made", Mend: a.mendCgroups(),
		}}
	}
	held := s.Limits()
	a.scope = s.groups.Scope()
	checks := checkScope(a)
	for _, name := range []policies.Limit{policies.LimitMemory, policies.LimitPids, policies.LimitCPU, policies.LimitIO} {
		checks = append(checks, checkLimit(a, s.groups, name, held[name]))
	}
	return held, append(checks, checkDisk(a, s.cfg.Spool, held[policies.LimitDisk]), checkKill(a, s.groups), checkApart(s.nested(), s.host.landlock))
}

// checkScope describes what the service manager of an ordinary user did, if it was asked
// for a cgroup.
func checkScope(a around) []Check {
	if !a.scopeHelps() {
		return nil
	}
	c := Check{Name: "systemd scope", OK: a.scope.Err == nil, Detail: "the user's service manager made one for belljar, with a cgroup of its own"}
	if !c.OK {
		c.Detail, c.Degraded, c.Mend = a.scope.Err.Error(), "belljar has no cgroup that it may divide", a.mendScope()
	}
	if len(a.scope.Missing) > 0 {
		c.Degraded, c.Mend = "boxes lack the cgroup controllers "+strings.Join(a.scope.Missing, ", "), a.mendScope()
	}
	return []Check{c}
}

// checkLimit describes one limit that has a cgroup controller of its name.
func checkLimit(a around, groups *cgroup.Tree, name policies.Limit, held limit.Enforcement) Check {
	c := Check{Name: string(name) + " limit", OK: held != limit.NotEnforced, Detail: string(held)}
	switch {
	case groups.Version(name) != 0:
		c.Detail += fmt.Sprintf(" by cgroup v%d", groups.Version(name))
	case name == policies.LimitPids:
		c.Detail += " by RLIMIT_NPROC in the box's own user namespace"
	}
	if held == limit.Enforced {
		return c
	}
	c.Degraded, c.Mend = unheld[name][held], a.mendCgroups()
	switch {
	case name == policies.LimitMemory && a.noMemory:
		c.Mend = "boot with cgroup_enable=memory, which this kernel has switched off"
	case name == policies.LimitIO && groups.Version(name) != 0:
		c.Mend = mendIO(held, groups.Version(name) == 1)
	}
	return c
}

// checkDisk describes what bounds an area on disk (storage.go).
func checkDisk(a around, spool string, held limit.Enforcement) Check {
	c := Check{Name: string(policies.LimitDisk) + " limit", OK: held == limit.Enforced, Detail: string(held)}
	quota, loop := canQuota(spool), canLoop()
	_, mkfsErr := mkfs()
	switch {
	case quota == nil:
		c.Detail += " by a project quota of " + fsKind(spool) + " at " + spool
	case loop == nil:
		c.Detail += " by a loop image for each box"
	case !a.root:
		c.Mend = "run belljar as root, or say storage: memory in the profile"
	case mkfsErr != nil:
		c.Mend = "install the package e2fsprogs"
	case errors.Is(loop, unix.ENOENT):
		c.Mend = "modprobe loop"
	default:
		c.Mend = "mount the file system of " + spool + " with prjquota"
	}
	if !c.OK {
		c.Degraded = unheld[policies.LimitDisk][held]
	}
	return c
}

// mendIO returns how to get the io limit enforced if the host has the controller.
func mendIO(held limit.Enforcement, v1 bool) string {
	switch {
	case held == limit.NotEnforced:
		return "put the workspace on a disk of this host: the kernel counts no I/O of file systems in memory, of overlays and of other machines"
	case v1:
		return "boot with cgroup v2 only, for example with the kernel parameter systemd.unified_cgroup_hierarchy=1"
	}
	return "put the workspace on ext4, xfs or f2fs"
}

// checkKill kills a process in the way in which commands are killed, if the host has that
// way.
func checkKill(a around, groups *cgroup.Tree) Check {
	c := Check{Name: "kill", OK: true, Detail: "each command is born in a cgroup of its own (clone3) and killed with it (cgroup.kill)"}
	err := errors.New("no writable cgroup v2")
	if groups.Dir() != "" {
		if err = tryKill(filepath.Join(groups.Dir(), "probe")); err == nil {
			return c
		}
	}
	c.Detail = "each command is in a pid namespace of its own and killed with its first process: " + err.Error()
	c.Degraded = "each command costs a process and a /proc of its own"
	c.Mend = a.mendKill()
	if errors.Is(err, unix.ENOENT) {
		c.Mend = "no setting fixes this: use Linux 5.14 or later"
	}
	return c
}

// checkApart reports what separates the commands of one box from each other.
func checkApart(nested bool, v landlock) Check {
	c := Check{Name: "commands apart", OK: true, Detail: "each command is in a Landlock domain of its own: no other command of its box sees its processes, memory, descriptors or environment, or signals it"}
	switch {
	case nested && v >= landlockLeast:
		c.Detail = "each command is in a pid namespace of its own, in which no other command of its box has a process"
	case nested:
		c.Detail = "there is no Landlock here that separates commands, so each command is in a pid namespace of its own, in which no other command of its box has a process"
		c.Degraded = "each command costs a process and a /proc of its own"
		c.Mend = "use Linux 5.19 or later with Landlock, as above"
	case v < landlockNewest:
		c.Detail = "each command is in a Landlock domain of its own: no other command of its box sees its processes, memory, descriptors or environment"
		c.Degraded = "a command can signal a process of another command of its box if it guesses the number of the process"
		c.Mend = "no setting fixes this: use Linux 6.12 or later"
	}
	return c
}

// tryKill starts a helper in a new cgroup and kills the cgroup.
func tryKill(path string) error {
	if err := os.Mkdir(path, 0o750); err != nil {
		return err
	}
	defer boxinit.RemoveCgroups(path)
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	p, control, err := hostexec.Helper(boxinit.MapName, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())})
	if err != nil {
		return fmt.Errorf("start in a cgroup: %s", brief(err))
	}
	killErr := procfs.Write(filepath.Join(path, "cgroup.kill"), "1")
	control.Close() // ends the helper if cgroup.kill did not
	state, err := p.Wait()
	if killErr != nil || err != nil {
		return errors.Join(killErr, err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); !ok || status.Signal() != unix.SIGKILL {
		return fmt.Errorf("cgroup.kill: the process ended with %v", state)
	}
	return nil
}
