package escape

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds each wait of a probe.
const patience = 2 * time.Second

// network returns the probes for the ways to talk to anything outside.
func network() []Probe {
	return []Probe{
		{ID: "W01", Name: "connect to a port of the machine's loopback", try: func(f *Facts) (string, error) {
			return answers("tcp", loopback(f.Host.Port), f.Host.Token)
		}},
		{ID: "W02", Name: "find a way to the internet or to the cloud's metadata", where: offMachine, try: func(*Facts) (string, error) {
			// Connecting a UDP socket sends nothing, but it needs a route.
			return routes("1.1.1.1:443", "169.254.169.254:80", "[2606:4700:4700::1111]:443")
		}},
		{ID: "W03", Name: "connect to an abstract socket of the machine", try: func(f *Facts) (string, error) {
			return answers("unix", f.Host.Abstract, f.Host.Token)
		}},
		{ID: "W04", Name: "connect to a socket file of the machine", try: func(f *Facts) (string, error) {
			return answersAt(f.Host.Socket, f.Host.Token)
		}},
		{ID: "W05", Name: "have an interface beside the loopback", where: offMachine, try: func(*Facts) (string, error) {
			text, err := readSome("/proc/net/dev", 1<<16)
			if err != nil {
				return "", err
			}
			for line := range strings.Lines(text) {
				if name, _, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name != "lo" {
					return name, nil
				}
			}
			return "", errors.New("lo only")
		}},
		{ID: "W06", Name: "serve and connect on its own loopback", Works: true, try: ownLoopback},
		{ID: "W07", Name: "ask a UDP service of the machine", try: func(f *Facts) (string, error) {
			return asks(loopback(f.Host.UDP), f.Host.Token)
		}},
		{ID: "W08", Name: "see the machine's connections", try: func(f *Facts) (string, error) {
			return reads("/proc/net/tcp", fmt.Sprintf(":%04X 00000000:0000 0A", f.Host.Port))
		}},
		{ID: "W09", Name: "see the machine's unix sockets", try: func(f *Facts) (string, error) {
			return reads("/proc/net/unix", f.Host.Abstract)
		}},
		{ID: "W10", Name: "reach the machine by its own address", where: offMachine, try: anyOf(
			func(f *Facts) (string, error) { return answers("tcp", f.Host.Own, f.Host.Token) },
			func(f *Facts) (string, error) { return asks(f.Host.Own, f.Host.Token) })},
		{ID: "W11", Name: "send packets of its own making", Root: true, try: anyOf(
			rawSocket(unix.AF_INET, unix.IPPROTO_ICMP), rawSocket(unix.AF_INET6, unix.IPPROTO_ICMPV6), rawSocket(unix.AF_PACKET, 0))},
		{ID: "W12", Name: "change an interface", Root: true, try: func(*Facts) (string, error) {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return "", err
			}
			defer unix.Close(fd)
			// No interface has that name. A process that may change interfaces gets the
			// error about that, any other process gets a refusal (dev_ioctl in
			// net/core/dev_ioctl.c).
			clear(page[:])
			copy(page[:], "belljar0")
			return reaches("ioctl SIOCSIFFLAGS", unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, pageAt())(nil)
		}},
		{ID: "W13", Name: "mark packets for other routes", Root: true, try: func(*Facts) (string, error) {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return "", err
			}
			defer unix.Close(fd)
			return "SO_MARK", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 1)
		}},
		{ID: "W14", Name: "open a message queue of the machine", try: func(f *Facts) (string, error) {
			return opensFD(openMq(f.Host.Mq, 0))
		}},
		{ID: "W15", Name: "attach the machine's SysV shared memory", try: func(f *Facts) (string, error) {
			return attaches(&f.Host)
		}},
		{ID: "W16", Name: "open the machine's SysV queues and semaphores", try: func(f *Facts) (string, error) {
			return anyOf(sysvOf(&f.Host)...)(nil)
		}},
		{ID: "W17", Name: "see the machine's SysV shared memory", try: func(f *Facts) (string, error) {
			return reads("/proc/sysvipc/shm", strconv.Itoa(f.Host.Memory))
		}},
		{ID: "W18", Name: "pass a descriptor out by an abstract socket", try: func(f *Facts) (string, error) {
			c, err := dial("unix", f.Host.Abstract)
			if err != nil {
				return "", err
			}
			defer c.Close()
			u, ok := c.(*net.UnixConn)
			if !ok {
				return "", errors.New("not a unix socket")
			}
			_, _, err = u.WriteMsgUnix([]byte("x"), unix.UnixRights(0), nil)
			return "SCM_RIGHTS", err
		}},
		{ID: "W19", Name: "open a socket of a protocol that no program needs", try: anyOf(
			reaches("socket SCTP", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP),
			reaches("socket DCCP", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DCCP, unix.IPPROTO_DCCP),
			reaches("socket UDP-Lite", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE),
			reaches("socket vsock", unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0),
			reaches("netlink of netfilter", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER))},
		{ID: "W20", Name: "change routes, addresses or interfaces", Root: true, try: anyOf(
			// None of these exists. A process that may change them gets the error about
			// that, any other process gets a refusal.
			changes("delete a route", unix.RTM_DELROUTE, []byte{unix.AF_INET, 32, 0, 0, 250, 0, 0, 0, 0, 0, 0, 0, 8, 0, unix.RTA_DST, 0, 198, 51, 100, 77}),
			changes("delete an address", unix.RTM_DELADDR, []byte{unix.AF_INET, 32, 0, 0, 1, 0, 0, 0, 8, 0, unix.IFA_LOCAL, 0, 198, 51, 100, 77}),
			changes("delete an interface", unix.RTM_DELLINK, append(make([]byte, unix.SizeofIfInfomsg), 13, 0, unix.IFLA_IFNAME, 0, 'b', 'e', 'l', 'l', 'j', 'a', 'r', '0', 0, 0, 0, 0)))},
		{ID: "W21", Name: "reach the machine's loopback by a tunnel through the door's proxy", where: throughDoor, try: tunnels(
			func(f *Facts) int { return f.Host.Port }, "127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost.", "x@127.0.0.1", "127.0.0.1\x00.example")},
		{ID: "W22", Name: "reach the machine's loopback by a request to the door's proxy", where: throughDoor, try: func(f *Facts) (string, error) {
			url := "http://" + loopback(f.Host.Port)
			return f.throughProxy("GET "+url+"/ HTTP/1.1\r\nHost: "+loopback(f.Host.Port)+"\r\n\r\n", f.Host.Token)
		}},
		{ID: "W23", Name: "reach the machine's own address through the door's proxy", where: func(g *ground) bool { return g.door && offMachine(g) }, try: func(f *Facts) (string, error) {
			return f.throughProxy("CONNECT "+f.Host.Own+" HTTP/1.1\r\nHost: "+f.Host.Own+"\r\n\r\n", f.Host.Token)
		}},
		{ID: "W24", Name: "reach the neighbour's loopback by a tunnel through the door's proxy", where: throughDoor, try: func(f *Facts) (string, error) {
			target := loopback(f.Neighbour.Port)
			return f.throughProxy("CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n", f.Neighbour.Token)
		}},
	}
}

// throughDoor reports whether the profile has a way out.
func throughDoor(g *ground) bool { return g.door }

// tunnels is an act that asks the proxy for a tunnel to a port, under several host names.
func tunnels(port func(*Facts) int, hosts ...string) act {
	var all []act
	for _, h := range hosts {
		all = append(all, func(f *Facts) (string, error) {
			target := h + ":" + strconv.Itoa(port(f))
			return f.throughProxy("CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n", f.Host.Token)
		})
	}
	return anyOf(all...)
}

// throughProxy sends a request to Facts.Proxy, in a box the proxy of the door, and looks
// for the token in the answer.
func (f *Facts) throughProxy(request, token string) (string, error) {
	c, err := dial("tcp", f.Proxy)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, request); err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(request, "\r\n")
	var heard []byte
	for buf := make([]byte, 4096); len(heard) < mostOutput; {
		n, err := c.Read(buf)
		heard = append(heard, buf[:n]...)
		if strings.Contains(string(heard), token) {
			return line, nil
		}
		if err != nil {
			return "", fmt.Errorf("%q: %q", line, heard)
		}
	}
	return "", fmt.Errorf("%q: no token", line)
}

// changes is an act that sends one message of rtnetlink(7). The kernel's own code has
// answered if the error says that the object does not exist.
func changes(name string, kind uint16, body []byte) act {
	return func(*Facts) (string, error) {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		defer unix.Close(fd)
		b := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
		b = binary.NativeEndian.AppendUint16(b, kind)
		b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK)
		b = append(append(b, make([]byte, 8)...), body...)
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		answer := make([]byte, 1024)
		n, _, err := unix.Recvfrom(fd, answer, 0)
		if err != nil || n < unix.SizeofNlMsghdr+4 {
			return "", fmt.Errorf("%s: no answer: %w", name, err)
		}
		errno := unix.Errno(-int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])))
		if refused(errno) {
			return "", fmt.Errorf("%s: %w", name, errno)
		}
		return fmt.Sprintf("%s answers %v", name, errno), nil
	}
}

// offMachine reports whether the machine has an interface in addition to the loopback.
func offMachine(g *ground) bool { return len(g.addresses) > 0 }

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// dial connects, or fails after patience.
func dial(kind, address string) (net.Conn, error) {
	return net.DialTimeout(kind, address, patience) //nolint:noctx // a prober has no context, only this bound
}

// answers connects and expects the token.
func answers(kind, address, token string) (string, error) {
	c, err := dial(kind, address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return hears(c, kind+" "+address, token)
}

// answersAt is answers for a socket file.
func answersAt(path, token string) (string, error) {
	err := atSocket(path, func(name string) error {
		_, err := answers("unix", name, token)
		return err
	})
	return path, err
}

func hears(c net.Conn, what, token string) (string, error) {
	_ = c.SetDeadline(time.Now().Add(patience))
	got := make([]byte, len(token))
	if _, err := io.ReadFull(c, got); err != nil {
		return "", err
	}
	if string(got) != token {
		return "", fmt.Errorf("%s: somebody else answers", what)
	}
	return what, nil
}

// asks sends a packet and expects the token as the answer.
func asks(address, token string) (string, error) {
	c, err := dial("udp", address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := c.Write([]byte("?")); err != nil {
		return "", err
	}
	return hears(c, "udp "+address, token)
}

// routes looks for a route to one of the addresses. In a box with a door, every address is
// the box's own: then a packet has the same address as source and destination, and leads
// nowhere.
func routes(addresses ...string) (string, error) {
	var faults []error
	for _, a := range addresses {
		c, err := dial("udp", a)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		from, _, _ := net.SplitHostPort(c.LocalAddr().String())
		to, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		c.Close()
		if from != to {
			return a, nil
		}
		faults = append(faults, fmt.Errorf("%s is the place's own", a))
	}
	return "", errors.Join(faults...)
}

func ownLoopback(*Facts) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // local, and does not block
	if err != nil {
		return "", err
	}
	defer l.Close()
	const text = "own loopback"
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write([]byte(text))
			c.Close()
		}
	}()
	return answers("tcp", l.Addr().String(), text)
}

func rawSocket(family, protocol int) act {
	return func(*Facts) (string, error) {
		fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			return "", fmt.Errorf("socket %d: %w", family, os.NewSyscallError("socket", err))
		}
		return opensFD(fd, nil)
	}
}

// attaches reads a victim's shared memory.
func attaches(v *Victim) (string, error) {
	id, err := unix.SysvShmGet(v.Memory, 0, 0)
	if err != nil {
		return "", fmt.Errorf("shmget: %w", err)
	}
	at, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return "", fmt.Errorf("shmat: %w", err)
	}
	defer func() { _ = unix.SysvShmDetach(at) }()
	if !strings.HasPrefix(string(at), v.Token) {
		return "", errors.New("another segment")
	}
	return "shmat", nil
}

// sysvOf opens a victim's queue and semaphore.
func sysvOf(v *Victim) []act {
	return []act{
		works("msgget", unix.SYS_MSGGET, uintptr(v.Queue), 0),
		works("semget", unix.SYS_SEMGET, uintptr(v.Sem), 0, 0),
	}
}
