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

// Mistake returns a ConfigError for an error of a configuration.
func Mistake(err error) error { return &ConfigError{err} }

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
		return fmt.Errorf("listen on %q: other machines can reach it, so it needs %s", cfg.Addr, strings.Join(lacks, "; and "))
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

// IsLoopback reports whether only this machine reaches a listener on an address, which is
// HOST:PORT.
func IsLoopback(addr string) (bool, error) { return checkShape(addr) }

// isLoopback reports whether only this machine reaches a host.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// listen opens the port of an address, which the user gave by a flag.
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

// boundedListener is a listener whose connections have the bounds of a tally.
type boundedListener struct {
	net.Listener
	*tally

	refused func(from netip.Addr) // called for each connection that is closed at once
}

// Accept returns the next connection within the bounds, and closes those beyond it.
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

// tally counts what is open, and bounds it for each address that it comes from. An address of
// IPv6 stands for its /64, since a client has all of that. Connections from this machine and
// from proxies, which bring those of many clients, are counted among all only.
type tally struct {
	most   int // of one address
	total  int // of all
	exempt []netip.Prefix

	mu   sync.Mutex
	open map[netip.Addr]int // guarded by mu: without the exempt ones
	all  int                // guarded by mu: the exempt ones too
}

func newTally(most int, forwards bool, exempt []netip.Prefix) *tally {
	return &tally{most: most, total: totalConnections(forwards), exempt: exempt, open: make(map[netip.Addr]int)}
}

// mostConnections is how many connections all addresses may have open together, where twice
// as many files may be open: boxes need some too. Each takes about 24 KB without a login, and
// a client of IPv6 has any number of addresses. mostForwarded is that of a process without
// boxes, where a quarter of the files is left.
const (
	mostConnections = 8192
	mostForwarded   = 16_384
)

// totalConnections is the bound of all connections of this process.
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

// enter counts one of an address until leave is called, or reports that there is no room
// for it. leave may be called twice.
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
