package egress

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
)

// ways runs a benchmark with a direct connection and through the door, to compare them.
func ways(b *testing.B, port uint16, run func(*testing.B, func() net.Conn)) {
	direct := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String()
	dial := func(b *testing.B, to string) net.Conn {
		c, err := net.Dial("tcp", to)
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	s := serve(b, port, func(cfg *Config) { cfg.Record = nil })
	addr, ok := s.d.names.give(host(b, site))
	if !ok {
		b.Fatal("no address")
	}
	to := netip.AddrPortFrom(addr, port)
	s.target.Store(&to)
	b.Run("direct", func(b *testing.B) { run(b, func() net.Conn { return dial(b, direct) }) })
	b.Run("door", func(b *testing.B) { run(b, func() net.Conn { return dial(b, s.through.Addr().String()) }) })
}

// BenchmarkRelayConnect measures making a connection, sending and receiving one byte, and
// closing the connection.
func BenchmarkRelayConnect(b *testing.B) {
	ways(b, echo(b), func(b *testing.B, dial func() net.Conn) {
		buf := make([]byte, 1)
		for b.Loop() {
			c := dial()
			if _, err := c.Write(buf); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(c, buf); err != nil {
				b.Fatal(err)
			}
			c.Close()
		}
	})
}

// BenchmarkRelayBytes measures a download of a long stream.
func BenchmarkRelayBytes(b *testing.B) {
	endless := server(b, func(c net.Conn) {
		buf := make([]byte, 256<<10)
		for {
			if _, err := c.Write(buf); err != nil {
				return
			}
		}
	})
	ways(b, endless, func(b *testing.B, dial func() net.Conn) {
		c := dial()
		defer c.Close()
		buf := make([]byte, 256<<10)
		b.SetBytes(int64(len(buf)))
		for b.Loop() {
			if _, err := io.ReadFull(c, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRelayRequest measures a request on an open connection, judged and written
// anew.
func BenchmarkRelayRequest(b *testing.B) {
	w := newWeb(b)
	request := []byte("GET /none HTTP/1.1\r\nHost: " + at(site, w.port) + "\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
	ways(b, w.port, func(b *testing.B, dial func() net.Conn) {
		c := dial()
		defer c.Close()
		in := bufio.NewReader(c)
		for b.Loop() {
			if _, err := c.Write(request); err != nil {
				b.Fatal(err)
			}
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
		}
	})
}

func BenchmarkHello(b *testing.B) {
	raw := helloOf(site, nil)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := parseHello(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHead(b *testing.B) {
	raw := []byte("GET /v1/x?y=z HTTP/1.1\r\nHost: site.example\r\nUser-Agent: curl/8\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n")
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		h, err := parseHead(raw)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := h.place("http"); err != nil {
			b.Fatal(err)
		}
	}
}
