package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// peer is the process at the other end of a control socket. The kernel identifies it
// (unix(7), SO_PEERCRED).
type peer struct {
	uid uint32
	pid int32
	err error // why the process is not known, or why its requests are refused
}

// callerKey is the key for the caller of a request in its context.
type callerKey struct{}

// withCaller adds the process that connected to the context.
func withCaller(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, callerKey{}, callerOf(c))
}

func callerOf(c net.Conn) peer {
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return peer{err: errors.New("the connection is not a Unix socket")}
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{err: err}
	}
	var who peer
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			who.err = err
			return
		}
		who = peer{uid: cred.Uid, pid: cred.Pid}
	})
	if who.err = errors.Join(who.err, err); who.err == nil {
		who.err = who.check()
	}
	return who
}

// check returns an error if requests of a process must be refused, because it belongs to
// another user or is in a box. No box can see the socket. But a box of an ordinary user has
// that user's uid, so if a box saw the socket by mistake, its processes would be taken for
// the user's own. Every box has its own user namespace, which check recognizes.
func (c peer) check() error {
	if int(c.uid) != os.Geteuid() && c.uid != 0 {
		return fmt.Errorf("uid %d is not the user of this server", c.uid)
	}
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return err
	}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", c.pid))
	if err != nil {
		return fmt.Errorf("process %d cannot be inspected: %w", c.pid, err)
	}
	if own != theirs {
		return fmt.Errorf("process %d is in a box, or in another container than this server", c.pid)
	}
	return nil
}

// String returns the caller's name for logs and agents.
func (c peer) String() string {
	text := "uid " + strconv.FormatUint(uint64(c.uid), 10)
	if u, err := user.LookupId(strconv.FormatUint(uint64(c.uid), 10)); err == nil {
		text = u.Username + " (" + text + ")"
	}
	return text
}

// known passes on requests only from callers that are allowed.
func known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := r.Context().Value(callerKey{}).(peer)
		if !ok {
			who.err = errors.New("the caller is not known")
		}
		if who.err != nil {
			Respond(w, http.StatusForbidden, "refused: "+who.err.Error())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Caller returns the name of the user whose command sent a request, for logs and agents.
func Caller(r *http.Request) string {
	who, _ := r.Context().Value(callerKey{}).(peer)
	return who.String()
}

// Self returns the name of the user of this process. In the servers to which this process
// sends requests, Caller returns the same name.
func Self() string { return peer{uid: uint32(os.Geteuid())}.String() }
