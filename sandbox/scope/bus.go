package scope

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"
)

// socket is a place at which a service manager is reached.
type socket struct {
	path string
	// whether a message bus is in between, which requires a greeting and passes on only the
	// signals that were asked for
	bus bool
}

// sockets returns the places at which to look for the manager of a user. The paths are
// fixed (file-hierarchy(7), pam_systemd(8)): the environment of belljar is that of its
// client, which must not choose the manager. The second place is the one that systemctl
// uses, for hosts on which dbus-user-session is not installed.
func sockets(uid int) []socket {
	dir := "/run/user/" + strconv.Itoa(uid)
	return []socket{{dir + "/bus", true}, {dir + "/systemd/private", false}}
}

// The interface of systemd, org.freedesktop.systemd1(5).
const (
	managerName = "org.freedesktop.systemd1"
	managerPath = "/org/freedesktop/systemd1"
	managerType = managerName + ".Manager"
)

// maxAnswers bounds the bytes that are read from a manager in total.
const maxAnswers = 1 << 20

// start makes the first manager that can be reached start a scope with this process in it,
// and waits until the scope exists.
func start(ctx context.Context, from []socket, unit string) error {
	lack := ErrNoManager
	for _, s := range from {
		m, err := connect(ctx, s)
		if err != nil {
			lack = fmt.Errorf("%w; %w", lack, err) // in one line, for doctor
			continue
		}
		err = startScope(ctx, m, s.bus, unit)
		m.Close()
		return err
	}
	return lack
}

// connect opens a connection to the manager, which ends with ctx.
func connect(ctx context.Context, s socket) (_ *dbus.Conn, err error) {
	wire, err := new(net.Dialer).DialContext(ctx, "unix", s.path)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		_ = wire.SetDeadline(end) // the authentication takes no context
	}
	conn, err := dbus.NewConn(bounded{wire, io.LimitReader(wire, maxAnswers)}, dbus.WithContext(ctx))
	if err != nil {
		return nil, errors.Join(err, wire.Close())
	}
	err = conn.Auth(nil) // as this user, which the kernel reports for the socket
	if err == nil && s.bus {
		err = conn.Hello()
	}
	if err == nil { // a bus may have no manager
		err = ping(ctx, conn)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("greet %s: %w", s.path, late(ctx, err)), conn.Close())
	}
	return conn, nil
}

// ping waits until the manager answers. If systemd reads, at its private socket, the end of
// the greeting and the first message together, it does not look at the message until
// something follows (seen with 252: one connection of five).
func ping(ctx context.Context, conn *dbus.Conn) error {
	const method = "org.freedesktop.DBus.Peer.Ping"
	peer := conn.Object(managerName, managerPath)
	first := peer.GoWithContext(ctx, method, 0, make(chan *dbus.Call, 1))
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case call := <-first.Done:
			return call.Err
		case <-again.C:
			peer.GoWithContext(ctx, method, dbus.FlagNoReplyExpected, nil)
		}
	}
}

// bounded is a connection whose reader has a limit.
type bounded struct {
	net.Conn
	reader io.Reader
}

func (b bounded) Read(p []byte) (int, error) { return b.reader.Read(p) }

// property is one property of a unit, of the D-Bus type (sv).
type property struct {
	Name  string
	Value dbus.Variant
}

// startScope asks for a scope with this process, and waits for the job that makes it.
func startScope(ctx context.Context, m *dbus.Conn, bus bool, unit string) error {
	ended := make(chan *dbus.Signal, 16)
	m.Signal(ended)
	manager := m.Object(managerName, managerPath)
	if bus {
		if err := m.AddMatchSignalContext(ctx, dbus.WithMatchInterface(managerType), dbus.WithMatchMember("JobRemoved")); err != nil {
			return late(ctx, err)
		}
	}
	if err := manager.CallWithContext(ctx, managerType+".Subscribe", 0).Err; err != nil {
		return late(ctx, err)
	}
	properties := []property{
		{"Description", dbus.MakeVariant("Boxes of belljar")},
		// Zero means the process that sends the message: systemd takes its pid from the
		// socket, so that the pid is right even if this PID namespace is not that of the
		// manager.
		{"PIDs", dbus.MakeVariant([]uint32{0})},
		{"Delegate", dbus.MakeVariant(true)},
		// A failed scope is forgotten like any other.
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")},
	}
	auxiliary := []struct {
		Name       string
		Properties []property
	}{}
	var job dbus.ObjectPath
	if err := manager.CallWithContext(ctx, managerType+".StartTransientUnit", 0, unit, "fail", properties, auxiliary).Store(&job); err != nil {
		return late(ctx, err)
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case s, open := <-ended:
			if !open {
				return late(ctx, errors.New("the service manager closed the connection"))
			}
			var (
				id         uint32
				path       dbus.ObjectPath
				of, result string
			)
			if s.Name != managerType+".JobRemoved" || dbus.Store(s.Body, &id, &path, &of, &result) != nil || path != job {
				continue
			}
			if result != "done" {
				return fmt.Errorf("the job ended as %q", result)
			}
			return nil
		}
	}
}

// late returns why ctx ended if it has ended, and otherwise err.
func late(ctx context.Context, err error) error {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		<-ctx.Done() // the timer of ctx may be behind that of the connection
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
