package escape

import (
	"io"

	"belljar.dev/policies"
)

// Facts tell a prober its victims and the place where it runs.
type Facts struct {
	Host      Victim // the victim outside the box
	Neighbour Victim // the victim in the box of another tenant; outside, the same as Host
	// Sibling is another command of the prober's box; outside, another process of the same
	// user. Only probes that ask for one have it.
	Sibling Victim

	// Init is the process id of the box's init. Outside, it is that of a process on which a
	// probe may do the same.
	Init int
	// Everyone is the target of a signal to all processes (kill(2)): -1 in a box. Outside, -1
	// would mean all processes of the user, so there it is the negative id of a process group
	// that was made for this purpose, and 0 for probes without Probe.kills.
	Everyone int

	Marker    string   // name of what tries to outlive a call: an argument of processes, a file, a message queue
	Hostname  string   // name of the host
	Mount     uint64   // unique id of the mount of the host's / (statx(2)); 0 if the kernel reports none
	Addresses []string // addresses of the host, except loopback and link-local
	Listing   []string // names in the workspace before anything was tried
	Workspace string   // path of the workspace on the host; empty in a box
	Owner     int      // user id, on the host, of the owner of the workspace
	Proxy     string   // address of the proxy for programs in the place
	Limits    policies.Limits
}

// Victim is a set of targets in one place. A probe that reads the token has reached the
// victim: the token is in its memory, its arguments and environment, File, Shm, the key and
// the shared memory segment, and the Sockets answer with it. The terminal, the queues, the
// semaphore and the named pipe contain nothing: to open one is to reach it. The prober knows
// the token too, so to find it in the prober's own memory or arguments proves nothing.
type Victim struct {
	Token string
	Pid   int    // process id on the host; that of a Sibling in a box is its id in the box
	At    uint64 // address of the token in its memory

	Dir    string // directory with its files, except Shm
	File   string // path of a file with the token
	Handle []byte // handle of File, name_to_handle_at(2)
	Kind   int32  // type of the handle
	Shm    string // path of a file in /dev/shm with the token
	Sockets
	Terminal string // path of a pseudo-terminal
	Key      int32  // id of a key in the user's keyring
	Memory   int    // key of a SysV shared memory segment with the token
	Queue    int    // key of a SysV message queue
	Sem      int    // key of a SysV semaphore
	Mq       string // name of a POSIX message queue
	Fifo     string // path of a named pipe in Dir

	Namespaces map[string]string // by kind: what /proc/self/ns/kind points to

	ids  ipc
	open []io.Closer // its sockets, its terminal and its POSIX message queue
}

// Sockets are the addresses at which a victim listens. Each answers with the token, except
// Relay.
type Sockets struct {
	Socket   string // path of a unix socket in Victim.Dir
	Abstract string // a unix socket without a path
	Port     int    // a TCP port of the loopback interface
	UDP      int    // a UDP port of the loopback interface
	Own      string // an address that is not loopback, with a port of TCP and UDP; empty if the machine has none
	Relay    int    // a TCP port of the loopback interface, of a proxy that connects to every address
}

// ipc contains the ids of the SysV objects, and the descriptor of the POSIX queue. They
// outlive a victim that does not remove them. A value is -1 if an object was not made.
type ipc struct{ shm, queue, sem, mq int }
