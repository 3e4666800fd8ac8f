package searchtest

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Proxy is an HTTP proxy on the loopback interface that leads every CONNECT to
// the server, whatever it names: for programs that are to meet the mocks as
// they are, with HTTPS_PROXY at its address and SSL_CERT_FILE at the server's
// Authority. It must be closed.
type Proxy struct {
	server   *Server
	listener net.Listener
	serving  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

// tunnelsMost bounds the tunnels that are open at once.
const tunnelsMost = 512

// Proxy starts one.
func (s *Server) Proxy() (*Proxy, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0") //nolint:forbidigo // a listen does not wait
	if err != nil {
		return nil, err
	}
	p := &Proxy{server: s, listener: l, open: make(map[net.Conn]struct{})}
	p.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if p.hold(c) {
				p.serving.Go(func() { p.tunnel(c) })
			}
		}
	})
	return p, nil
}

// URL is the proxy's address.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

// Close ends all tunnels and waits.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	err := p.listener.Close()
	p.serving.Wait()
	return err
}

// hold keeps a connection to be closed with the proxy.
func (p *Proxy) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.open) >= 2*tunnelsMost {
		c.Close()
		return false
	}
	p.open[c] = struct{}{}
	return true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	c.Close()
}

// tunnel serves one client.
func (p *Proxy) tunnel(c net.Conn) {
	defer p.drop(c)
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	in := bufio.NewReader(io.LimitReader(c, 64<<10))
	req, err := http.ReadRequest(in)
	if err != nil || req.Method != http.MethodConnect {
		_, _ = io.WriteString(c, "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
		return
	}
	there, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(req.Context(), "tcp", p.server.listener.Addr().String())
	if err != nil || !p.hold(there) {
		return
	}
	defer p.drop(there)
	_ = c.SetDeadline(time.Time{})
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	// What the client sent together with its CONNECT, and then the rest of it.
	early, _ := in.Peek(in.Buffered())
	if _, err := there.Write(early); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(there, c)
		there.Close()
	})
	_, _ = io.Copy(c, there)
	c.Close()
	both.Wait()
}
