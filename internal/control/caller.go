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
	err error // why the process is not known, or may not ask
}

// callerKey is where the context of a request holds its caller.
type callerKey struct{}

// withCaller puts the process that connected into the context.
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

// check says why a process may not ask: it belongs to another user, or it is in a box.
// No box can see the socket. But a box of an ordinary user has that user's uid, so if one
// were shown the socket by mistake, it would pass for its owner. Every box has a user
// namespace of its own, which gives it away.
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
		return fmt.Errorf("process %d cannot be looked at: %w", c.pid, err)
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

// known passes on only the requests of callers that may ask.
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

// Self returns the name of the user of this process. Caller returns the same name in the servers
// that this process asks.
func Self() string { return peer{uid: uint32(os.Geteuid())}.String() }
