// Package bus contains what several fronts of a fleet share: small values in buckets of
// NATS JetStream. No other package uses NATS.
//
// The data can be restored from other sources, see package claims. If NATS has lost them,
// the fronts write them again.
package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Times of a connection. A connection whose server does not answer three pings is closed.
const (
	pingEvery   = time.Second
	mostPings   = 2 // number of pings without an answer
	connectWait = 2 * time.Second
	againWait   = 250 * time.Millisecond // pause between attempts to connect
	jitter      = 250 * time.Millisecond
)

// maxCredentials is the maximum size of a file with credentials, in bytes.
const maxCredentials = 64 << 10

// Config is the configuration of a Bus.
type Config struct {
	Servers     []string // URLs in the form nats://HOST:PORT or tls://HOST:PORT
	Credentials string   // file with a .creds, the seed of an nkey, or USER:PASSWORD; empty without credentials
	CA          string   // PEM file of the servers' authority; empty for the system's authorities
	Log         *slog.Logger
}

// Bus is a connection to NATS. Its methods are safe for concurrent use. Close ends it.
type Bus struct {
	conn   *nats.Conn
	stream jetstream.JetStream

	mu   sync.Mutex
	lost chan struct{} // guarded by mu: closed when the present connection ends
}

// Connect checks a configuration and starts to connect, but does not wait for the
// connection. The Bus connects again whenever the connection ends.
func Connect(cfg Config) (*Bus, error) {
	if len(cfg.Servers) == 0 {
		return nil, errors.New("--nats: name at least one server, such as tls://nats.example:4222")
	}
	for _, text := range cfg.Servers {
		if err := cfg.check(text); err != nil {
			return nil, err
		}
	}
	b := &Bus{lost: make(chan struct{})}
	said := ""
	options := []nats.Option{
		nats.Name("belljar front"), nats.Timeout(connectWait), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(againWait), nats.ReconnectJitter(jitter, jitter), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(mostPings),
		nats.ReconnectBufSize(-1), // a message that cannot be sent immediately fails immediately
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			if text := err.Error(); text != said { // only one goroutine calls this handler
				said = text
				cfg.Log.Warn("NATS cannot be reached; the front tries again", "err", err)
			}
		}),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { b.drop() }),
	}
	if cfg.CA != "" {
		options = append(options, nats.RootCAs(cfg.CA))
	}
	if cfg.Credentials != "" {
		o, err := credentials(cfg.Credentials)
		if err != nil {
			return nil, err
		}
		options = append(options, o)
	}
	var err error
	if b.conn, err = nats.Connect(strings.Join(cfg.Servers, ","), options...); err != nil {
		return nil, fmt.Errorf("--nats: %w", err)
	}
	if b.stream, err = jetstream.New(b.conn); err != nil {
		b.conn.Close()
		return nil, fmt.Errorf("--nats: %w", err)
	}
	return b, nil
}

// check refuses a server address that would let others on the network decide where places
// are.
func (c *Config) check(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || u.Port() == "" || u.Path != "" || u.RawQuery != "":
		return fmt.Errorf("--nats: %.200q is not a server; want nats://HOST:PORT or tls://HOST:PORT", u.Redacted())
	case u.User != nil:
		return fmt.Errorf("--nats: the address of %s has credentials, which everybody on this machine can see; put USER:PASSWORD into a file, and name that with --nats-creds", u.Host)
	case loopback(u.Hostname()):
		return nil
	case u.Scheme != "tls":
		return fmt.Errorf("--nats: %s is another machine, and its messages decide which worker gets which place; write tls://%s", u.Host, u.Host)
	case c.Credentials == "":
		return fmt.Errorf("--nats: %s is another machine, and this front has no credentials for it; name their file with --nats-creds", u.Host)
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// credentials reads a file with credentials, and finds out their kind from its contents.
func credentials(name string) (nats.Option, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--nats-creds: %w", err)
	case info.Size() > maxCredentials:
		return nil, fmt.Errorf("--nats-creds %s: it has %d bytes, which no credentials have", name, info.Size())
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--nats-creds: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	user, password, pair := strings.Cut(text, ":")
	switch {
	case strings.Contains(text, "BEGIN NATS USER JWT"):
		return nats.UserCredentials(name), nil
	case strings.HasPrefix(text, "SU"):
		o, err := nats.NkeyOptionFromSeed(name)
		if err != nil {
			return nil, fmt.Errorf("--nats-creds %s: %w", name, err)
		}
		return o, nil
	case pair && user != "" && password != "" && !strings.ContainsAny(text, " \n"):
		return nats.UserInfo(user, password), nil
	}
	return nil, fmt.Errorf("--nats-creds %s: want a .creds file, the seed of an nkey of a user (SU...), or USER:PASSWORD", name)
}

// drop records that the connection has ended.
func (b *Bus) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.lost)
	b.lost = make(chan struct{})
}

// ends returns a channel that is closed when the present connection ends.
func (b *Bus) ends() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

// Close ends the connection, and operations that wait for it fail. It may be called several
// times.
func (b *Bus) Close() { b.conn.Close() }
