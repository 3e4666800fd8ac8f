package front

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
)

// A ConfigError is a mistake in a Config. No port was opened.
type ConfigError struct{ err error }

func (e *ConfigError) Error() string { return e.err.Error() }

func (e *ConfigError) Unwrap() error { return e.err }

// checkAddr checks that a listener on an address may be opened. login says whether
// clients have to log in.
func (cfg *Config) checkAddr(login bool) error {
	loopback, err := checkShape(cfg.Addr)
	if err != nil || loopback {
		return err
	}
	var lacks []string
	if cfg.Cert == "" && len(cfg.Proxies) == 0 {
		lacks = append(lacks, "TLS (--tls-cert and --tls-key), or a proxy with TLS before it (--behind-proxy CIDR)")
	}
	if !login {
		lacks = append(lacks, "a policy with tenants, so that clients log in with tokens")
	}
	if len(lacks) > 0 {
		return fmt.Errorf("listen on %q: others than this machine can reach it, so it needs %s", cfg.Addr, strings.Join(lacks, "; and "))
	}
	return nil
}

// checkShape checks that a text is the address of a listener, and reports whether only
// this machine reaches it.
func checkShape(addr string) (loopback bool, _ error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false, fmt.Errorf("listen on %q: want HOST:PORT, for example 127.0.0.1:8930", addr)
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && host != "localhost" {
		return false, fmt.Errorf("listen on %q: want an address of this machine in place of %q, for example 127.0.0.1:%s", addr, host, port)
	}
	return isLoopback(host), nil
}

// isLoopback reports whether only this machine reaches a host.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// ListenLoopback opens a port that only this machine reaches.
func ListenLoopback(ctx context.Context, addr string) (net.Listener, error) {
	loopback, err := checkShape(addr)
	switch {
	case err != nil:
		return nil, err
	case !loopback:
		return nil, fmt.Errorf("listen on %q: not a loopback address, so others could reach it; use 127.0.0.1", addr)
	}
	return listen(ctx, "--http", addr)
}

// listen opens the port of an address, which the user gave by a flag.
func listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the port is in use; end the program that listens there, or choose another port with %s", addr, flag)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

// crowd is a listener whose connections are bounded for each address that they come
// from. An address of IPv6 stands for its /64, since a client has all of that.
// Connections of this machine and of proxies, which bring those of many clients, are
// counted among all only.
type crowd struct {
	net.Listener
	most    int // of one address
	total   int // of all
	exempt  []netip.Prefix
	refused func(from netip.Addr) // called for each connection that is closed at once

	mu   sync.Mutex
	open map[netip.Addr]int // guarded by mu: without the exempt ones
	all  int                // guarded by mu: the exempt ones too
}

// mostConnections is how many connections all addresses may have open together, where as
// many files may be open: boxes need some too. Each takes about 24 KB without a login, and
// a client of IPv6 has any number of addresses.
const mostConnections = 8192

// totalConnections is the bound of all connections of this process.
func totalConnections() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return mostConnections
	}
	return int(min(files.Cur/2, mostConnections))
}

// Accept returns the next connection within the bounds, and closes those beyond it.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := addrOf(conn.RemoteAddr().String())
		key := from
		switch {
		case !from.IsValid() || from.IsLoopback() || contains(c.exempt, from):
			key = netip.Addr{}
		case from.Is6():
			prefix, _ := from.Prefix(64)
			key = prefix.Addr()
		}
		if !c.enter(key) {
			conn.Close()
			c.refused(from)
			continue
		}
		return &client{Conn: conn, leave: sync.OnceFunc(func() { c.leave(key) })}, nil
	}
}

// enter counts a connection of an address, the zero one for none in particular, or reports
// that there is no room for it.
func (c *crowd) enter(key netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= c.total || key.IsValid() && c.open[key] >= c.most {
		return false
	}
	c.all++
	if key.IsValid() {
		c.open[key]++
	}
	return true
}

func (c *crowd) leave(key netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if !key.IsValid() {
		return
	}
	if c.open[key]--; c.open[key] == 0 {
		delete(c.open, key)
	}
}

// addrOf is the address in HOST:PORT, or the zero Addr if the host is not an address.
func addrOf(hostPort string) netip.Addr {
	at, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}
