package escape

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// kinds are the namespaces that a box has to itself, as /proc/self/ns names
// them (namespaces(7)).
var kinds = []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"}

// spaces returns the probes for the ways out of the namespaces, and to new ones.
func spaces() []Probe {
	all := []Probe{
		{ID: "N01", Name: "make a user namespace", try: child2(unix.CLONE_NEWUSER)},
		{ID: "N02", Name: "make a user namespace by clone3", try: func(*Facts) (string, error) {
			pid, errno := forked3(unix.CLONE_NEWUSER)
			if errno != 0 {
				return "", fmt.Errorf("clone3: %w", errno)
			}
			reap(pid)
			return "clone3", nil
		}},
		{ID: "N03", Name: "enter init's mount namespace", Root: true, try: enters("mnt", unix.CLONE_NEWNS)},
		{ID: "N04", Name: "share a namespace with the machine", try: func(f *Facts) (string, error) {
			return shares(&f.Host)
		}},
		{ID: "N05", Name: "make a user namespace with bits above the flags", try: func(*Facts) (string, error) {
			// The kernel reads only the lower half of the flags (kernel/fork.c, clone).
			pid, errno := forked(unix.CLONE_NEWUSER|1<<40, false)
			if errno != 0 {
				return "", fmt.Errorf("clone: %w", errno)
			}
			reap(pid)
			return "clone", nil
		}},
		{ID: "N06", Name: "make any namespace inside a new user namespace", try: func(*Facts) (string, error) {
			var faults []error
			for _, name := range slices.Sorted(maps.Keys(unshared)) {
				what, err := child2(unix.CLONE_NEWUSER | unshared[name])(nil)
				if err == nil {
					return name + " by " + what, nil
				}
				faults = append(faults, err)
			}
			return "", errors.Join(faults...)
		}},
		{ID: "N07", Name: "enter init's network namespace by its pidfd", Root: true, try: func(f *Facts) (string, error) {
			fd, err := unix.PidfdOpen(f.Init, 0)
			if err != nil {
				return "", fmt.Errorf("pidfd_open: %w", err)
			}
			defer unix.Close(fd)
			return "setns", unix.Setns(fd, unix.CLONE_NEWNET)
		}},
		{ID: "N08", Name: "open a process of the machine by its number", try: func(f *Facts) (string, error) {
			fd, err := unix.PidfdOpen(f.Host.Pid, 0)
			if err != nil {
				return "", fmt.Errorf("pidfd_open: %w", err)
			}
			unix.Close(fd)
			// A process of the box may have the number by chance.
			return isVictim(f.Host.Pid, f.Host.Token)
		}},
	}
	for i, name := range slices.Sorted(maps.Keys(unshared)) {
		all = append(all, Probe{
			ID: fmt.Sprintf("N%02d", 9+i), Name: "make a namespace: " + name, Root: true,
			try: works("unshare", unix.SYS_UNSHARE, uintptr(unshared[name])),
		})
	}
	return all
}

// ownNamespaces returns the namespaces of this process, by kind.
func ownNamespaces() (map[string]string, error) {
	own := map[string]string{}
	for _, kind := range kinds {
		target, err := os.Readlink(filepath.Join("/proc/self/ns", kind))
		if err != nil {
			return nil, err
		}
		own[kind] = target
	}
	return own, nil
}

// shares looks for a namespace that this process and a victim have in common.
func shares(v *Victim) (string, error) {
	own, err := ownNamespaces()
	if err != nil {
		return "", err
	}
	for _, kind := range kinds {
		if own[kind] == v.Namespaces[kind] {
			return kind, nil
		}
	}
	return "", fmt.Errorf("all %d differ", len(kinds))
}

// unshared are the namespaces that a program may make for itself, by the names
// of unshare(1).
var unshared = map[string]int{
	"cgroup": unix.CLONE_NEWCGROUP, "ipc": unix.CLONE_NEWIPC, "mount": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET,
	"pid": unix.CLONE_NEWPID, "time": unix.CLONE_NEWTIME, "uts": unix.CLONE_NEWUTS,
}

// child2 makes a child in new namespaces by clone(2).
func child2(flags int) act {
	return func(*Facts) (string, error) {
		pid, errno := forked(uintptr(flags), false)
		if errno != 0 {
			return "", fmt.Errorf("clone: %w", errno)
		}
		reap(pid)
		return "clone", nil
	}
}

// enters tries to enter a namespace of process 1. EINVAL also counts as success:
// a process with several threads gets it only after the check of its rights
// (setns(2)).
func enters(kind string, flag int) act {
	return func(f *Facts) (string, error) {
		path := inProc(f.Init, "ns/"+kind)
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", fmt.Errorf("open %s: %w", path, err)
		}
		defer unix.Close(fd)
		if err := unix.Setns(fd, flag); refusedError(err) {
			return "", fmt.Errorf("setns: %w", err)
		}
		return "setns", nil
	}
}

// isVictim fails if the process with that number is not the victim, but one of another pid
// namespace.
func isVictim(pid int, token string) (string, error) {
	text, err := readSome(inProc(pid, "cmdline"), 1<<16)
	if err == nil && !strings.Contains(text, token) {
		return "", errors.New("another process has its number")
	}
	// It is the victim, or /proc does not show a process that was reached.
	return fmt.Sprintf("process %d", pid), nil
}

// lookPath finds a program of the system.
func lookPath(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return "/bin/" + name
}
