package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// wide are limits that no test reaches by accident.
var wide = policies.EgressLimits{Conns: 64, Rate: 1e6, Bytes: 1 << 40, Idle: time.Minute, Life: time.Hour}

// allowing returns a policy that allows the hosts: "host:port", or "host" for the ports 80
// and 443.
func allowing(hosts ...string) *policies.Egress {
	e := &policies.Egress{Limits: wide}
	for _, h := range hosts {
		ports := []uint16{80, 443}
		if host, digits, err := net.SplitHostPort(h); err == nil {
			n, _ := strconv.ParseUint(digits, 10, 16)
			h, ports = host, []uint16{uint16(n)}
		}
		e.Allow = append(e.Allow, policies.EgressRule{Host: h, Ports: ports})
	}
	return e
}

// private adds hosts, "host:port" or "host" for all ports, to the hosts that may be reached
// although they are not public.
func private(e *policies.Egress, hosts ...string) *policies.Egress {
	for _, h := range hosts {
		rule := policies.PrivateRule{}
		if host, digits, err := net.SplitHostPort(h); err == nil {
			n, _ := strconv.ParseUint(digits, 10, 16)
			h, rule.Port = host, uint16(n)
		}
		rule.Host, _ = policies.ParseHost(h)
		e.Private = append(e.Private, rule)
	}
	return e
}

// answers is a resolver that knows some names, and keeps the names that were looked up.
type answers struct {
	mu    sync.Mutex
	known map[string][]string
	asked []string
}

func (a *answers) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, host)
	addrs, ok := a.known[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var all []netip.Addr
	for _, s := range addrs {
		all = append(all, netip.MustParseAddr(s))
	}
	return all, nil
}

func (a *answers) lookups() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

// records keeps the records of a door.
type records struct {
	mu  sync.Mutex
	all []Record
}

func (r *records) add(rec Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, rec)
}

func (r *records) list() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Record(nil), r.all...)
}

// open makes a door for a test.
func open(t testing.TB, cfg Config) *Door {
	t.Helper()
	if cfg.Resolver == nil {
		cfg.Resolver = &answers{}
	}
	if cfg.Profile == "" {
		cfg.Profile = "dev"
	}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// echo starts a server on loopback that sends back what it receives, and returns its port.
func echo(t testing.TB) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				buf := make([]byte, 32<<10)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					if _, err := c.Write(buf[:n]); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); conns.Wait() })
	return port(l.Addr())
}

func port(a net.Addr) uint16 { return netip.MustParseAddrPort(a.String()).Port() }

func host(t testing.TB, s string) policies.Host {
	t.Helper()
	h, err := policies.ParseHost(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func at(name string, port uint16) string { return fmt.Sprintf("%s:%d", name, port) }
