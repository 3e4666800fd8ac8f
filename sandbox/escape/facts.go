package escape

import (
	"io"

	"belljar.dev/policies"
)

// Facts are what a prober is told about its victims and its place.
type Facts struct {
	Host      Victim // lives outside the box
	Neighbour Victim // lives in the box of another tenant; outside, the same as Host
	Sibling   Victim // is another command of the prober's box, for probes that ask for one

	// Init is process 1 of a box. Outside it stands for a process that a
	// probe may do the same to.
	Init int
	// Everyone is who a signal to -1 would reach in a box. Outside, where that
	// would be all of the user's processes, it is a process group made for it.
	Everyone int

	Marker    string   // stands in the arguments of what tries to outlive a call
	Hostname  string   // of the host
	Mount     uint64   // the number of the host's root mount, if it has one
	Addresses []string // of the host, loopback aside
	Listing   []string // names in the workspace, before anything was tried
	Workspace string   // on the host; empty in a box
	Owner     int      // of the workspace, on the host
	Proxy     string   // where a program of the place asks for a proxy
	Limits    policies.Limits
}

// Victim is what one place holds for others to attack. All of it contains the
// token, which is known nowhere else.
type Victim struct {
	Token string
	Pid   int    // as the host numbers it
	At    uint64 // where the token stands in its memory

	Dir      string // with all its files
	File     string // holds the token
	Handle   []byte // of File, name_to_handle_at(2)
	Kind     int32  // of the handle
	Shm      string // a file in /dev/shm with the token
	Socket   string // a unix socket in Dir, answering with the token
	Abstract string // a unix socket without a path, the same
	Port     int    // a TCP port of the loopback interface, the same
	UDP      int    // a UDP port of the loopback interface, the same
	Own      string // an address that is not a loopback one, with a port of TCP and UDP, the same; empty without one
	Relay    int    // a TCP port of the loopback interface, of a proxy that connects to wherever it is asked to
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

// ipc are the ids, or -1, of what would outlive a victim that did not remove it.
type ipc struct{ shm, queue, sem, mq int }
