package sandbox

import (
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/limit"
)

// Host is what this machine offers to boxes.
type Host struct {
	Kernel   string
	Checks   []Check
	Limits   limit.Enforcements // how each limit is enforced
	Landlock int                // version of Landlock's interface; 0 if the host lacks it
	// whether the programs that boxes start can be seen, for profiles with exec: observe or
	// enforce
	Execs  bool
	Root   bool // whether each tenant's boxes run as a user of their own, not as belljar's
	CPUs   int
	Memory int64 // memory of the host in bytes
}

// Check is one thing that boxes use, tried out.
type Check struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Required bool   `json:"required"`           // whether no box can run without it
	Detail   string `json:"detail"`             // what was found
	Degraded string `json:"degraded,omitempty"` // what is lost without it
	Mend     string `json:"mend,omitempty"`     // the one command or change that fixes it, or a note that nothing does
}

// Word returns the result of the check in one word: "ok"; "weak" if it works but something
// is lost; "absent" if boxes run without it; "MISSING" if they do not.
func (c Check) Word() string {
	switch {
	case c.OK && c.Degraded == "":
		return "ok"
	case c.OK:
		return "weak"
	case c.Required:
		return "MISSING"
	}
	return "absent"
}

// OK reports whether boxes can run.
func (h Host) OK() bool {
	return !slices.ContainsFunc(h.Checks, func(c Check) bool { return c.Required && !c.OK })
}

// Examine tries out what boxes need, each thing by using it once, and leaves nothing
// behind. The workspace is the directory that boxes would work on. The program must call
// Init first: a part is tried by a process of its own, in the namespaces of a box.
func Examine(workspace string) Host {
	h := Host{Root: os.Geteuid() == 0, CPUs: runtime.NumCPU()}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		h.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		h.Memory = int64(info.Totalram) * int64(info.Unit)
	}
	a := lookAround(h.Kernel)
	h.Checks = append(h.Checks, checkBox(a)...)
	possible := h.OK()
	h.Checks = append(h.Checks, checkFilter(a), checkExecs(a))
	h.Execs = execSupport().err == nil
	landlock, c := checkLandlock()
	h.Landlock = landlock
	h.Checks = append(h.Checks, c, checkCalls(a), checkShell())
	if possible {
		limits, checks := checkLimits(a, workspace)
		h.Limits = limits
		h.Checks = append(h.Checks, checks...)
		if h.Root {
			h.Checks = append(h.Checks, checkOwners(workspace))
		}
	}
	h.Checks = append(h.Checks, checkAround(a)...)
	return h
}

// checkShell looks for bash, which the shell tools start.
func checkShell() Check {
	c := Check{Name: "bash", Required: true, OK: true, Detail: shellPath}
	if _, err := os.Stat(shellPath); err != nil {
		c.OK, c.Detail, c.Degraded, c.Mend = false, err.Error(), "the shell tools cannot run", "install the package bash"
	}
	return c
}
