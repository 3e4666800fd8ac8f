package netlink_test

import (
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox/netlink"
)

// namespace runs f on a thread in a new network namespace, which ends with the thread.
func namespace(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	testenv.Need(t, testenv.Root)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends here
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("unshare: %v", err)
			return
		}
		f(t)
	}()
	<-done
}

func socket(t *testing.T, protocol int) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func TestRedirect(t *testing.T) {
	namespace(t, func(t *testing.T) {
		door := netip.MustParseAddrPort("198.19.255.254:1")
		if err := netlink.AllLocal(socket(t, unix.NETLINK_ROUTE), door.Addr()); err != nil {
			t.Errorf("all local: %v", err)
			return
		}
		filter := socket(t, unix.NETLINK_NETFILTER)
		if err := netlink.Redirect(filter, door); err != nil {
			t.Errorf("redirect: %v", err)
			return
		}
		want := []string{
			"type nat hook output priority dstnat; policy accept;", "ip daddr 127.0.0.0/8 accept",
			"ip daddr 198.19.255.254 accept", "meta l4proto tcp dnat to 198.19.255.254:1",
		}
		if nft, err := exec.LookPath("nft"); err == nil {
			text, err := exec.CommandContext(t.Context(), nft, "list", "ruleset").CombinedOutput()
			got := strings.ReplaceAll(string(text), "priority -100", "priority dstnat")
			for _, w := range want {
				if err != nil || !strings.Contains(got, w) {
					t.Errorf("nft list ruleset: got %v %s, want %q in it", err, got, w)
				}
			}
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: door.Addr().As4(), Port: 1}), unix.Listen(fd, 8)); err != nil {
			t.Errorf("listen on the door: %v", err)
			return
		}
		for _, to := range []string{"198.18.0.1:443", "8.8.8.8:80", "169.254.169.254:80", "127.0.0.1:1"} {
			addr := netip.MustParseAddrPort(to)
			c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Error(err)
				return
			}
			err = unix.Connect(c, &unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())})
			unix.Close(c)
			if addr.Addr().IsLoopback() {
				if !errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("connect to %s, where nobody listens: got %v, want ECONNREFUSED", to, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("connect to %s: got %v, want the door", to, err)
				continue
			}
			n, _, err := unix.Accept(fd)
			if err != nil {
				t.Error(err)
				return
			}
			original, err := netlink.Original(n)
			unix.Close(n)
			if err != nil || original != addr {
				t.Errorf("original destination: got %v %v, want %s", original, err, to)
			}
		}
		u, err := net.Dial("udp", "8.8.8.8:53")
		if err != nil {
			t.Error(err)
			return
		}
		defer u.Close()
		_, _ = u.Write([]byte("x"))
		if _, err := u.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("UDP to another resolver: got %v, want ECONNREFUSED at once", err)
		}
	})
}

func TestErrorsOfTheKernel(t *testing.T) {
	namespace(t, func(t *testing.T) {
		// A socket of the wrong kind does not know such messages.
		if err := netlink.AllLocal(socket(t, unix.NETLINK_NETFILTER), netip.AddrFrom4([4]byte{198, 19, 255, 254})); err == nil {
			t.Error("all local by a netfilter socket: got no error")
		}
		if err := netlink.Redirect(socket(t, unix.NETLINK_ROUTE), netip.MustParseAddrPort("198.19.255.254:1")); err == nil {
			t.Error("redirect by a route socket: got no error")
		}
	})
}
