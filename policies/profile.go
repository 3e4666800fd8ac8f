package policies

import "slices"

// Profile describes a profile of a policy. Unlike a Grant, it allows nothing.
type Profile struct {
	Name      string
	Workspace Access
	System    bool
	Mounts    []Mount
	Network   Network
	Egress    *Egress // never nil; must not be changed
	Publish   []PortRange
	Image     string // name of the image; empty if the root is not an image
	Storage   Storage
	Protect   Protect
	Limits    Limits
	Totals    Totals
	Env       []string // names of the variables, in order
	Require   []Limit
	Exec      ExecMode
	Reading   Reading
	Browser   Browser
	Acting    Acting
}

// Access says what a box may do with its workspace. The zero value is the closed
// one.
type Access int

// The accesses, the strictest first.
const (
	AccessNone    Access = iota // no workspace is mounted
	AccessRead                  // the workspace is mounted read-only
	AccessOverlay               // files that the box writes are stored in a layer of their own, not in the workspace
	AccessWrite                 // the workspace is mounted read-write
)

// String returns the access as policies spell it.
func (a Access) String() string {
	switch a {
	case AccessRead:
		return "ro"
	case AccessOverlay:
		return "overlay"
	case AccessWrite:
		return "rw"
	case AccessNone:
	}
	return "none"
}

// Network says what may leave a box. The zero value is nothing.
type Network int

// The networks, the strictest first.
const (
	NetworkNone Network = iota // only a loopback interface of the box's own
	NetworkDoor                // also the egress door, which lets through the Egress of the grant
)

// PortRange is a range of ports of a box that may be published on the host's
// loopback, from First to Last.
type PortRange struct{ First, Last uint16 }

// Mount is one host directory or file that a box sees in addition to its system directories
// and its workspace.
type Mount struct {
	Source   string // absolute path on the host
	Target   string // absolute path in the box
	Writable bool
}

// Storage says where the files are stored that a box writes outside its workspace: in /tmp,
// /dev/shm, /run and its home. The zero value is memory.
type Storage int

// The storages.
const (
	StorageMemory Storage = iota // a tmpfs: memory of the box, in addition to the limit of memory
	StorageDisk                  // an area of a disk, bounded by a quota
)

// Protect says which paths of a writable workspace a box cannot write. The zero
// value is the default set: files that the host runs by itself, for example
// those in .git/hooks.
type Protect struct {
	Off  bool     // not even the default set is protected
	Also []string // further paths, relative to the workspace, in order
}

func (p Protect) equal(other Protect) bool {
	return p.Off == other.Off && slices.Equal(p.Also, other.Also)
}

// Totals bound all boxes of one tenant together, above the Limits of each.
// Every field must be above zero.
type Totals struct {
	Memory int64   // bytes, with what the boxes store in memory
	Pids   int64   // processes and threads
	CPU    float64 // CPUs' worth of time
	Boxes  int     // boxes that are open at the same time
	Disk   int64   // bytes that boxes with storage on disk may store there
	Egress int64   // bytes in an hour through the doors of boxes, in both directions
	// Browsers bounds the browsers of sessions that act at the same time.
	Browsers int
}

// The totals of a policy that does not state them, if no profile gives one box more.
const (
	DefaultTotalMemory = 8 << 30  // bytes
	DefaultTotalPids   = 4096     // processes and threads
	DefaultTotalCPU    = 4.0      // CPUs' worth of time
	DefaultTotalBoxes  = 16       // boxes that are open at the same time
	DefaultTotalDisk   = 16 << 30 // bytes
	DefaultTotalEgress = 16 << 30 // bytes in an hour
	// DefaultTotalBrowsers is how many sessions of a tenant can have a browser at the same
	// time.
	DefaultTotalBrowsers = 2
)

// Limit names a bound that a host may or may not be able to enforce; profiles
// list them under require.
type Limit string

// The limits that depend on what the host offers.
const (
	LimitMemory Limit = "memory"
	LimitPids   Limit = "pids"
	LimitCPU    Limit = "cpu"
	LimitIO     Limit = "io"
	LimitDisk   Limit = "disk"
)

var requirable = []string{string(LimitMemory), string(LimitPids), string(LimitCPU), string(LimitIO), string(LimitDisk)}
