package sandbox

import (
	"slices"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/protect"
)

// plan describes how a box is built.
type plan struct {
	mounts    []mount
	pins      []protect.Pin      // protected paths of the workspace
	links     map[string]string  // targets of links, by path in the box
	files     map[string]string  // contents of small read-only files, by path in the box
	template  int                // template that is the box's root, or -1 if the init makes one
	made      map[string]bool    // what the template contains
	keeps     bool               // whether what the box writes to is made to outlive the init
	kept      bool               // whether tree, and area unless it is on disk, were kept from an earlier init
	tree      int                // detached mount that is the overlay workspace, or -1
	area      int                // detached mount that is the box's storage, or -1 for a tmpfs
	limits    policies.BoxLimits // only those that apply without a cgroup are used; zero means not set
	procs     uint64             // RLIMIT_NPROC, or 0 if a cgroup limits the processes
	filter    []byte             // seccomp program, an array of struct sock_filter
	watcher   []byte             // seccomp program that reports execs
	ours      uint64             // marks the init's own execs if execs are watched, or 0
	nested    bool               // whether each command gets a pid namespace of its own, to isolate it and to kill it with
	network   policies.Network
	authority []byte // certificate of the egress door, if the box must trust one
	forBrowser
	hostFacts
}

// forBrowser is the part of a plan that only the box of a browser has.
type forBrowser struct {
	nests     int64 // number of pid namespaces that it may make; 0 if it may make no namespaces
	downloads int64 // bytes of the file system for its downloads; 0 if it has none
}

// hostFacts are the facts about the host that the plans of all boxes need.
type hostFacts struct {
	root     bool // whether the supervisor is root
	landlock landlock
	capLast  int             // number of the last capability that the kernel knows
	masked   map[string]bool // by masked file that the kernel has: whether it is a directory
	watches  int             // number of inotify watches of a box
	hard     map[int]uint64  // the supervisor's own hard limits, by their number
}

// mount is one tree of the host in the box.
type mount struct {
	source   string // path on the host
	target   string // path in the box
	dir      bool
	writable bool
	mapped   bool // whether its owner is the box's user, even if it is read-only
	scratch  bool // whether a layer in the box's memory takes the writes, so that the tree stays as it is
	devices  bool
	root     bool // whether it is the image that the box's root lies over
	layer    bool // whether it is a layer of the overlay workspace; the highest layer is first
	file     int  // detached tree made by the supervisor, or -1 if the init clones source
}

// overlaid reports whether the plan has an overlay workspace: as layers, or as a tree that
// is an overlay already.
func (p *plan) overlaid() bool {
	return p.tree >= 0 || slices.ContainsFunc(p.mounts, func(m mount) bool { return m.layer })
}

// imaged reports whether one of the trees is an image. Then the root of the box is a read-only
// overlay.
func imaged(mounts []mount) bool {
	return slices.ContainsFunc(mounts, func(m mount) bool { return m.root })
}

// passed returns the trees that the supervisor made itself, in order, then the template,
// the overlay, and the area last.
func (p *plan) passed() []int {
	var files []int
	for _, m := range p.mounts {
		if m.file >= 0 {
			files = append(files, m.file)
		}
	}
	if p.template >= 0 {
		files = append(files, p.template)
	}
	if p.tree >= 0 {
		files = append(files, p.tree)
	}
	if p.area >= 0 {
		files = append(files, p.area)
	}
	return files
}

// treeSlot returns the slot of p.tree.
func (p *plan) treeSlot() boxinit.Slot {
	n := len(p.passed()) - 1
	if p.area >= 0 {
		n--
	}
	return boxinit.Slot(n)
}
