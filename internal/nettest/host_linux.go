package nettest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// device is the name of the TUN device in a host.
const device = "net0"

// Host is a network namespace whose device is a port of the switch.
type Host struct {
	Addr netip.Addr // IPv4 address of the host

	space *os.File // open network namespace
	tun   *os.File
}

// Host adds a host.
func (n *Net) Host() *Host {
	n.t.Helper()
	n.mu.Lock()
	number := byte(len(n.hosts) + 1)
	n.mu.Unlock()
	h := &Host{Addr: netip.AddrFrom4([4]byte{10, 83, 0, number})}
	if err := alone(h.make); err != nil {
		n.t.Fatalf("make host %s: %v", h.Addr, err)
	}
	n.mu.Lock()
	n.hosts = append(n.hosts, h)
	n.mu.Unlock()
	n.running.Go(func() {
		packet := make([]byte, 1<<16)
		for {
			size, err := h.tun.Read(packet)
			if err != nil {
				return // the host was closed
			}
			n.forward(h, packet[:size])
		}
	})
	return h
}

// alone runs f in its own thread, which ends with f. So a change of the namespace in f
// affects no other code.
func alone(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}

// make makes the namespace and its devices. It must run in its own thread.
func (h *Host) make() (err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if h.space, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return err
	}
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	if err := up(sock, "lo"); err != nil {
		return err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	own, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	own.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, own); err != nil {
		unix.Close(fd)
		return fmt.Errorf("make a device: %w", err)
	}
	h.tun = os.NewFile(uintptr(fd), "/dev/net/tun") // non-blocking, so reads wait in the poller of the runtime
	for _, set := range []struct {
		what uint
		addr [4]byte
	}{{unix.SIOCSIFADDR, h.Addr.As4()}, {unix.SIOCSIFNETMASK, [4]byte{255, 255, 255, 0}}} {
		ask, err := unix.NewIfreq(device)
		if err == nil {
			err = ask.SetInet4Addr(set.addr[:])
		}
		if err == nil {
			err = unix.IoctlIfreq(sock, set.what, ask)
		}
		if err != nil {
			return fmt.Errorf("address %s: %w", h.Addr, err)
		}
	}
	return up(sock, device)
}

// up enables a device.
func up(sock int, name string) error {
	flags, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	flags.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(sock, unix.SIOCSIFFLAGS, flags); err != nil {
		return fmt.Errorf("bring %s up: %w", name, err)
	}
	return nil
}

func (h *Host) close() {
	h.tun.Close()
	h.space.Close()
}

// write gives a packet to the host. A packet that the host does not accept is lost, as in a
// real network.
func (h *Host) write(packet []byte) { _, _ = h.tun.Write(packet) }

// Do runs f in the host's namespace: sockets that it makes, and processes that it starts
// (for example by the method Start of a command), belong to the host. Goroutines that f starts
// are not in the namespace.
func (h *Host) Do(f func() error) error {
	return alone(func() error {
		if err := unix.Setns(int(h.space.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter host %s: %w", h.Addr, err)
		}
		return f()
	})
}

// Dial connects from the host to an IP address. The host resolves no names.
func (h *Host) Dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = h.Do(func() error {
		c, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return c, err
}
