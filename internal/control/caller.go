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

// withCaller returns a context that contains the process which opened the connection.
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
		who.err = who.check(uint32(os.Geteuid()))
	}
	return who
}

// check returns an error if requests of a process must be refused, because it does not
// belong to the user self of this server, or has another user namespace than this server:
// that of a box or of another container. No box can see the socket. But a box of an ordinary
// user has that user's uid, so if a box saw the socket by mistake, its processes would be
// taken for the user's own. Every box has its own user namespace, which check recognizes.
//
// Root is refused too, unless it is the user of the server: an ordinary user cannot read the
// namespace of a process of root (ptrace(2), PTRACE_MODE_READ), so check could not recognize
// a box of a server of root. Root can become any user.
func (c peer) check(self uint32) error {
	switch c.uid {
	case self:
	case 0:
		return fmt.Errorf("root is not the user of this server; run the command as its user: runuser -u %s -- belljar COMMAND", userName(self))
	default:
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

// userName returns the name of a user for a command line, or USER if it has none.
func userName(uid uint32) string {
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		return u.Username
	}
	return "USER"
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

// Caller returns the name of the user whose command sent a request, for logs and agents. It
// is "unknown" if the request did not come over a control socket: the zero peer has the uid
// of root.
func Caller(r *http.Request) string {
	who, ok := r.Context().Value(callerKey{}).(peer)
	if !ok || who.err != nil {
		return "unknown"
	}
	return who.String()
}

// Self returns the name of the user of this process. In the servers to which this process
// sends requests, Caller returns the same name.
func Self() string { return peer{uid: uint32(os.Geteuid())}.String() }
