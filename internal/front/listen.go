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

// Mistake returns a ConfigError for an error in a configuration.
func Mistake(err error) error { return &ConfigError{err} }

// checkAddr returns an error if a listener on the address is not allowed. login says
// whether clients must log in.
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
		return fmt.Errorf("listen on %q: other machines can reach it, so it needs %s", cfg.Addr, strings.Join(lacks, "; and "))
	}
	return nil
}

// checkShape returns an error if a text is not the address of a listener. loopback says
// whether the address is reachable only from this machine.
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

// IsLoopback reports whether a listener on an address, which is HOST:PORT, is reachable
// only from this machine.
func IsLoopback(addr string) (bool, error) { return checkShape(addr) }

// isLoopback reports whether a host is reachable only from this machine.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// listen opens the port of an address that the user gave with a flag.
func listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the port is in use%s; end the program that listens there, or choose another port with %s", addr, by(holder(addr)), flag)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

// boundedListener is a listener whose connections are bounded by a tally.
type boundedListener struct {
	net.Listener
	*tally

	refused func(from netip.Addr) // called for each connection that is closed immediately
}

// Accept returns the next connection within the bounds, and closes all others.
func (c *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := addrOf(conn.RemoteAddr().String())
		leave, ok := c.enter(from)
		if !ok {
			conn.Close()
			c.refused(from)
			continue
		}
		return &client{Conn: conn, leave: leave}, nil
	}
}

// tally counts connections or requests, and bounds their number, in all and for each
// address. An IPv6 address counts as its /64, because a client has all addresses of that
// network. Connections from this machine and from proxies, which forward those of many
// clients, count only in the total.
type tally struct {
	most   int // maximum for one address
	total  int // maximum for all addresses together
	exempt []netip.Prefix

	mu   sync.Mutex
	open map[netip.Addr]int // guarded by mu: number by address, without the exempt ones
	all  int                // guarded by mu: number in all, with the exempt ones
}

func newTally(most int, forwards bool, exempt []netip.Prefix) *tally {
	return &tally{most: most, total: totalConnections(forwards), exempt: exempt, open: make(map[netip.Addr]int)}
}

// mostConnections is the maximum number of connections of all addresses together, if twice
// as many files may be open, because boxes need files too. Each connection takes about 24
// KB before the login, and an IPv6 client has any number of addresses. mostForwarded is the
// maximum for a process without boxes, where a quarter of the files is kept for other uses.
const (
	mostConnections = 8192
	mostForwarded   = 16_384
)

// totalConnections returns the maximum number of connections of this process.
func totalConnections(forwards bool) int {
	var files syscall.Rlimit
	known := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil
	switch {
	case forwards && known:
		return int(min(files.Cur/4*3, mostForwarded))
	case known:
		return int(min(files.Cur/2, mostConnections))
	}
	return mostConnections
}

// enter counts one connection or request of an address, until leave is called. ok is false
// if there is no room. leave may be called twice.
func (t *tally) enter(from netip.Addr) (leave func(), ok bool) {
	key := from
	switch {
	case !from.IsValid() || from.IsLoopback() || contains(t.exempt, from):
		key = netip.Addr{}
	case from.Is6():
		prefix, _ := from.Prefix(64)
		key = prefix.Addr()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all >= t.total || key.IsValid() && t.open[key] >= t.most {
		return nil, false
	}
	t.all++
	if key.IsValid() {
		t.open[key]++
	}
	return sync.OnceFunc(func() { t.leave(key) }), true
}

func (t *tally) leave(key netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if !key.IsValid() {
		return
	}
	if t.open[key]--; t.open[key] == 0 {
		delete(t.open, key)
	}
}
