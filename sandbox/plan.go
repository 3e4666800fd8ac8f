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
	links     map[string]string  // path in the box -> target
	files     map[string]string  // small read-only files: path in the box -> content
	base      int                // template that is the box's root, or -1: the init makes one
	made      map[string]bool    // what is in it
	keeps     bool               // what it writes to is made to outlive the init
	kept      bool               // tree, and area unless it is on disk, were kept from an earlier init
	tree      int                // detached mount that is the overlay workspace, or -1
	area      int                // detached mount that is the box's storage, or -1 for a tmpfs
	limits    policies.BoxLimits // those that hold without a cgroup count; a zero is not set
	procs     uint64             // RLIMIT_NPROC, or 0 if a cgroup limits the processes
	filter    []byte             // seccomp program, struct sock_filter each
	watcher   []byte             // seccomp program that reports execs
	ours      uint64             // marks the init's own execs if execs are watched, or 0
	nested    bool               // each command gets a pid namespace of its own, to isolate it and to kill it with
	network   policies.Network
	authority []byte // certificate of the egress door, if the box is to trust one
	forBrowser
	hostFacts
}

// forBrowser is what only the box of a browser has.
type forBrowser struct {
	nests     int64 // pid namespaces that it may make, 0 for none of any kind
	downloads int64 // bytes of the file system for what it downloads, 0 for none
}

// hostFacts are the facts about the host that the plans of all boxes need.
type hostFacts struct {
	root     bool // the supervisor is root
	landlock landlock
	capLast  int             // the last capability that the kernel knows
	masked   map[string]bool // of the masked files that the kernel has, whether it is a directory
	watches  int             // inotify watches of a box
	hard     map[int]uint64  // the supervisor's own hard limits, by their number
}

// mount is one tree of the host in the box.
type mount struct {
	source   string // on the host
	target   string // in the box
	dir      bool
	writable bool
	mapped   bool // its owner is the box's user, though it is read-only
	scratch  bool // a layer in the box's memory takes what is written; the tree stays as it is
	devices  bool
	root     bool // the image that the box's root lies over
	layer    bool // of the overlay that is the workspace, the highest first
	file     int  // detached tree made by the supervisor, or -1: the init clones source
}

// overlaid reports whether the plan has layers, or an overlay of such.
func (p *plan) overlaid() bool {
	return p.tree >= 0 || slices.ContainsFunc(p.mounts, func(m mount) bool { return m.layer })
}

// passed are the trees that the supervisor made itself, in order, then the
// template, the overlay, and the area last.
func (p *plan) passed() []int {
	var files []int
	for _, m := range p.mounts {
		if m.file >= 0 {
			files = append(files, m.file)
		}
	}
	if p.base >= 0 {
		files = append(files, p.base)
	}
	if p.tree >= 0 {
		files = append(files, p.tree)
	}
	if p.area >= 0 {
		files = append(files, p.area)
	}
	return files
}

// treeSlot holds p.tree.
func (p *plan) treeSlot() boxinit.Slot {
	n := len(p.passed()) - 1
	if p.area >= 0 {
		n--
	}
	return boxinit.Slot(n)
}
