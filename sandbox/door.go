package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/egress"
	"belljar.dev/sandbox/netlink"
)

// How a box gets out, in order:
//
//  1. the init makes sockets before it builds the box and sends them to the
//     supervisor; a socket stays in the network namespace it was made in;
//  2. with two of them, for netlink, the supervisor makes every address local to
//     the box and redirects every TCP connection to the door;
//  3. on the others the supervisor listens and accepts connections; the door
//     dials from the host's network.
//
// Nothing else leads out: the namespace has a loopback interface only. While
// the door is not open, connections are refused.

// doorAddr is the address of the door in a box. Its network is that of RFC 2544,
// like the addresses that stand for names; nobody routes it. Because the door has
// an address of its own, it takes no port that a server of an agent may want.
var doorAddr = netip.AddrFrom4([4]byte{198, 19, 255, 254})

// Ports of doorAddr.
const (
	portTransparent = 1 // port to which every connection is redirected
	portProxy       = 2 // port for clients that use a proxy
	portDNS         = 53
	backlog         = 4096 // length of a listener's queue; net.core.somaxconn, the kernel's bound
)

// Proxy is the address, in every box with a network, of a proxy for clients that use one
// (RFC 9110, 3.7 and 9.3.6). No client has to use it.
var Proxy = netip.AddrPortFrom(doorAddr, portProxy).String()

// resolvConf names the door as the resolver (resolv.conf(5)). One attempt is enough,
// because the door answers immediately.
var resolvConf = "nameserver " + doorAddr.String() + "\noptions timeout:2 attempts:1\n"

// The sockets that an init makes for its network, in order. A box without a network gets
// only the first one: through it the supervisor finds out which names a program looks up,
// and can explain to the agent why no answer arrives.
const (
	socketNames = iota
	socketNamesStream
	socketTransparent
	socketProxy
	socketRoutes
	socketFilter
)

// doorSockets are the arguments of socket(2) for each of these sockets.
var doorSockets = []struct{ family, kind, protocol int }{
	socketNames:       {unix.AF_INET, unix.SOCK_DGRAM, 0},
	socketNamesStream: {unix.AF_INET, unix.SOCK_STREAM, 0},
	socketTransparent: {unix.AF_INET, unix.SOCK_STREAM, 0},
	socketProxy:       {unix.AF_INET, unix.SOCK_STREAM, 0},
	socketRoutes:      {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE},
	socketFilter:      {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER},
}

// socketCount returns how many of these sockets a box has.
func socketCount(n policies.Network) int {
	if n == policies.NetworkNone {
		return 1
	}
	return len(doorSockets)
}

// sockets adds the calls that make the sockets and send them to the supervisor.
func (p *plan) sockets(b *builder) {
	n := socketCount(p.network)
	b.Step("make sockets")
	var names boxinit.Slot
	var made []boxinit.Slot
	for i, s := range doorSockets[:n] {
		var slot boxinit.Slot
		if i == socketFilter {
			// A kernel without netfilter has no such socket. The init then sends
			// another one in its place, which does not work (see door.open).
			slot = b.Call(unix.SYS_DUP, names).Save()
			filter := b.Call(unix.SYS_SOCKET, s.family, s.kind|unix.SOCK_CLOEXEC, s.protocol).Ignore(unix.EPROTONOSUPPORT, 1).Save()
			b.Call(unix.SYS_DUP3, filter, slot, unix.O_CLOEXEC)
		} else {
			slot = b.Call(unix.SYS_SOCKET, s.family, s.kind|unix.SOCK_CLOEXEC, s.protocol).Save()
		}
		if i == socketNames {
			names = slot
		}
		made = append(made, slot)
	}
	b.Step("hand over the sockets")
	b.handOver(boxinit.SocketReply(), made...)
}

// initConn is the descriptor of an init's connection.
const initConn = 3

// door is the host's side of a box's way out.
type door struct {
	*egress.Door
	box *Box
	wg  sync.WaitGroup // counts the goroutines that serve
	// the listener for redirected connections and, if connections cannot be redirected, one
	// for each port
	files  []*entrance
	serves []io.Closer // the other sockets that are served
	ports  []uint16    // ports that are listened on, if connections cannot be redirected
	again  []uint16    // ports to listen on when the box wakes
	mu     sync.Mutex  // guards files, serves, ports and again
	how    string      // how connections leave the last init: "redirect", "ports", or "" if nothing leaves
	opened bool        // whether the supervisor has the sockets of the box
}

// take opens the way out of a box whose init has sent the sockets in files. It takes
// ownership of them.
func (d *door) take(files []int) (err error) {
	defer func() {
		boxinit.CloseAll(files)
		if err != nil {
			err = fmt.Errorf("open the egress door: %w", err)
		}
	}()
	network := d.box.grant.Network()
	if d.opened || len(files) != socketCount(network) {
		return fmt.Errorf("its init sent %d sockets", len(files))
	}
	d.opened = true
	if network == policies.NetworkNone {
		names, err := packetConn(files[socketNames], netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), portDNS))
		if err != nil {
			return err
		}
		d.serve(names, func() error { return d.ServeDNS(names) })
		return nil
	}
	return d.open(files)
}

// newDoor makes the door of a box, which is not open yet.
func (s *Supervisor) newDoor(b *Box) (*door, error) {
	c := egress.Config{
		Allowed: s.Allowance(b.grant), Egress: b.grant.Egress(), Profile: b.grant.Profile(), Resolver: s.cfg.Resolver, Roots: s.roots, Secret: s.cfg.Secret, Log: s.cfg.Log,
	}
	if s.cfg.Egress != nil {
		c.Record = func(r egress.Record) {
			r.Tenant = b.grant.Tenant()
			s.cfg.Egress(b.id, r)
		}
	}
	d, err := egress.New(c)
	if err != nil {
		return nil, fmt.Errorf("make the egress door: %w", err)
	}
	return &door{Door: d, box: b, again: b.grant.Egress().Ports()}, nil
}

// open sets the network up and begins to serve.
func (d *door) open(files []int) error {
	if err := netlink.AllLocal(files[socketRoutes], doorAddr); err != nil {
		return fmt.Errorf("set up the network: %w", err)
	}
	switch err := d.box.sup.redirect(files[socketFilter], netip.AddrPortFrom(doorAddr, portTransparent)); {
	case err == nil:
		d.how = "redirect"
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("redirect connections: %w", err)
	default: // this kernel has no nf_tables, or not all of it
		d.how = "ports"
	}
	names, err := packetConn(files[socketNames], netip.AddrPortFrom(doorAddr, portDNS))
	if err != nil {
		return err
	}
	d.serve(names, func() error { return d.ServeDNS(names) })
	if err := d.enter(files[socketTransparent], netip.AddrPortFrom(doorAddr, portTransparent), original); err != nil {
		return err
	}
	for _, s := range []struct {
		file  int
		port  uint16
		serve func(net.Listener) error
	}{
		{files[socketNamesStream], portDNS, d.ServeDNSStream},
		{files[socketProxy], portProxy, d.ServeProxy},
	} {
		l, err := listener(s.file, netip.AddrPortFrom(doorAddr, s.port))
		if err != nil {
			return err
		}
		d.serve(l, func() error { return s.serve(l) })
	}
	return nil
}

// serve runs f, which ends when the door or its file is closed.
func (d *door) serve(file io.Closer, f func() error) {
	d.mu.Lock()
	d.serves = append(d.serves, file)
	d.mu.Unlock()
	d.wg.Go(func() { d.served(f()) })
}

// served logs why a server of the door ended, unless the door was closed.
func (d *door) served(err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) {
		d.box.sup.cfg.Log.Error("serve the egress door", "box", d.box.id, "err", err)
	}
}

// listenOnPorts is for kernels that cannot redirect connections. It listens on the ports
// that the policy names, and so receives the connections to these ports of every address. A
// server in the box cannot use these ports.
func (d *door) listenOnPorts(ctx context.Context, ports []uint16) error {
	if d.box.life.parked { // parked does not change here: the callers hold life.waking
		d.mu.Lock()
		d.again = union(d.again, ports)
		d.mu.Unlock()
		return nil
	}
	if d.how != "ports" {
		return nil
	}
	for _, port := range ports {
		d.mu.Lock()
		known := slices.Contains(d.ports, port)
		d.mu.Unlock()
		if known {
			continue
		}
		fd, err := d.box.init.socket(ctx)
		if err != nil {
			return err
		}
		err = d.enter(fd, netip.AddrPortFrom(netip.IPv4Unspecified(), port), local)
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("listen on port %d: %w", port, err)
		}
		d.mu.Lock()
		d.ports = append(d.ports, port)
		d.mu.Unlock()
	}
	return nil
}

// set changes what the door lets through.
func (d *door) set(ctx context.Context, e *policies.Egress) error {
	if d.how == "" && !e.IsZero() {
		return errors.New("a box without a network cannot be given one; start a new session")
	}
	if err := d.Set(e); err != nil {
		return err
	}
	return d.listenOnPorts(ctx, e.Ports())
}

// listenAgain is listenOnPorts for the ports that a box had before it was parked,
// or has from the start.
func (d *door) listenAgain(ctx context.Context) error {
	d.mu.Lock()
	ports := d.again
	d.mu.Unlock()
	return d.listenOnPorts(ctx, ports)
}

// detach closes the listeners in the network of an init that has ended. Accepted
// connections continue to their end.
func (d *door) detach() {
	if d == nil {
		return // the box ended before newDoor
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.files {
		l.Close()
	}
	for _, l := range d.serves {
		l.Close()
	}
	d.again = union(d.again, d.ports)
	d.files, d.serves, d.ports, d.opened = nil, nil, nil, false
}

// union returns the ports of both lists, each once.
func union(a, b []uint16) []uint16 {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// close closes the door and waits for all its connections to end.
func (d *door) close() {
	_ = d.Close()
	d.mu.Lock()
	for _, l := range d.files {
		l.Close()
	}
	d.mu.Unlock()
	d.wg.Wait()
}

// enter serves, on a socket of the box, connections that a program makes to any address.
// The caller must still close fd.
func (d *door) enter(fd int, at netip.AddrPort, original func(net.Conn) (netip.AddrPort, error)) error {
	l, err := listener(fd, at)
	if err != nil {
		return err
	}
	e, err := newEntrance(l)
	if err != nil {
		l.Close()
		return err
	}
	d.mu.Lock()
	d.files = append(d.files, e)
	d.mu.Unlock()
	d.wg.Go(func() { d.served(d.ServeTransparent(e, original)) })
	return nil
}

// original returns the address to which a redirected connection was made.
func original(c net.Conn) (to netip.AddrPort, err error) {
	conn, ok := c.(*net.TCPConn)
	if !ok {
		return to, fmt.Errorf("a %T was not redirected", c)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return to, err
	}
	if control := raw.Control(func(fd uintptr) { to, err = netlink.Original(int(fd)) }); control != nil {
		return to, control
	}
	return to, err
}

// local returns the address to which a connection that was not redirected was made.
func local(c net.Conn) (netip.AddrPort, error) {
	addr, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("a %T has no address", c)
	}
	to := addr.AddrPort()
	return netip.AddrPortFrom(to.Addr().Unmap(), to.Port()), nil
}

// listener listens on a socket of a box. The caller must still close fd.
func listener(fd int, at netip.AddrPort) (net.Listener, error) {
	if err := bind(fd, at); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return nil, fmt.Errorf("listen on %s of the box: %w", at, err)
	}
	f, err := duplicate(fd)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileListener(f)
}

func packetConn(fd int, at netip.AddrPort) (net.PacketConn, error) {
	if err := bind(fd, at); err != nil {
		return nil, err
	}
	f, err := duplicate(fd)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FilePacketConn(f)
}

// bind binds a socket of a box. The network of the box may still be coming up.
func bind(fd int, at netip.AddrPort) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_FREEBIND, 1); err != nil {
		return fmt.Errorf("take over a socket of the box: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}); err != nil {
		return fmt.Errorf("bind to %s of the box: %w", at, err)
	}
	return nil
}

// duplicate returns a copy of fd as a file. The caller must close both.
func duplicate(fd int) (*os.File, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(n), "socket of a box"), nil
}
