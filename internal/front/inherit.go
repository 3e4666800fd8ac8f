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

// firstFD is the first descriptor that a process is started with beside its standard
// streams (sd_listen_fds(3)).
const firstFD = 3

// maxInherited is how many of them there may be.
const maxInherited = 8

// The variables by which a process learns of its descriptors. The last one is our own: the
// number of the process that hands over, and how often that was done before.
const (
	varFDs      = "LISTEN_FDS"
	varPID      = "LISTEN_PID"
	varNames    = "LISTEN_FDNAMES"
	varHandover = "BELLJAR_HANDOVER"
)

// The names of descriptors. A socket of any other name is that of clients: without a name
// of its own it has that of its unit.
const (
	nameClients = "http"
	nameAdmin   = "admin"
	NameConsole = "console"
	nameAnswers = "answers" // of a webhook; only servers hand it over
	nameBefore  = "before"  // the process that hands over
)

// kindOf returns which of the listeners a socket of a name is.
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

// Inherited is what a server was started with by its service manager, or by the server
// before it. The zero value is nothing.
type Inherited struct {
	Handovers int               // how often a server was handed over before this one began
	listeners [4]net.Listener   // of clients, of the admin listener, of the console, for answers to a webhook; nil for none, or taken
	before    *os.File          // a socket to the process that hands over; nil for none
	ended     chan struct{}     // see Ended
	socket    *net.UnixListener // of the server before, whose name this one removes at its end; nil for none
}

// Inherit takes the descriptors that the variables of a process name, if they are meant
// for it. No program that this process starts gets them. clear removes a variable.
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
	case !meant: // they are those of a program that started this one
		return &Inherited{}, nil
	case count > maxInherited:
		return nil, fmt.Errorf("%s: %d sockets, and this server has use for one of clients and one called %s", varFDs, count, nameAdmin)
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
	defer f.Close() // a listener has a descriptor of its own
	l, err := net.FileListener(f)
	if err != nil {
		return err
	}
	at := kindOf(f.Name())
	if f.Name() == nameAnswers && !ours {
		at = kindOf(nameClients)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // its name belongs to the service manager, or to the server before
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
		return errors.New("there are two of this kind")
	}
	in.listeners[at] = l
	return nil
}

// listener returns the inherited listener of a name, once; nil for none.
func (in *Inherited) listener(name string) (l net.Listener) {
	if in == nil {
		return nil
	}
	at := kindOf(name)
	l, in.listeners[at] = in.listeners[at], nil
	return l
}

// ListenAnswers opens the port for answers to a webhook, which only this machine reaches. A
// successor has it from the server before.
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

// Admin reports whether there is a listener for the admin listener.
func (in *Inherited) Admin() bool { return in != nil && in.listeners[kindOf(nameAdmin)] != nil }

// Console reports whether there is a listener for the console.
func (in *Inherited) Console() bool { return in != nil && in.listeners[kindOf(NameConsole)] != nil }

// Ready tells the server before this one that the connections come here from now on.
// Without such a server it does nothing.
func (in *Inherited) Ready() error {
	if in == nil || in.before == nil {
		return nil
	}
	if _, err := io.WriteString(in.before, readyLine); err != nil {
		return fmt.Errorf("take over from the server before: %w", err)
	}
	if in.socket != nil {
		in.socket.SetUnlinkOnClose(true)
	}
	return nil
}

// Ended is closed when the server before this one has ended; nil without such a server.
func (in *Inherited) Ended() <-chan struct{} {
	if in == nil {
		return nil
	}
	return in.ended
}

// Follow waits until the server before has ended, or ctx has.
func (in *Inherited) Follow(ctx context.Context) {
	if in == nil || in.before == nil {
		return
	}
	defer context.AfterFunc(ctx, func() { in.before.Close() })()
	_, _ = io.Copy(io.Discard, in.before) // it writes nothing; at its end there is the end of file
	in.before.Close()
	close(in.ended)
}

// Close closes what nobody has taken.
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

// readyLine is what a successor writes once it can serve.
const readyLine = "ready\n"

// Handover is what a successor is started with.
type Handover struct {
	Files []*os.File // descriptors 3 and up
	Env   []string   // further variables
	to    *os.File   // the socket to it
}

// NewHandover makes what a successor of a front is started with; admin and console may be
// nil, and so may answers, the listener for answers to a webhook. handovers counts this one
// and those before. The caller calls Sent once the successor is started, and Close when this
// server has ended, or it was not ready.
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

// lend adds the descriptor of a listener. It is not that of the listener's File, which
// os.StartProcess would make one that blocks, and with it the listener itself: an Accept
// that begins before the successor has changed that back would wait for the next client,
// and nothing could close the listener.
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

// Sent closes the descriptors that the successor has now: its end would not be seen else.
func (h *Handover) Sent() {
	for _, f := range h.Files {
		f.Close()
	}
	h.Files = nil
}

// Await waits until the successor says that it can serve.
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

// Close ends the socket to the successor, which then waits for nothing of this server.
func (h *Handover) Close() { h.to.Close() }
