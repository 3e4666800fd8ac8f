package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/limit"
	"golang.org/x/sys/unix"
)

// Bounds of what is published.
const (
	maxPublished = 16  // ports of one box
	maxVisitors  = 256 // connections of one port at the same time
	maxListening = 256 // ports that are looked for
	maxSocketRow = 512 // bytes of a row of /proc/net/tcp
)

// Published is a port of a box that can be reached on the host's loopback.
type Published struct {
	Port uint16         // port in the box
	At   netip.AddrPort // address on the host
	box  *Box
	l    net.Listener
	wg   sync.WaitGroup // goroutines of serve and of the connections

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

// Publish makes a port of the box available on the host, for a person who wants to open
// what runs there. The address must be a loopback one; port 0 takes a free one. Whether
// something listens in the box is seen when somebody connects. The published port ends with
// Close or with the box. The error is a *limit.Refusal if the grant of the box does not
// publish the port.
func (b *Box) Publish(ctx context.Context, port uint16, at netip.AddrPort) (*Published, error) {
	if !at.Addr().IsLoopback() {
		return nil, &limit.Refusal{Message: fmt.Sprintf("port %d can be published only on a loopback address of the host, for example 127.0.0.1, and not on %s", port, at.Addr())}
	}
	b.table.mu.Lock()
	err := b.ports.may(b, port)
	b.table.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", at.String())
	if err != nil {
		return nil, fmt.Errorf("publish port %d: %w", port, err)
	}
	p := &Published{Port: port, At: netip.MustParseAddrPort(l.Addr().String()), box: b, l: l, open: map[net.Conn]struct{}{}}
	b.table.mu.Lock()
	if err = b.ports.may(b, port); err == nil { // the policy may have changed since
		b.ports.open = append(b.ports.open, p)
		p.wg.Go(p.serve)
	}
	b.table.mu.Unlock()
	if err != nil {
		l.Close()
		return nil, err
	}
	return p, nil
}

// ports are the ports of a box that may be published, and those that are published. It is
// guarded by the mu of the box's table.
type ports struct {
	allowed []policies.PortRange
	open    []*Published
}

// may returns why a port of the box cannot be published, or nil.
func (p *ports) may(b *Box, port uint16) error {
	switch {
	case b.table.cause != nil:
		return b.table.goneErr()
	case !covers(p.allowed, port):
		return &limit.Refusal{Message: fmt.Sprintf("profile %q does not publish port %d; the policy has to list it under publish, for example publish: [%d]", b.grant.Profile(), port, port)}
	case len(p.open) >= maxPublished:
		return &limit.Refusal{Message: fmt.Sprintf("%d ports of the box are published; close one first", maxPublished), Err: limit.ErrTooMany}
	}
	return nil
}

func covers(ranges []policies.PortRange, port uint16) bool {
	return slices.ContainsFunc(ranges, func(r policies.PortRange) bool { return r.First <= port && port <= r.Last })
}

// Published returns the ports of the box that can be reached, oldest first.
func (b *Box) Published() []*Published {
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	return slices.Clone(b.ports.open)
}

// Close ends the port and the connections through it, and waits for them. It may be called
// twice.
func (p *Published) Close() error {
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.l.Close()
	p.wg.Wait()
	p.box.table.mu.Lock()
	p.box.ports.open = slices.DeleteFunc(p.box.ports.open, func(other *Published) bool { return other == p })
	p.box.table.mu.Unlock()
	return nil
}

func (p *Published) serve() {
	for {
		c, err := p.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			p.box.sup.cfg.Log.Warn("publish a port", "box", p.box.id, "port", p.Port, "err", err)
			select {
			case <-p.box.init.gone:
				return
			case <-time.After(100 * time.Millisecond): // usually because of a lack of descriptors
			}
			continue
		}
		if !p.keep(c) {
			c.Close()
			continue
		}
		p.wg.Go(func() {
			defer p.drop(c)
			p.visit(c)
		})
	}
}

// keep remembers a connection, so that Close can end it, and reports whether there was
// room.
func (p *Published) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.open) >= 2*maxVisitors {
		return false
	}
	p.open[c] = struct{}{}
	return true
}

func (p *Published) drop(c net.Conn) {
	c.Close()
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
}

// visit connects a person's connection with the box.
func (p *Published) visit(c net.Conn) {
	//nolint:forbidigo // the connection has no caller; DialPort has bounds of its own, and the box's end ends it
	inside, err := p.box.DialPort(context.Background(), p.Port)
	if err != nil {
		p.box.sup.cfg.Log.Info("published port", "box", p.box.id, "err", err)
		return
	}
	if !p.keep(inside) {
		inside.Close()
		return
	}
	defer p.drop(inside)
	var both sync.WaitGroup
	both.Go(func() { pass(inside, c) })
	both.Go(func() { pass(c, inside) })
	both.Wait()
}

// pass copies one direction to its end, and then closes that direction of the other side.
func pass(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	to.Close()
	from.Close()
}

// Listening returns the TCP ports on which something in the box listens, in order, without
// those of the door.
func (b *Box) Listening() ([]uint16, error) {
	b.life.waking.RLock()
	defer b.life.waking.RUnlock()
	if b.life.parked {
		return nil, nil
	}
	var ports []uint16
	for _, name := range []string{"tcp", "tcp6"} {
		found, err := listening(fmt.Sprintf("/proc/%d/net/%s", b.init.process.Pid, name))
		if err != nil {
			return nil, fmt.Errorf("find ports of box %s: %w", b.id, err)
		}
		ports = append(ports, found...)
	}
	slices.Sort(ports)
	return slices.Compact(ports), nil
}

// listening reads a table of sockets (proc_pid_net(5), /proc/net/tcp): local
// address and port in hexadecimal, the address of the other side, the state.
func listening(table string) ([]uint16, error) {
	f, err := os.Open(table)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const listen = "0A"
	door := doorAddr.As4()
	own := fmt.Sprintf("%02X%02X%02X%02X", door[3], door[2], door[1], door[0]) // in the byte order of the machine
	var ports []uint16
	rows := bufio.NewScanner(f)
	rows.Buffer(nil, maxSocketRow)
	for rows.Scan() && len(ports) < maxListening {
		field := strings.Fields(rows.Text())
		if len(field) < 4 || field[3] != listen {
			continue
		}
		addr, hex, ok := strings.Cut(field[1], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		if !ok || err != nil || addr == own {
			continue
		}
		ports = append(ports, uint16(port))
	}
	return ports, rows.Err()
}

// maxConnect bounds the wait for a server in the box to accept a connection, in seconds. A
// server that listens accepts immediately.
const maxConnect = 5

// DialPort connects to a port of the box, like a program in the box that connects to
// 127.0.0.1. The caller must close the connection. DialPort fails if nothing listens there.
func (b *Box) DialPort(ctx context.Context, port uint16) (net.Conn, error) {
	if err := b.life.stay(ctx); err != nil {
		return nil, err
	}
	fd, err := b.init.socket(ctx)
	b.life.waking.RUnlock()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "port "+strconv.Itoa(int(port)))
	defer f.Close()
	// A descriptor that came from an init may be any kind of file.
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || kind != unix.AF_INET {
		return nil, fmt.Errorf("dial port %d of box %s: no socket", port, b.id)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: maxConnect}); err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(port)}); err != nil {
		return nil, fmt.Errorf("dial port %d of box %s: %w", port, b.id, err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{}); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}
