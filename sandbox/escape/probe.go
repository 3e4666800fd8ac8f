package escape

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"belljar.dev/policies"
	"belljar.dev/sandbox/limit"
)

// Category says which wall a probe tries.
type Category string

// The categories, in the order of a report.
const (
	Filesystem  Category = "filesystem"
	Proc        Category = "proc"
	Devices     Category = "devices"
	Credentials Category = "credentials"
	Namespaces  Category = "namespaces"
	Syscalls    Category = "syscalls"
	Network     Category = "network"
	Resources   Category = "resources"
	Lifetime    Category = "lifetime"
	Siblings    Category = "siblings"
	Tenants     Category = "tenants"
)

// Categories are all of them.
func Categories() []Category {
	return []Category{Filesystem, Proc, Devices, Credentials, Namespaces, Syscalls, Network, Resources, Lifetime, Siblings, Tenants}
}

// Means says what it means if a probe of the category gets through.
func (c Category) Means() string {
	switch c {
	case Filesystem:
		return "a command can read or change files of this machine that its profile does not show, or leave files behind that act for it"
	case Proc:
		return "a command can read or steer the machine, or processes outside its box, through /proc or /sys"
	case Devices:
		return "a command can reach the machine's devices or a terminal that is not its own"
	case Credentials:
		return "a command has, or can get, rights or secrets of the user who runs belljar"
	case Namespaces:
		return "a command can leave its namespaces or make new ones, where it would be root over more of the kernel"
	case Syscalls:
		return "a command can reach a part of the kernel that no ordinary program needs and that has been a way to take the machine over"
	case Network:
		return "a command can talk to something outside its box"
	case Resources:
		return "a command can use more of the machine than its profile allows"
	case Lifetime:
		return "something of a command can outlive it, or end what must outlive it"
	case Siblings:
		return "a command can read, steer or starve another command of its own box: forge what it says, or change what it runs"
	case Tenants:
		return "one tenant can see, signal, exhaust or time another"
	}
	return ""
}

// Probe is one act, tried outside and inside a box.
type Probe struct {
	ID       string
	Name     string // what is attempted
	Category Category
	Root     bool // only root gets through outside
	Works    bool // must get through inside as well: what a box must not break

	try   act                // done by the prober
	plant func(*Facts) error // done by a prober before, whose call then ends
	look  act                // done on the host afterwards, and decides

	where func(*ground) bool // whether this host and profile have what is attacked; nil is always

	dies     bool // to be refused, or to plant, may be the prober's death
	own      bool // spoils its box, so it gets one of its own
	renewed  bool // between plant and try the box is closed and a new one opened
	cut      bool // after plant the prober stays, and its call is cut off
	slow     bool // its box has the grant Config.Slow
	busy     bool // meanwhile a command in the other tenant's box must be answered
	sibling  bool // beside it another command of its box is a victim
	terminal bool // outside, the prober is given a terminal
	kills    bool // outside, it is given processes to kill
}

// act is an attempt: what it got hold of, or an error with what stood in the
// way.
type act func(*Facts) (string, error)

// Held reports whether an outcome inside a box is as it must be.
func (p *Probe) Held(o Outcome) bool { return o.Err == nil && o.Through == p.Works }

// Outcome is what became of one attempt.
type Outcome struct {
	Through bool   // it got through
	Detail  string // what it got hold of, or what stood in the way
	Err     error  // nothing was shown: the prober did not run, or gave no answer
}

// ground is what a host and a profile offer to attack.
type ground struct {
	root      bool
	workspace policies.Access
	image     bool // the box has an image's system directories
	git       bool // the workspace is a repository
	limits    limit.Enforcements
	addresses []string // of the host, loopback aside
	door      bool     // the profile has a way out
	signals   bool     // the host claims that no command signals another of its box
}

// held reports whether the host claims to hold a limit in any way.
func held(l policies.Limit) func(*ground) bool {
	return func(g *ground) bool { return g.limits[l] != limit.NotEnforced }
}

// signalsApart asks for a host that claims to keep signals from other commands of
// the box.
func signalsApart(g *ground) bool { return g.signals }

// inGit asks for a repository in which a box can write.
func inGit(g *ground) bool { return g.git && g.workspace == policies.AccessWrite }

// withoutImage asks for a box in which what is called as on the machine is the
// machine's.
func withoutImage(g *ground) bool { return !g.image }

func canWrite(g *ground) bool { return g.workspace == policies.AccessWrite }

// All are all probes, in the order of the categories.
func All() []Probe {
	var all []Probe
	for _, table := range []struct {
		of   Category
		rows []Probe
	}{
		{Filesystem, filesystem()},
		{Proc, proc()},
		{Devices, devices()},
		{Credentials, credentials()},
		{Namespaces, spaces()},
		{Syscalls, calls()},
		{Network, network()},
		{Resources, resources()},
		{Lifetime, lifetime()},
		{Siblings, siblings()},
		{Tenants, tenants()},
	} {
		for _, p := range table.rows {
			p.Category = table.of
			all = append(all, p)
		}
	}
	return all
}

// find is the probe with that id.
func find(id string) (Probe, bool) {
	all := All()
	i := slices.IndexFunc(all, func(p Probe) bool { return p.ID == id })
	if i < 0 {
		return Probe{}, false
	}
	return all[i], true
}

// Check says what is wrong with a table of probes: an id twice, a row without
// a name, or one that attempts nothing.
func Check(all []Probe) error {
	var faults []error
	seen := map[string]bool{}
	for _, p := range all {
		switch {
		case p.ID == "" || strings.ContainsAny(p.ID, " /"):
			faults = append(faults, fmt.Errorf("probe %q (%s): the id is empty, or contains a space or a slash", p.ID, p.Name))
		case seen[p.ID]:
			faults = append(faults, fmt.Errorf("probe %s: the id is in use twice", p.ID))
		case p.Name == "":
			faults = append(faults, fmt.Errorf("probe %s: has no name", p.ID))
		case p.try == nil && p.look == nil:
			faults = append(faults, fmt.Errorf("probe %s: attempts nothing", p.ID))
		case p.Category.Means() == "":
			faults = append(faults, fmt.Errorf("probe %s: is of no category", p.ID))
		}
		seen[p.ID] = true
	}
	return errors.Join(faults...)
}
