package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
)

// Host is what this machine offers to boxes.
type Host struct {
	Kernel string
	Checks []Check
}

// Check is one thing that boxes use, tried out.
type Check struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Required bool   `json:"required"`           // no box can run without it
	Detail   string `json:"detail"`             // what was found
	Degraded string `json:"degraded,omitempty"` // what is lost without it
	Mend     string `json:"mend,omitempty"`     // one command or change that mends it
}

// OK reports whether boxes can run.
func (h Host) OK() bool {
	return !slices.ContainsFunc(h.Checks, func(c Check) bool { return c.Required && !c.OK })
}

// Probe tries out what boxes need, without running anything in one.
func Probe() Host {
	var h Host
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		h.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	h.Checks = append(h.Checks, probeNamespaces(), probeFilter(), probeShell())
	h.Checks = append(h.Checks, probeCgroups()...)
	if os.Geteuid() == 0 {
		h.Checks = append(h.Checks, probeIDMap())
	}
	return h
}

func probeNamespaces() Check {
	c := Check{
		Name: "user namespaces", Required: true, OK: true, Detail: "all seven kinds can be made",
		Degraded: "no command can be isolated, so none will run",
	}
	attr := initAttr(os.Geteuid(), os.Geteuid() == 0)
	if os.Geteuid() == 0 {
		attr = initAttr(firstUID, true)
	}
	attr.Pdeathsig = 0 // the thread that tries it may end at any time
	err := lacking()
	if err == nil {
		p, control, startErr := startHelper(boxinit.MapName, attr)
		err = startErr
		if err == nil {
			control.Close()
			_, err = p.Wait()
		}
	}
	if err == nil {
		c.Degraded = ""
		return c
	}
	c.OK, c.Detail = false, err.Error()
	switch {
	case knob("/proc/sys/user/max_user_namespaces") == "0":
		c.Mend = "sysctl -w user.max_user_namespaces=15000"
	case knob("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		c.Mend = "sysctl -w kernel.unprivileged_userns_clone=1"
	case knob("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		c.Mend = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	default:
		c.Mend = "run belljar where user namespaces are allowed; in a container, with a seccomp profile that allows them"
	}
	return c
}

func knob(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func probeFilter() Check {
	c := Check{Name: "system call filter", Required: true, OK: true, Detail: "seccomp with filters on all threads"}
	// With no program the call fails with EFAULT where filters exist
	// (seccomp(2)).
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, 0)
	if !errors.Is(errno, unix.EFAULT) {
		c.OK, c.Detail = false, fmt.Sprintf("seccomp: %v", errno)
		c.Degraded = "commands could reach all of the kernel, so none will run"
		c.Mend = "use a kernel with CONFIG_SECCOMP_FILTER"
	}
	return c
}

func probeShell() Check {
	c := Check{Name: "bash", Required: true, OK: true, Detail: shellPath}
	if _, err := os.Stat(shellPath); err != nil {
		c.OK, c.Detail, c.Degraded, c.Mend = false, err.Error(), "the shell tools cannot run", "install the package bash"
	}
	return c
}

// probeCgroups tells how each limit would be held and how commands are killed.
func probeCgroups() []Check {
	groups, err := newCgroups()
	if err != nil {
		return []Check{{Name: "cgroups", Detail: err.Error(), Degraded: "limits are not enforced"}}
	}
	defer groups.close()
	held := groups.held()
	mend := "run belljar as root, or in a cgroup that your user owns: systemd-run --user --scope -p Delegate=yes belljar serve"
	var checks []Check
	for _, limit := range []policies.Limit{policies.LimitMemory, policies.LimitPids, policies.LimitCPU} {
		c := Check{Name: string(limit) + " limit", OK: held[limit] == Enforced, Detail: string(held[limit])}
		switch {
		case groups.v1[string(limit)] != "":
			c.Detail += " by cgroup v1"
		case groups.v2ctl[string(limit)]:
			c.Detail += " by cgroup v2"
		case limit == policies.LimitPids:
			c.Detail += " by RLIMIT_NPROC in the box's own user namespace"
		}
		if !c.OK {
			c.Mend = mend
			c.Degraded = map[policies.Limit]string{
				policies.LimitMemory: "memory is sampled 20 times a second; a fast command can pass its limit for a moment",
				policies.LimitCPU:    "a box can use all CPUs",
			}[limit]
		}
		checks = append(checks, c)
	}
	kill := Check{Name: "kill", OK: groups.v2 != "", Detail: "each command in a cgroup of its own, killed by cgroup.kill"}
	if !kill.OK {
		kill.Detail = "each command in a pid namespace of its own, killed with its first process"
		kill.Degraded = "a command that a signal ends shows it in its exit code only, and each one costs a shell more"
		kill.Mend = mend
	}
	return append(checks, kill)
}

func probeIDMap() Check {
	c := Check{Name: "owner mapping", OK: true, Detail: "files made in a workspace belong to the workspace's owner"}
	s := &Supervisor{idmaps: map[idmapKey]*os.File{}}
	dir := os.TempDir()
	ns, err := s.idmap(dir, firstUID)
	if err == nil {
		defer ns.Close()
		var fd int
		if fd, err = openTree(unix.AT_FDCWD, dir, mountAttr{}, ns); err == nil {
			_ = syscall.Close(fd)
		}
	}
	if err != nil {
		c.OK, c.Detail = false, fmt.Sprintf("%s: %v", dir, err)
		c.Degraded = "as root, a box cannot be given a workspace on such a file system"
		c.Mend = "use Linux 5.12 or later and ext4, xfs, btrfs or tmpfs (6.3), or run belljar as the workspace's owner"
	}
	return c
}
