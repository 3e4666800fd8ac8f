package sandbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// The test program is also a client, in a box or on the host, and writes what it measured
// to standard output.

// clientName is argv[0] of the client; its arguments are the address, what to
// do and how often.
const clientName = "belljar-test-client"

// echoed is a byte that no request begins with.
const echoed = 1

// measured is what a client has measured.
type measured struct {
	Resolve float64 // time to find the address of the name, once, in ms
	Connect float64 // median time to connect, send and receive one byte, and close, in ms
	Ping    float64 // median time to send and receive one byte, in us
	Down    float64 // download rate in MB/s
	Up      float64 // upload rate in MB/s
	Rate    float64 // connections in a second
	Failed  int
	Error   string
}

// client runs the client.
func client() {
	var m measured
	n, err := strconv.Atoi(os.Args[3])
	if err == nil {
		// Only once, like a program that makes many connections.
		begin := time.Now()
		var to *net.TCPAddr
		if to, err = net.ResolveTCPAddr("tcp", os.Args[1]); err == nil {
			os.Args[1], m.Resolve = to.String(), float64(time.Since(begin))/1e6
		}
	}
	if err == nil {
		err = map[string]func(*measured, string, int) error{
			"connect": (*measured).connect, "down": (*measured).down, "up": (*measured).up, "rate": (*measured).rate,
		}[os.Args[2]](&m, os.Args[1], n)
	}
	if err != nil {
		m.Error = err.Error()
	}
	if json.NewEncoder(os.Stdout).Encode(m) != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func (m *measured) connect(addr string, n int) error {
	var connects, pings []float64
	for range n {
		begin := time.Now()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		for i := range 5 {
			sent := time.Now()
			if err := echoByte(c); err != nil {
				return err
			}
			if i == 0 {
				connects = append(connects, float64(time.Since(begin))/1e6)
			} else {
				pings = append(pings, float64(time.Since(sent))/1e3)
			}
		}
		c.Close()
	}
	m.Connect, m.Ping = median(connects), median(pings)
	return nil
}

func echoByte(c net.Conn) error {
	b := []byte{echoed}
	if _, err := c.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(c, b)
	return err
}

// down and up transfer n MB.
func (m *measured) down(addr string, n int) (err error) {
	m.Down, err = move(addr, "d", n)
	return err
}

func (m *measured) up(addr string, n int) (err error) {
	m.Up, err = move(addr, "u", n)
	return err
}

func move(addr, way string, n int) (float64, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	begin := time.Now()
	if _, err := fmt.Fprintf(c, "\x02%s%08d", way, n); err != nil {
		return 0, err
	}
	buf := make([]byte, 256<<10)
	if way == "u" {
		for left := n << 20; left > 0; left -= len(buf) {
			if _, err := c.Write(buf); err != nil {
				return 0, err
			}
		}
	}
	var got int
	for {
		k, err := c.Read(buf)
		got += k
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	if want := map[string]int{"d": n << 20, "u": 1}[way]; got != want {
		return 0, fmt.Errorf("got %d bytes, want %d", got, want)
	}
	return float64(n<<20) / 1e6 / time.Since(begin).Seconds(), nil
}

// rate makes n connections, eight at a time.
func (m *measured) rate(addr string, n int) error {
	var left, failed atomic.Int64
	left.Store(int64(n))
	var workers sync.WaitGroup
	begin := time.Now()
	for range 8 {
		workers.Go(func() {
			for left.Add(-1) >= 0 {
				c, err := net.Dial("tcp", addr)
				if err == nil {
					err = echoByte(c)
					c.Close()
				}
				if err != nil {
					failed.Add(1)
				}
			}
		})
	}
	workers.Wait()
	m.Rate, m.Failed = float64(n)/time.Since(begin).Seconds(), int(failed.Load())
	return nil
}

// serving starts a server on the host's loopback, which passes each connection to handle
// and closes it afterwards. It ends with the test.
func serving(t testing.TB, handle func(net.Conn)) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	t.Cleanup(func() { l.Close(); conns.Wait() })
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	return l
}

// server starts a server for clients on the host's loopback, and returns its port. The
// server echoes the byte, or sends or reads megabytes.
func server(t testing.TB) (port int) {
	t.Helper()
	addr, ok := serving(t, serveClient).Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal("no TCP address")
	}
	return addr.Port
}

func serveClient(c net.Conn) {
	buf := make([]byte, 256<<10)
	for {
		if _, err := io.ReadFull(c, buf[:1]); err != nil {
			return
		}
		switch buf[0] {
		case 2:
			if _, err := io.ReadFull(c, buf[:9]); err != nil {
				return
			}
			way := buf[0]
			n, err := strconv.Atoi(string(buf[1:9]))
			if err != nil {
				return
			}
			for left := n << 20; left > 0; left -= len(buf) {
				if way == 'd' {
					_, err = c.Write(buf)
				} else {
					_, err = io.ReadFull(c, buf)
				}
				if err != nil {
					return
				}
			}
			if way == 'u' {
				_, _ = c.Write(buf[:1])
			}
			return
		default:
			if _, err := c.Write(buf[:1]); err != nil {
				return
			}
		}
	}
}

// clientGrant returns a grant that lets a box reach ports of this host and see the test
// program.
func clientGrant(t testing.TB, ports ...int) policies.Grant {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var allow []string
	for _, p := range ports {
		allow = append(allow, fmt.Sprintf(`"host.belljar.internal:%d"`, p))
	}
	return policytest.GrantProfile(t, fmt.Sprintf(`fs: {system: true, workspace: rw, read: ["%s:/client"]}
net: {mode: proxy, allow_private: [%s], limits: {connections: 512, rate: 10000, bytes: 100GiB}}
limits: {tmp: 64MiB}`, self, strings.Join(allow, ", ")))
}

// inBox runs the client in a box, and returns what it measured.
func inBox(t testing.TB, b *sandbox.Box, port int, what string, n int) measured {
	t.Helper()
	r, err := b.Run(t.Context(), sandbox.Cmd{
		Grant: b.Grant(), Argv: []string{"/bin/bash", "-c", fmt.Sprintf("exec -a %s /client host.belljar.internal:%d %s %d", clientName, port, what, n)},
		Env: map[string]string{"GODEBUG": "netdns=go"}, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	text, _, _, err := r.Output.Read(0, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	return heard(t, text)
}

func heard(t testing.TB, text []byte) measured {
	t.Helper()
	var m measured
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("the client said %q: %v", text, err)
	}
	return m
}
