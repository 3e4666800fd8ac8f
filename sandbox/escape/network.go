package escape

import (
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

// patience is how long a connection may take on one machine.
const patience = 2 * time.Second

// network are the ways to talk to anything outside.
func network() []Probe {
	return []Probe{
		{ID: "W01", Name: "connect to a port of the machine's loopback", try: func(f *Facts) (string, error) {
			return answers("tcp", loopback(f.Host.Port), f.Host.Token)
		}},
		{ID: "W02", Name: "find a way to the internet or to the cloud's metadata", where: offMachine, try: func(*Facts) (string, error) {
			// To connect a UDP socket sends nothing; it takes a route.
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
		{ID: "W10", Name: "reach the machine by its own address", where: offMachine, try: func(f *Facts) (string, error) {
			var all []string
			for _, a := range f.Addresses {
				all = append(all, net.JoinHostPort(a, "9"))
			}
			return routes(all...)
		}},
		{ID: "W11", Name: "send packets of its own making", Root: true, try: anyOf(
			rawSocket(unix.AF_INET, unix.IPPROTO_ICMP), rawSocket(unix.AF_INET6, unix.IPPROTO_ICMPV6), rawSocket(unix.AF_PACKET, 0))},
		{ID: "W12", Name: "change an interface", Root: true, try: func(*Facts) (string, error) {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return "", err
			}
			defer unix.Close(fd)
			// There is none of that name, which only those are told who may
			// (dev_ioctl in net/core/dev_ioctl.c).
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
	}
}

// offMachine asks for an interface beside the loopback.
func offMachine(g *ground) bool { return len(g.addresses) > 0 }

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// dial connects, or gives up.
func dial(kind, address string) (net.Conn, error) {
	return net.DialTimeout(kind, address, patience) //nolint:noctx // a prober has no context, only this bound
}

// answers connects and wants to hear the token.
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

// asks sends a packet and wants the token for an answer.
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

// routes looks for a way to one of the addresses.
func routes(addresses ...string) (string, error) {
	var faults []error
	for _, a := range addresses {
		c, err := dial("udp", a)
		if err == nil {
			c.Close()
			return a, nil
		}
		faults = append(faults, err)
	}
	return "", errors.Join(faults...)
}

func ownLoopback(*Facts) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // local and at once
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
