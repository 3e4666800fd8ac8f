package scope

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"belljar.dev/internal/claim"
)

// patience is how long Enter waits for the service manager.
const patience = 5 * time.Second

// Errors that say what the operator can do.
var (
	ErrNoManager = errors.New("the user has no service manager that answers")
	ErrService   = errors.New("belljar runs in a service, whose cgroup it does not leave")
	ErrContainer = errors.New("belljar runs in a container, whose cgroup it does not leave")
)

// entering is held while this process may be moved.
var entering sync.Mutex

// Enter moves this process into a scope of its own, whose cgroup systemd has given to the
// user. It returns the name of the scope when the process is in it, immediately if it was
// in it before. The error wraps ErrNoManager if no manager could be asked, and ErrService
// or ErrContainer if the process must stay where it is. Concurrent callers wait for each
// other.
func Enter(ctx context.Context) (name string, err error) {
	entering.Lock()
	defer entering.Unlock()
	self, err := claim.Process()
	if err != nil {
		return "", err
	}
	name = "belljar-" + self + ".scope"
	here, err := unitOf("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	if here == name {
		return name, nil
	}
	if first, err := os.Readlink("/proc/self/ns/cgroup"); err != nil || first != firstNamespace {
		return "", ErrContainer
	}
	if !mayLeave(here) {
		return "", fmt.Errorf("%w: %s", ErrService, here)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
	defer cancel()
	if err := start(ctx, sockets(os.Geteuid()), name); err != nil {
		return "", fmt.Errorf("start %s: %w", name, err)
	}
	if here, err = unitOf("/proc/self/cgroup"); err != nil {
		return "", err
	}
	if here != name {
		return "", fmt.Errorf("start %s: systemd left this process in %q", name, here)
	}
	return name, nil
}

// firstNamespace is the cgroup namespace that the kernel starts with (kernel:
// include/linux/proc_ns.h).
const firstNamespace = "cgroup:[4026531835]"

// mayLeave reports whether a process may leave the cgroup of a unit. A scope is started by
// a login, a terminal or a desktop, which do not need the process. A service has limits and
// an end that its operator chose for all its processes, so leaving it would evade both.
// Some desktops start programs as services that are named app-*.service
// (systemd.io/DESKTOP_ENVIRONMENTS): an editor that starts belljar is such a service, and
// has no limits.
func mayLeave(unit string) bool {
	return !strings.HasSuffix(unit, ".service") || strings.HasPrefix(unit, "app-")
}

// unitOf returns the innermost unit that a process is in, by its file in /proc
// (cgroups(7)), or "" if it is in none. Cgroups below a unit have other names.
func unitOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		dir, v2 := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		for ; v2 && dir != "/" && dir != "." && dir != ""; dir = path.Dir(dir) {
			if unit := path.Base(dir); strings.HasSuffix(unit, ".scope") || strings.HasSuffix(unit, ".service") {
				return unit, nil
			}
		}
	}
	return "", nil
}
