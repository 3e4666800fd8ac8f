package tools

import (
	"fmt"
	"strings"
	"syscall"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// hint returns a text that names the limit of the sandbox that a program has probably met.
// Such a program reports the error of a broken machine, for example a name that cannot be
// resolved or a full disk, and an agent would try to repair the machine. hint is empty if
// the command succeeded or was stopped, or if neither its output nor its status looks like a
// limit.
func hint(g policies.Grant, r sandbox.Result, said string) string {
	if r.Status != sandbox.Exited || r.Code == 0 {
		return ""
	}
	for _, w := range walls {
		if w.offline && (g.Network() != policies.NetworkNone || len(r.Blocked) > 0) {
			continue // a box with a network has no such limit, and if Blocked is not empty, the door refused a name, which the result says
		}
		if w.protected && (g.Workspace() != policies.AccessWrite || g.Protect().Off) {
			continue
		}
		for _, sound := range w.sounds {
			if strings.Contains(said, sound) {
				return w.hint(g)
			}
		}
		if w.signal != 0 && r.Code == 128+int(w.signal) {
			return w.hint(g)
		}
	}
	return ""
}

// wall is one limit of a box: the messages of programs that meet it, and the hint about it.
type wall struct {
	sounds []string
	signal syscall.Signal // signal that the kernel sends at the limit; 0 if none
	says   func(policies.Grant) string

	offline   bool // the limit exists only if the box has no network
	protected bool // the limit exists only if parts of a writable workspace are protected
}

var walls = []wall{
	{
		offline: true,
		sounds: []string{
			"Could not resolve host", "Temporary failure in name resolution", "Name or service not known", "Temporary failure resolving", "Could not resolve '",
			"Network is unreachable", "no such host", "getaddrinfo ENOTFOUND", "getaddrinfo EAI_AGAIN", "unable to resolve host address",
			"Failed to establish a new connection", "network is unreachable", "connection refused: lookup",
		},
		says: func(g policies.Grant) string {
			return policies.Block{
				Reason: fmt.Sprintf("profile %q has no network, so no host can be reached from here", g.Profile()), Host: true,
				Instead: "Use what is in the workspace and in the system directories.",
			}.Refusal().Text()
		},
	},
	{
		protected: true,
		sounds:    []string{"could not write config file", "Device or resource busy"},
		says: func(policies.Grant) string {
			return "some files of /workspace cannot be changed from a box: the configuration and hooks of a repository that existed before the box was opened, " +
				"and the settings of editors, shells and agents. If this is one of them, set what one command needs with `git -c NAME=VALUE` or with an environment variable, " +
				"or ask the person to make the change."
		},
	},
	{
		sounds: []string{"Read-only file system", "read-only file system"},
		says: func(g policies.Grant) string {
			return fmt.Sprintf("profile %q lets commands write to %s; most other places are read-only.", g.Profile(), writable(g))
		},
	},
	{
		sounds: []string{"No space left on device", "no space left on device"},
		says: func(g policies.Grant) string {
			return storageHolds(g) + "; remove some files. If /workspace is full, the host's disk is full, and only its owner can free space."
		},
	},
	{
		sounds: []string{"Disk quota exceeded", "disk quota exceeded"},
		says: func(g policies.Grant) string {
			if g.Storage() == policies.StorageDisk {
				return storageHolds(g) + ", by a quota; remove some files. If the file is in /workspace, its owner's quota on the host is used up."
			}
			return "the quota that the host has for the owner of /workspace is used up; remove files that you made there. Files in /tmp do not count."
		},
	},
	{
		sounds: []string{"File size limit exceeded", "File too large", "file too large"},
		signal: syscall.SIGXFSZ,
		says: func(g policies.Grant) string {
			return fmt.Sprintf("a file may have at most %d MiB in profile %q; write several smaller ones.", g.Limits().FileSize>>20, g.Profile())
		},
	},
	{
		sounds: []string{"fork: retry: Resource temporarily unavailable", "Cannot fork", "fork: Resource temporarily unavailable"},
		says: func(g policies.Grant) string {
			return fmt.Sprintf("at most %d processes and threads may run at the same time in the box of profile %q; run fewer at once.", g.Limits().Pids, g.Profile())
		},
	},
	{
		sounds: []string{"Too many open files"},
		says: func(g policies.Grant) string {
			return fmt.Sprintf("a process may have %d files open; close some.", g.Limits().OpenFiles)
		},
	},
}

// hint returns the text about the limit. For a box without a network it is worded like a
// refusal of the egress door: the door of such a box answers only look-ups of names, so it
// records no refusal of a connection to an address.
func (w wall) hint(g policies.Grant) string {
	if w.offline {
		return w.says(g)
	}
	return "sandbox: " + w.says(g)
}

// writable returns a text with the places that commands may write to.
func writable(g policies.Grant) string {
	var places []string
	switch {
	case g.Workspace() == policies.AccessWrite && !g.Protect().Off:
		places = append(places, "/workspace (except settings that a person's tools would run)")
	case g.Workspace() == policies.AccessWrite, g.Workspace() == policies.AccessOverlay:
		places = append(places, "/workspace")
	}
	for _, m := range g.Mounts() {
		if m.Writable {
			places = append(places, m.Target)
		}
	}
	return strings.Join(append(places, "/tmp", "/dev/shm"), ", ") + " and /home/agent"
}

// storageHolds returns a text about what a box can store outside its workspace.
func storageHolds(g policies.Grant) string {
	l := g.Limits()
	return fmt.Sprintf("/tmp, /dev/shm and /home/agent together contain at most %d MiB and %d files", l.Tmp>>20, l.TmpFiles)
}
