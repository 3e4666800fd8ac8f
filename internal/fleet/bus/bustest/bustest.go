// Package bustest contains NATS servers for tests. No installed program imports it: the
// NATS servers of a fleet are separate programs.
package bustest

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"belljar.dev/internal/fleet/bus"
	"belljar.dev/internal/testenv"
)

// Cluster is a set of NATS servers in this process.
type Cluster struct {
	t       *testing.T
	options []*server.Options
	all     []*server.Server
}

// Start starts n servers, and waits until they have a leader. They end with the test.
func Start(t *testing.T, n int) *Cluster {
	t.Helper()
	c := &Cluster{t: t, all: make([]*server.Server, n)}
	var routes []*url.URL
	ports := freePorts(t, 2*n)
	for i := range n {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[n+i])})
	}
	for i := range n {
		o := &server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: ports[i], NoLog: true, NoSigs: true,
			JetStream: true, StoreDir: filepath.Join(testenv.MemoryDir(t), fmt.Sprintf("n%d", i)), SyncAlways: true,
			JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 256 << 20,
		}
		if n > 1 {
			o.Cluster, o.Routes = server.ClusterOpts{Name: "belljar", Host: "127.0.0.1", Port: ports[n+i]}, routes
		}
		c.options = append(c.options, o)
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.all {
			c.Stop(i)
		}
	})
	c.ready()
	return c
}

func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	var held []net.Listener // kept open until all ports are known, so that they differ
	for range n {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
		at, err := netip.ParseAddrPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, int(at.Port()))
	}
	for _, l := range held {
		l.Close()
	}
	return ports
}

func (c *Cluster) start(i int) {
	c.t.Helper()
	s, err := server.NewServer(c.options[i].Clone())
	if err != nil {
		c.t.Fatal(err)
	}
	c.all[i] = s
	go s.Start()
}

// Stop stops a server, and waits until it has stopped.
func (c *Cluster) Stop(i int) {
	if s := c.all[i]; s != nil {
		s.Shutdown()
		s.WaitForShutdown()
		c.all[i] = nil
	}
}

// ready waits until the servers accept clients and, if there are several, have a leader.
func (c *Cluster) ready() {
	c.t.Helper()
	ok := testenv.Until(60*time.Second, func() bool {
		leader := len(c.all) == 1
		for _, s := range c.all {
			if s == nil {
				continue
			}
			if !s.ReadyForConnections(10*time.Second) || len(c.all) > 1 && !s.JetStreamIsCurrent() {
				return false
			}
			leader = leader || s.JetStreamIsLeader()
		}
		return leader
	})
	if !ok {
		c.t.Fatal("the servers of NATS do not start")
	}
}

// Addresses returns the addresses for clients.
func (c *Cluster) Addresses() (all []string) {
	for _, o := range c.options {
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", o.Port))
	}
	return all
}

// Connect connects as a front does. The connection ends with the test.
func (c *Cluster) Connect(log *slog.Logger) *bus.Bus {
	c.t.Helper()
	b, err := bus.Connect(bus.Config{Servers: c.Addresses(), Log: log})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(b.Close)
	return b
}

// KillLeader ends the server that is the leader of a bucket.
func (c *Cluster) KillLeader(bucket string) {
	for i, s := range c.all {
		if s != nil && s.JetStreamIsStreamLeader("$G", "KV_"+bucket) {
			c.Stop(i)
			return
		}
	}
	c.t.Error("no server leads the bucket")
}

// StartEmpty starts a server that was stopped, without its data.
func (c *Cluster) StartEmpty(i int) {
	c.t.Helper()
	c.options[i].StoreDir += "-empty"
	c.start(i)
}
