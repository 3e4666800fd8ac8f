package sandbox

import (
	"fmt"
	"path"
	"strings"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/limit"
)

// Exposure rates how much of the host a box of one profile can reach. It serves to compare
// profiles and hosts. It proves nothing, because a flaw in the kernel cannot be rated.
type Exposure struct {
	Profile string  `json:"profile"`
	Score   int     `json:"score"`  // from 0, nothing of the host can be reached, to 100
	Points  []Point `json:"points"` // parts of the score, in the order of docs/hosts.md
}

// Point is one fact and what it adds to a score.
type Point struct {
	Fact  string `json:"fact"`
	Score int    `json:"score"`
}

// The weights. A thing that lets a box change the host weighs more than one that lets it
// read the host. That weighs more than one that lets it slow the host down.
const (
	weightWorkspaceWrite = 15
	weightWorkspaceRead  = 5
	weightOverlay        = 7  // a person may apply the changes in the layer
	weightUnprotected    = 15 // a box can change what the host runs by itself
	weightSecretWrite    = 40 // a directory with keys, sockets of daemons or the system's own files
	weightSecretRead     = 25
	weightMountWrite     = 10
	weightMountRead      = 3
	weightSystem         = 4
	weightSecretEnv      = 10
	weightNoLandlock     = 6
	weightOldLandlock    = 3
	weightSameUser       = 5
	weightLargeMemory    = 4
	weightLargeCPU       = 2
	weightManyPids       = 2
	weightLongJobs       = 2
	weightUnseen         = 1
	weightBrowser        = 4 // the browser's box may make namespaces, and runs what any page contains
	weightBareBrowser    = 6 // in addition, if the box is the only wall
	mostScore            = 100
)

// weightUnheld gives the weight of a limit that is not fully enforced, by how it is
// enforced.
var weightUnheld = []struct {
	limit  policies.Limit
	weight map[limit.Enforcement]int
}{
	{policies.LimitMemory, map[limit.Enforcement]int{limit.Watchdog: 5, limit.NotEnforced: 10}},
	{policies.LimitPids, map[limit.Enforcement]int{limit.NotEnforced: 10}},
	{policies.LimitCPU, map[limit.Enforcement]int{limit.NotEnforced: 5}},
	{policies.LimitIO, map[limit.Enforcement]int{limit.Partly: 1, limit.NotEnforced: 2}},
}

// Bounds above which a limit counts as large.
const (
	largePids = 8192
	largeJob  = 24 * time.Hour
)

// SoundHost returns a host with every wall, which enforces every limit. With it, Expose
// rates the profile alone, and gives the same result on every host.
func SoundHost() Host {
	return Host{
		Landlock: landlockNewest, Execs: true, Root: true,
		Limits: limit.Enforcements{policies.LimitMemory: limit.Enforced, policies.LimitPids: limit.Enforced, policies.LimitCPU: limit.Enforced, policies.LimitIO: limit.Enforced, policies.LimitDisk: limit.Enforced},
	}
}

// Expose rates the boxes of a profile on a host. It is a pure function.
func Expose(p policies.Profile, h Host) Exposure {
	e := Exposure{Profile: p.Name, Points: []Point{}}
	add := func(score int, fact string, args ...any) {
		if score > 0 {
			e.Points = append(e.Points, Point{fmt.Sprintf(fact, args...), score})
			e.Score = min(e.Score+score, mostScore)
		}
	}
	exposeNetwork(p, add)
	switch p.Workspace {
	case policies.AccessWrite:
		add(weightWorkspaceWrite, "the workspace can be written, and its disk can be filled")
		if p.Protect.Off {
			add(weightUnprotected, "protect is off: git hooks and settings of editors can be written")
		}
	case policies.AccessOverlay:
		add(weightOverlay, "the workspace can be read, and a layer over it can be written")
	case policies.AccessRead:
		add(weightWorkspaceRead, "the workspace can be read")
	case policies.AccessNone:
	}
	for _, m := range p.Mounts {
		weight, what := rateMount(m)
		add(weight, "%s%s", m.Source, what)
	}
	if p.System {
		add(weightSystem, "the host's system directories can be read")
	}
	for _, name := range p.Env {
		if looksSecret(name) {
			add(weightSecretEnv, "the variable %s looks like a secret", name)
		}
	}
	for _, u := range weightUnheld {
		held := h.Limits[u.limit]
		if u.limit == policies.LimitIO && p.Workspace == policies.AccessNone {
			continue // the box has no disk to read or write
		}
		add(u.weight[held], "how this host enforces the %s limit: %s", u.limit, held)
	}
	switch {
	case h.Landlock < landlockLeast:
		add(weightNoLandlock, "no Landlock: one wall less for files")
	case h.Landlock < landlockNewest:
		add(weightOldLandlock, "an old Landlock: the second wall has gaps")
	}
	if !h.Root {
		add(weightSameUser, "on the host, boxes are the user that runs belljar")
	}
	if p.Exec == policies.ExecOff || !h.Execs {
		add(weightUnseen, "what commands start is not seen, and the policy is not asked about it")
	}
	if p.Browser != policies.BrowserOff {
		add(weightBrowser, "pages run in a browser, whose own sandbox makes namespaces in its box")
	}
	if p.Browser == policies.BrowserDegraded {
		add(weightBareBrowser, "the browser may run without a sandbox of its own")
	}
	if l := p.Limits; h.Memory > 0 && l.Memory > h.Memory/2 {
		add(weightLargeMemory, "a box can have more than half of the host's memory")
	}
	if h.CPUs > 1 && p.Limits.CPU >= float64(h.CPUs) {
		add(weightLargeCPU, "a box can have all CPUs")
	}
	if p.Limits.Pids > largePids {
		add(weightManyPids, "a box can have more than %d processes", largePids)
	}
	if p.Limits.Background > largeJob {
		add(weightLongJobs, "jobs can run longer than a day")
	}
	return e
}

// secretPlaces contain keys, sockets of daemons or the system's own files.
var secretPlaces = []string{"/boot", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/var/lib", "/var/run"}

// rateMount returns the weight of a mount and a text for it.
func rateMount(m policies.Mount) (int, string) {
	secret := strings.HasSuffix(m.Source, ".sock") || path.Base(m.Source) == ".ssh"
	for _, place := range secretPlaces {
		// A place itself counts, and so do what is directly in it and what contains it. A
		// directory deep in a home is like any other.
		secret = secret || m.Source == place || path.Dir(m.Source) == place || strings.HasPrefix(place, m.Source+"/")
	}
	switch {
	case secret && m.Writable:
		return weightSecretWrite, ", a sensitive place, can be written"
	case secret:
		return weightSecretRead, ", a sensitive place, can be read"
	case m.Writable:
		return weightMountWrite, " can be written"
	}
	return weightMountRead, " can be read"
}

// looksSecret reports whether a variable's name suggests that its value is secret.
func looksSecret(name string) bool {
	name = strings.ToUpper(name)
	for _, part := range []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "APIKEY", "PRIVATE_KEY", "ACCESS_KEY"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
