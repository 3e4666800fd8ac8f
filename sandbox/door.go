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
//  1. its init makes sockets before anything else and sends them here; a
//     socket stays in the network namespace it was made in;
//  2. with two of them, for netlink, the supervisor makes every address the
//     box's own and sends every TCP connection to the door;
//  3. the others it binds and listens on, and accepts here: what the door
//     dials, it dials from the host's network.
//
// Nothing else leads out: the namespace has a loopback interface only. While
// the door is not open, connections are refused.

// doorAddr is the door, as a box sees it. The network is the one of RFC 2544,
// as are the addresses that stand for names; nobody routes it. On an address of
// its own the door takes no port that a server of an agent would want.
var doorAddr = netip.AddrFrom4([4]byte{198, 19, 255, 254})

// Ports of doorAddr.
const (
	portTransparent = 1 // where every connection ends
	portProxy       = 2 // for clients that are to ask a proxy
	portDNS         = 53
	backlog         = 4096 // the kernel's bound, net.core.somaxconn
)

// Proxy is the address, in every box with a network, of a proxy for clients
// that ask one (RFC 9110, 7.6.1 and 9.3.6). None has to.
var Proxy = netip.AddrPortFrom(doorAddr, portProxy).String()

// resolvConf says where names are asked for (resolv.conf(5)). A name is either
// known at once or never.
var resolvConf = "nameserver " + doorAddr.String() + "\noptions timeout:2 attempts:1\n"

// What an init makes for its network, in order. A box without one gets the
// first only: there it hears which names a program asks for, so that the agent
// can be told why it gets no answer.
const (
	socketNames = iota
	socketNamesStream
	socketTransparent
	socketProxy
	socketRoutes
	socketFilter
)

// doorSockets are how they are made.
var doorSockets = []struct{ family, kind, protocol int }{
	socketNames:       {unix.AF_INET, unix.SOCK_DGRAM, 0},
	socketNamesStream: {unix.AF_INET, unix.SOCK_STREAM, 0},
	socketTransparent: {unix.AF_INET, unix.SOCK_STREAM, 0},
	socketProxy:       {unix.AF_INET, unix.SOCK_STREAM, 0},
	socketRoutes:      {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE},
	socketFilter:      {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER},
}

// socketCount is how many of them a box has.
func socketCount(n policies.Network) int {
	if n == policies.NetworkNone {
		return 1
	}
	return len(doorSockets)
}

// sockets makes them and sends them to the supervisor.
func (p *plan) sockets(b *builder) {
	n := socketCount(p.network)
	b.Step("make sockets")
	var names boxinit.Slot
	var made []boxinit.Slot
	for i, s := range doorSockets[:n] {
		var slot boxinit.Slot
		if i == socketFilter {
			// A kernel without netfilter has no such socket. Then another one
			// is sent in its place, and does not work (see door.open).
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

// handOver sends a reply, and files with it, to the supervisor.
func (b *builder) handOver(text []byte, files ...boxinit.Slot) {
	const head, word = unix.SizeofCmsghdr, 4 // cmsg(3)
	control := make([]byte, unix.CmsgSpace(len(files)*word))
	rights := b.Bytes(control)
	b.Store(rights, unix.CmsgLen(len(files)*word), 8)
	b.Store(rights+8, unix.SOL_SOCKET, word)
	b.Store(rights+12, unix.SCM_RIGHTS, word)
	for i, slot := range files {
		b.Store(rights+head+boxinit.Ref(i*word), slot, word)
	}
	vector := b.Words(0, uint64(len(text))) // struct iovec
	b.Store(vector, b.Bytes(text), 8)
	msg := b.Words(0, 0, 0, 1, 0, uint64(len(control)), 0) // struct msghdr, recvmsg(2)
	b.Store(msg+16, vector, 8)
	b.Store(msg+32, rights, 8)
	b.Call(unix.SYS_SENDMSG, initConn, msg, unix.MSG_NOSIGNAL)
}

// initConn is the descriptor of an init's connection.
const initConn = 3

// door is a box's way out, from the host's side.
type door struct {
	*egress.Door
	box    *Box
	wg     sync.WaitGroup // of what serves
	files  []*entrance    // where connections are redirected to, or of each port
	serves []io.Closer    // what else is listened on
	ports  []uint16       // where connections cannot be redirected
	again  []uint16       // ports for when the box wakes
	mu     sync.Mutex     // guards files, serves, ports and again
	how    string         // "redirect", "ports" or "" where nothing leaves; of the last init
	opened bool           // its box has handed over its sockets
}

// openDoor opens the way out of a box whose init sent these sockets, which it
// takes over.
func (b *Box) openDoor(files []int) (err error) {
	defer func() {
		boxinit.CloseAll(files)
		if err != nil {
			err = fmt.Errorf("open the egress door: %w", err)
		}
	}()
	network, d := b.grant.Network(), b.door
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

// newDoor is the door of a box, not open yet.
func (s *Supervisor) newDoor(b *Box) (*door, error) {
	c := egress.Config{
		Egress: b.grant.Egress(), Profile: b.grant.Profile(), Resolver: s.cfg.Resolver, Roots: s.roots, Secret: s.cfg.Secret, Log: s.cfg.Log,
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

// serve runs f until the door is closed, or the file that it listens on.
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

// listenOnPorts takes, where connections cannot be redirected, those to the
// ports that the policy names: a listener on a port gets them for every
// address. They are ports that no server in the box can have then.
func (d *door) listenOnPorts(ctx context.Context, ports []uint16) error {
	if d.box.parked { // regrant and live see to it that it stays so
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
		fd, err := d.box.socket(ctx)
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

// regrant gives the box the egress and the published ports of the policy that
// Regrant was last called with, if it was. Of calls at once each waits for the
// others, and the last one finds the newest policy.
func (b *Box) regrant(ctx context.Context) {
	b.regranting.Lock()
	defer b.regranting.Unlock()
	b.sup.mu.Lock()
	p := b.sup.policy
	b.sup.mu.Unlock()
	if p == nil {
		return
	}
	e, publish := &policies.Egress{}, []policies.PortRange(nil)
	if g, ok := p.Regrant(b.grant); ok {
		publish = g.Publish()
		if g.Network() == b.grant.Network() && g.Egress().Intercept == b.grant.Egress().Intercept {
			e = g.Egress()
		}
	}
	b.waking.RLock() // of a parked box the door is set, and opened when it wakes
	if err := b.door.set(ctx, e); err != nil {
		b.sup.cfg.Log.Error("change the egress of a box; it is closed", "box", b.id, "err", err)
		_ = b.door.set(ctx, &policies.Egress{}) // of nothing, which has no fault
	}
	b.waking.RUnlock()
	b.mu.Lock()
	b.publish = publish
	b.mu.Unlock()
	for _, p := range b.Published() {
		if !covers(publish, p.Port) {
			_ = p.Close()
		}
	}
}

// set changes what the door lets through.
func (d *door) set(ctx context.Context, e *policies.Egress) error {
	if d.how == "" && !e.IsZero() {
		return errors.New("a box without a network cannot be given one; its session has to begin anew")
	}
	if err := d.Set(e); err != nil {
		return err
	}
	return d.listenOnPorts(ctx, e.Ports())
}

// listenAgain is listenOnPorts for those that a box had before it was parked,
// or is to have from the start.
func (d *door) listenAgain(ctx context.Context) error {
	d.mu.Lock()
	ports := d.again
	d.mu.Unlock()
	return d.listenOnPorts(ctx, ports)
}

// leave lets go of what is in the network of an init that is gone. What has
// come through goes on to its end.
func (d *door) leave() {
	if d == nil {
		return // the box was not even planned
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

// union are the ports of both lists, each once.
func union(a, b []uint16) []uint16 {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// close closes the door and waits for all that goes through it.
func (d *door) close() {
	_ = d.Close()
	d.mu.Lock()
	for _, l := range d.files {
		l.Close()
	}
	d.mu.Unlock()
	d.wg.Wait()
}

// enter serves connections that a program believes to make to someone else, on
// a socket of the box that the caller still closes.
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

// original is where a redirected connection was for.
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

// local is where a connection was for that was not redirected.
func local(c net.Conn) (netip.AddrPort, error) {
	addr, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("a %T has no address", c)
	}
	to := addr.AddrPort()
	return netip.AddrPortFrom(to.Addr().Unmap(), to.Port()), nil
}

// listener listens on a socket of a box. The caller still closes the file.
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

// bind names a socket of a box, whose network may still be coming up.
func bind(fd int, at netip.AddrPort) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_FREEBIND, 1); err != nil {
		return fmt.Errorf("take over a socket of the box: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}); err != nil {
		return fmt.Errorf("bind to %s of the box: %w", at, err)
	}
	return nil
}

// duplicate is a file of its own for a descriptor that somebody else closes.
func duplicate(fd int) (*os.File, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(n), "socket of a box"), nil
}
