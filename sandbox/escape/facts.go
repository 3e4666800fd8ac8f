package escape

import (
	"io"

	"belljar.dev/policies"
)

// Facts describe to a prober its victims and the place where it runs.
type Facts struct {
	Host      Victim // lives outside the box
	Neighbour Victim // lives in the box of another tenant; outside, the same as Host
	Sibling   Victim // is another command of the prober's box, for probes that ask for one

	// Init is process 1 of a box. Outside it stands for a process that a
	// probe may do the same to.
	Init int
	// Everyone is the target of a signal to everybody: -1 in a box. Outside, -1
	// would be all processes of the user, so there it is a process group made
	// for this purpose.
	Everyone int

	Marker    string   // an argument of the processes that try to outlive a call
	Hostname  string   // of the host
	Mount     uint64   // the number of the host's root mount, if it has one
	Addresses []string // of the host, loopback aside
	Listing   []string // names in the workspace, before anything was tried
	Workspace string   // on the host; empty in a box
	Owner     int      // of the workspace, on the host
	Proxy     string   // where a program of the place asks for a proxy
	Limits    policies.Limits
}

// Victim is a set of targets in one place. All of them contain the token, which
// nothing else does.
type Victim struct {
	Token string
	Pid   int    // as the host numbers it
	At    uint64 // address of the token in its memory

	Dir    string // with all its files
	File   string // holds the token
	Handle []byte // of File, name_to_handle_at(2)
	Kind   int32  // of the handle
	Shm    string // a file in /dev/shm with the token
	Sockets
	Terminal string // a pseudo-terminal
	Key      int32  // a key of the user's keyring
	Memory   int    // key of a SysV shared memory segment with the token
	Queue    int    // key of a SysV message queue
	Sem      int    // key of a SysV semaphore
	Mq       string // name of a POSIX message queue
	Fifo     string // a named pipe in Dir

	Namespaces map[string]string // kind -> what /proc/self/ns/kind points to

	ids  ipc
	open []io.Closer // its sockets and its terminal
}

// Sockets are where a victim listens. Each answers with the token, except for Relay.
type Sockets struct {
	Socket   string // a unix socket in Victim.Dir
	Abstract string // a unix socket without a path
	Port     int    // a TCP port of the loopback interface
	UDP      int    // a UDP port of the loopback interface
	Own      string // an address that is not a loopback one, with a port of TCP and UDP; empty without one
	Relay    int    // a TCP port of the loopback interface, of a proxy that connects to wherever it is asked to
}

// ipc are the ids, or -1, of what would outlive a victim that did not remove it.
type ipc struct{ shm, queue, sem, mq int }
