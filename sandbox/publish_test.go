package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/limit"
)

var free = netip.MustParseAddrPort("127.0.0.1:0")

// serves names the act that serves ports of the box until its end: it sends back all that
// it receives, and then says goodbye.
const serves = "a server"

func serveAll(*place) (string, error) {
	var wait sync.WaitGroup
	for _, at := range []string{"127.0.0.1:3000", "0.0.0.0:8001", "[::1]:8002", "127.0.0.1:9"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			return "", err
		}
		wait.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				wait.Go(func() {
					defer c.Close()
					_, _ = io.Copy(c, c)
					_, _ = io.WriteString(c, "goodbye")
				})
			}
		})
	}
	fmt.Println("ready")
	wait.Wait()
	return "", nil
}

// publishing opens a box with servers, whose profile publishes ports.
func publishing(t *testing.T, network string) *sandbox.Box {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces)
	s, dir := worldOf(t, sandbox.Config{})
	addProber(t, dir)
	g := policytest.GrantProfile(t, "fs: {system: true, workspace: ro}\nnet: "+network+"\npublish: [3000, \"8000-8099\"]")
	b, err := s.Open(t.Context(), "box", g)
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	job, err := b.Start(t.Context(), sandbox.Cmd{Grant: g, Argv: []string{"/workspace/" + bypassName, serves}, Stdin: []byte("{}"), Out: w, Background: true, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); job.Kill(0) })
	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the servers said %q, %v", line, err)
	}
	return b
}

func publish(t *testing.T, b *sandbox.Box, port uint16) *sandbox.Published {
	t.Helper()
	p, err := b.Publish(t.Context(), port, free)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// visit connects to a published port.
func visit(t *testing.T, p *sandbox.Published) *net.TCPConn {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(p.At))
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { c.Close() })
	return c
}

// A person reaches what listens in a box, with or without a network, and each side sees
// when the other one has sent everything.
func TestPublish(t *testing.T) {
	for name, network := range map[string]string{"without a network": "{mode: none}", "with a door": "{mode: proxy, allow: [allowed.example]}"} {
		t.Run(name, func(t *testing.T) {
			b := publishing(t, network)
			ports, err := b.Listening()
			if want := []uint16{9, 3000, 8001, 8002}; err != nil || !slices.Equal(ports, want) {
				t.Errorf("listening: got %v, %v, want %v", ports, err, want)
			}
			for _, port := range []uint16{3000, 8001} {
				p := publish(t, b, port)
				if !p.At.Addr().IsLoopback() || p.At.Port() == 0 || p.Port != port {
					t.Errorf("published port %d at %v", p.Port, p.At)
				}
				c := visit(t, p)
				if _, err := io.WriteString(c, "hello, "); err != nil {
					t.Fatal(err)
				}
				if err := c.CloseWrite(); err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(c)
				if err != nil || string(got) != "hello, goodbye" {
					t.Errorf("port %d said %q, %v", port, got, err)
				}
			}
			if got := len(b.Published()); got != 2 {
				t.Errorf("%d ports are published, want 2", got)
			}
			// A port on which nothing listens can be published all the same, and a visitor
			// sees the connection end.
			if got, err := io.ReadAll(visit(t, publish(t, b, 8099))); len(got) > 0 || err != nil && !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("a port without a server said %q, %v", got, err)
			}
		})
	}
}

func TestPublishRefuses(t *testing.T) {
	b := publishing(t, "{mode: none}")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tests := []struct {
		name string
		port uint16
		at   string
		want string
	}{
		{"a port that the profile does not list", 9, "127.0.0.1:0", `profile "test" does not publish port 9; the policy has to list it under publish, for example publish: [9]`},
		{"a port below the range", 7999, "127.0.0.1:0", "does not publish port 7999"},
		{"a port above the range", 8100, "127.0.0.1:0", "does not publish port 8100"},
		{"no port", 0, "127.0.0.1:0", "does not publish port 0"},
		{"all addresses", 3000, "0.0.0.0:0", "only on a loopback address of the host, for example 127.0.0.1, and not on 0.0.0.0"},
		{"all addresses of IPv6", 3000, "[::]:0", "only on a loopback address of the host"},
		{"an address of the network", 3000, "192.168.1.1:0", "only on a loopback address of the host"},
		{"an address that is taken", 3000, taken.Addr().String(), "address already in use"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := b.Publish(t.Context(), tt.port, netip.MustParseAddrPort(tt.at))
			if err == nil {
				p.Close()
				t.Fatal("it is published")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
	if got := b.Published(); len(got) > 0 {
		t.Errorf("published: %v", got)
	}
	const most = 16
	for range most {
		publish(t, b, 3000)
	}
	if _, err := b.Publish(t.Context(), 3000, free); !errors.Is(err, limit.ErrTooMany) {
		t.Errorf("port %d: got %v, want ErrTooMany", most+1, err)
	}
}

// The end of a published port, and that of its box, ends the connections
// through it.
func TestPublishedEnds(t *testing.T) {
	b := publishing(t, "{mode: none}")
	closed, outlived := publish(t, b, 3000), publish(t, b, 3000)
	first, second := visit(t, closed), visit(t, outlived)
	for _, c := range []net.Conn{first, second} {
		if _, err := io.WriteString(c, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatalf("no connection: %v", err)
		}
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { closed.Close() })
	}
	both.Wait()
	ended := func(c net.Conn) {
		t.Helper()
		if _, err := io.ReadFull(c, make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("the connection lives on: %v", err)
		}
	}
	ended(first)
	if c, err := net.Dial("tcp", closed.At.String()); err == nil {
		c.Close()
		t.Error("a closed port takes connections")
	}
	if got := b.Published(); len(got) != 1 || got[0] != outlived {
		t.Errorf("published: %v", got)
	}
	b.Close()
	ended(second)
	if _, err := b.Publish(t.Context(), 3000, free); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("publish a port of a closed box: %v, want ErrClosed", err)
	}
	if _, err := b.DialPort(t.Context(), 3000); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("dial a port of a closed box: %v, want ErrClosed", err)
	}
	if got := len(b.Published()); got != 0 {
		t.Errorf("a closed box publishes %d ports", got)
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// DialPort reaches every port of the box, published or not, and nothing else.
func TestDialPort(t *testing.T) {
	b := publishing(t, "{mode: proxy, allow: [allowed.example]}")
	c, err := b.DialPort(t.Context(), 9)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Error(err)
	}
	if _, err := b.DialPort(t.Context(), 4000); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("nobody listens there: got %v, want ECONNREFUSED", err)
	}
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	if _, err := b.DialPort(t.Context(), netip.MustParseAddrPort(outside.Addr().String()).Port()); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("a port of the host: got %v, want ECONNREFUSED", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.DialPort(ctx, 9); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is over: got %v", err)
	}
	// A caller that gives up leaves nothing behind, even if the answer arrives later. Until
	// it arrives, there is less room for other calls.
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		var gaveUp sync.WaitGroup
		gaveUp.Go(cancel)
		if c, err := b.DialPort(ctx, 3000); err == nil {
			c.Close()
		} else if !errors.Is(err, context.Canceled) && !errors.Is(err, limit.ErrTooMany) {
			t.Fatalf("given up: %v", err)
		}
		gaveUp.Wait()
	}
	// Many calls at the same time are served or refused, and none is lost.
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			c, err := b.DialPort(t.Context(), 3000)
			switch {
			case err == nil:
				c.Close()
			case !errors.Is(err, limit.ErrTooMany):
				t.Errorf("one of many: %v", err)
			}
		})
	}
	all.Wait()
}
