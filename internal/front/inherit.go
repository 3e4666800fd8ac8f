package front

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// firstFD is the first descriptor that a process inherits after its standard streams
// (sd_listen_fds(3)).
const firstFD = 3

// maxInherited is the maximum number of inherited descriptors.
const maxInherited = 8

// The environment variables that describe the inherited descriptors. The last one belongs
// to belljar: it contains the number of the process that hands over, and how often a server
// was handed over before.
const (
	varFDs      = "LISTEN_FDS"
	varPID      = "LISTEN_PID"
	varNames    = "LISTEN_FDNAMES"
	varHandover = "BELLJAR_HANDOVER"
)

// The names of descriptors. A socket with any other name is the one for clients: systemd
// gives a socket without a name of its own the name of its unit.
const (
	nameClients = "http"
	nameAdmin   = "admin"
	NameConsole = "console"
	nameAnswers = "answers" // for answers to a webhook; only a server hands it over
	nameBefore  = "before"  // socket to the process that hands over
)

// kindOf returns the index of the listener for a socket with a name.
func kindOf(name string) int {
	switch name {
	case nameAdmin:
		return 1
	case NameConsole:
		return 2
	case nameAnswers:
		return 3
	}
	return 0
}

// Inherited contains the sockets that a server got at its start from its service manager,
// or from the server before it. The zero value contains none.
type Inherited struct {
	Handovers int // how often a server was handed over before this one started
	// listeners for clients, for the admin listener, for the console, and for answers to a
	// webhook; nil if it was not inherited, or was taken
	listeners [4]net.Listener
	before    *os.File      // socket to the process that hands over; nil without such a process
	ended     chan struct{} // see Ended
	// socket of the server before, whose name this server removes at its end; nil without
	// such a server
	socket *net.UnixListener
}

// Inherit takes the descriptors that the environment variables of a process name, if they
// are meant for this process. Programs that this process starts do not inherit them. clear
// removes a variable.
func Inherit(getenv func(string) string, clear func(string) error) (*Inherited, error) {
	count, _ := strconv.Atoi(getenv(varFDs)) // 0 if it is not a number
	if count <= 0 {
		return &Inherited{}, nil
	}
	in := &Inherited{}
	from, done, ours := strings.Cut(getenv(varHandover), ":")
	if ours {
		in.Handovers, _ = strconv.Atoi(done)
		ours = from == strconv.Itoa(os.Getppid())
	}
	meant := ours || getenv(varPID) == strconv.Itoa(os.Getpid())
	names := strings.Split(getenv(varNames), ":")
	for _, name := range []string{varFDs, varPID, varNames, varHandover} {
		if err := clear(name); err != nil {
			return nil, err
		}
	}
	switch {
	case !meant: // they are meant for a program that started this one
		return &Inherited{}, nil
	case count > maxInherited:
		return nil, fmt.Errorf("%s: %d sockets, and this server can use only one for clients and one with the name %s", varFDs, count, nameAdmin)
	}
	for i := range count {
		unix.CloseOnExec(firstFD + i)
	}
	for i := range count {
		name := ""
		if i < len(names) {
			name = names[i]
		}
		if err := in.take(os.NewFile(uintptr(firstFD+i), name), ours); err != nil {
			in.Close()
			return nil, fmt.Errorf("%s: descriptor %d (%s): %w", varFDs, firstFD+i, name, err)
		}
	}
	return in, nil
}

// take takes one descriptor.
func (in *Inherited) take(f *os.File, ours bool) error {
	if f.Name() == nameBefore && ours {
		in.before, in.ended = f, make(chan struct{})
		return nil
	}
	defer f.Close() // the listener has its own descriptor
	l, err := net.FileListener(f)
	if err != nil {
		return err
	}
	at := kindOf(f.Name())
	if f.Name() == nameAnswers && !ours {
		at = kindOf(nameClients)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the name belongs to the service manager, or to the server before
		if ours {
			in.socket = u
		}
		if f.Name() != nameAdmin {
			l.Close()
			who := "clients"
			if f.Name() == NameConsole {
				who = "browsers"
			}
			return fmt.Errorf("%s connect by TCP, and this is a Unix socket", who)
		}
	}
	if in.listeners[at] != nil {
		l.Close()
		return errors.New("there are two sockets of this kind")
	}
	in.listeners[at] = l
	return nil
}

// listener returns the inherited listener with a name, once; otherwise nil.
func (in *Inherited) listener(name string) (l net.Listener) {
	if in == nil {
		return nil
	}
	at := kindOf(name)
	l, in.listeners[at] = in.listeners[at], nil
	return l
}

// ListenAnswers opens the port for answers to a webhook, which is reachable only from this
// machine. A successor inherits it from the server before.
func ListenAnswers(ctx context.Context, addr string, from *Inherited) (net.Listener, error) {
	loopback, err := checkShape(addr)
	switch {
	case err != nil:
		return nil, err
	case !loopback:
		return nil, fmt.Errorf("listen on %q: not a loopback address, so others could reach it; use 127.0.0.1", addr)
	}
	if l := from.listener(nameAnswers); l != nil {
		return l, nil
	}
	return listen(ctx, "--webhook-answers", addr)
}

// Admin reports whether an admin listener was inherited.
func (in *Inherited) Admin() bool { return in != nil && in.listeners[kindOf(nameAdmin)] != nil }

// Console reports whether a listener for the console was inherited.
func (in *Inherited) Console() bool { return in != nil && in.listeners[kindOf(NameConsole)] != nil }

// Ready notifies the server before this one that this server accepts the connections from
// now on. It does nothing if there is no such server.
func (in *Inherited) Ready() error {
	if in == nil || in.before == nil {
		return nil
	}
	if _, err := io.WriteString(in.before, readyLine); err != nil {
		return fmt.Errorf("take over from the previous server: %w", err)
	}
	if in.socket != nil {
		in.socket.SetUnlinkOnClose(true)
	}
	return nil
}

// Ended returns a channel that is closed when the server before this one has ended; nil if
// there is no such server.
func (in *Inherited) Ended() <-chan struct{} {
	if in == nil {
		return nil
	}
	return in.ended
}

// Follow waits until the server before has ended, or until ctx ends.
func (in *Inherited) Follow(ctx context.Context) {
	if in == nil || in.before == nil {
		return
	}
	defer context.AfterFunc(ctx, func() { in.before.Close() })()
	_, _ = io.Copy(io.Discard, in.before) // the other end writes nothing, and its end is the end of the file
	in.before.Close()
	close(in.ended)
}

// Close closes the sockets that were not taken.
func (in *Inherited) Close() {
	if in == nil {
		return
	}
	for _, l := range in.listeners {
		if l != nil {
			l.Close()
		}
	}
	if in.before != nil {
		in.before.Close()
	}
}

// successorWait is how long a successor may take until it can serve.
const successorWait = 10 * time.Second

// readyLine is the line that a successor writes when it can serve.
const readyLine = "ready\n"

// Handover contains what a successor inherits at its start.
type Handover struct {
	Files []*os.File // descriptors 3 and up
	Env   []string   // further environment variables
	to    *os.File   // the socket to the successor
}

// NewHandover returns what a successor of a front inherits. admin, console and answers, the
// listener for answers to a webhook, may be nil. handovers counts this hand-over and those
// before. The caller calls Sent when the successor has started, and Close when this server
// has ended or the successor was not ready.
func NewHandover(f *Front, admin *Admin, console *Front, answers net.Listener, handovers int) (_ *Handover, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket to the successor: %w", err)
	}
	h := &Handover{to: os.NewFile(uintptr(fds[0]), "successor"), Files: []*os.File{os.NewFile(uintptr(fds[1]), nameBefore)}}
	names := []string{nameBefore, nameClients}
	err = h.lend(f.port)
	if err == nil && admin != nil {
		names = append(names, nameAdmin)
		err = h.lend(admin.listener)
	}
	if err == nil && console != nil {
		names = append(names, NameConsole)
		err = h.lend(console.port)
	}
	if err == nil && answers != nil {
		names = append(names, nameAnswers)
		err = h.lend(answers)
	}
	if err != nil {
		h.Sent()
		h.Close()
		return nil, fmt.Errorf("hand over the sockets: %w", err)
	}
	h.Env = []string{
		varFDs + "=" + strconv.Itoa(len(names)), varNames + "=" + strings.Join(names, ":"),
		varHandover + "=" + strconv.Itoa(os.Getpid()) + ":" + strconv.Itoa(handovers),
	}
	return h, nil
}

// lend adds the descriptor of a listener. It does not use the listener's File:
// os.StartProcess would make that descriptor blocking, and so the listener itself. An
// Accept that begins before the successor has changed this back would then wait for the
// next client, and nothing could close the listener.
func (h *Handover) lend(l net.Listener) error {
	lender, ok := l.(syscall.Conn)
	if !ok {
		return fmt.Errorf("%v: it has no descriptor", l.Addr())
	}
	raw, err := lender.SyscallConn()
	if err != nil {
		return err
	}
	var copied int
	var failed error
	err = raw.Control(func(fd uintptr) { copied, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = cmp.Or(err, failed); err == nil {
		h.Files = append(h.Files, os.NewFile(uintptr(copied), l.Addr().String()))
	}
	return err
}

// Sent closes the descriptors that the successor now has. Otherwise this process would not
// notice the end of the successor.
func (h *Handover) Sent() {
	for _, f := range h.Files {
		f.Close()
	}
	h.Files = nil
}

// Await waits until the successor reports that it can serve.
func (h *Handover) Await(ctx context.Context) error {
	if err := h.to.SetReadDeadline(time.Now().Add(successorWait)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = h.to.SetReadDeadline(time.Unix(1, 0)) })()
	line := make([]byte, len(readyLine))
	_, err := io.ReadFull(h.to, line)
	switch {
	case err == nil && string(line) == readyLine:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it was not ready within %v", successorWait)
	}
	return errors.New("it ended before it was ready; the lines above say why")
}

// Close closes the socket to the successor, which then does not wait for this server any
// more.
func (h *Handover) Close() { h.to.Close() }
