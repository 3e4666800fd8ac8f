package tools

import (
	"fmt"
	"strings"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// A program that meets a wall reports what it would report of a broken
// machine: a name that does not resolve, a full disk. An agent then mends what
// is not broken. hint says in words which wall it was; nothing where a
// command went well, or where its words do not sound like one.
func hint(g policies.Grant, r sandbox.Result, said string) string {
	if r.Status != sandbox.Exited || r.Code == 0 {
		return ""
	}
	for _, w := range walls {
		for _, sound := range w.sounds {
			if strings.Contains(said, sound) {
				return "sandbox: " + w.says(g)
			}
		}
	}
	return ""
}

// wall is one limit of a box: how programs sound that meet it, and what is to
// be said of it.
type wall struct {
	sounds []string
	says   func(policies.Grant) string
}

var walls = []wall{
	{
		[]string{
			"Could not resolve host", "Temporary failure in name resolution", "Name or service not known", "Temporary failure resolving",
			"Network is unreachable", "no such host", "getaddrinfo ENOTFOUND", "getaddrinfo EAI_AGAIN", "unable to resolve host address",
			"Failed to establish a new connection", "network is unreachable", "connection refused: lookup",
		},
		func(g policies.Grant) string {
			return fmt.Sprintf("profile %q has no network, so no host can be reached from here; that says nothing about the host. "+
				"Use what is in the workspace and in the system directories.", g.Profile())
		},
	},
	{
		[]string{"Read-only file system", "read-only file system"},
		func(g policies.Grant) string {
			places := "/tmp and /home/agent"
			if g.Workspace() == policies.AccessWrite {
				places = "/workspace, " + places
			}
			return fmt.Sprintf("profile %q lets %s be written, and nothing else.", g.Profile(), places)
		},
	},
	{
		[]string{"No space left on device", "no space left on device", "Disk quota exceeded"},
		func(g policies.Grant) string {
			l := g.Limits()
			return fmt.Sprintf("/tmp, /dev/shm and /home/agent together hold at most %d MiB and %d files; remove some, or use /workspace.", l.Tmp>>20, l.TmpFiles)
		},
	},
	{
		[]string{"fork: retry: Resource temporarily unavailable", "Cannot fork", "fork: Resource temporarily unavailable"},
		func(g policies.Grant) string {
			return fmt.Sprintf("at most %d processes and threads may run in this session; run fewer at once.", g.Limits().Pids)
		},
	},
	{
		[]string{"Too many open files"},
		func(g policies.Grant) string {
			return fmt.Sprintf("a process may hold %d files open; close some.", g.Limits().OpenFiles)
		},
	},
}
