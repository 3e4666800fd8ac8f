package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox/netlink"
)

// The internet of these tests is a network namespace of their own in which every address
// belongs to the machine. So one careless server answers at all addresses: public ones, a
// cloud's metadata address, loopback and private ones. A server that is refused in a box
// exists, and is reached from outside.

// networkEnv is the variable that tells a test that it runs in a network of its own.
const networkEnv = "BELLJAR_TEST_NETWORK"

// inNetwork reports whether the test runs in a network namespace of its own. If it does
// not, this program runs the test again in such a namespace.
func inNetwork(t *testing.T) bool {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.UserNamespaces, testenv.Bash)
	if os.Getenv(networkEnv) != "" {
		return true
	}
	pattern := "^" + regexp.QuoteMeta(t.Name()) + "$"
	if f := flag.Lookup("test.run"); f != nil {
		if _, below, ok := strings.Cut(f.Value.String(), "/"); ok {
			pattern += "/" + below
		}
	}
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run="+pattern, "-test.v", "-test.timeout=5m")
	c.Env = append(os.Environ(), networkEnv+"=1")
	c.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("in a network of its own: %v\n%s", err, out)
		return false
	}
	t.Logf("in a network of its own:\n%s", out)
	return false
}

// internet is everything that is not a box.
type internet struct {
	token string
	names *names
	roots *x509.CertPool
	sign  func(name string) (*tls.Certificate, error)
	wg    sync.WaitGroup
	open  []io.Closer

	mu    sync.Mutex
	heard []string // the newest requests, as they came
}

// Addresses of the internet.
const (
	publicAddr = "93.184.216.34"
	judgedAddr = "93.184.216.35"
	deniedAddr = "93.184.216.36"
	ownAddr    = "8.8.4.4" // address of an interface of the machine
	cloudAddr  = "169.254.169.254"
)

// ports are the ports on which the careless server listens, at all addresses.
var ports = []int{1, 2, 22, 53, 80, 3000, 5432, 8080}

// newInternet sets up the network and serves it.
func newInternet(t *testing.T) *internet {
	t.Helper()
	if err := bringUp(); err != nil {
		t.Fatal(err)
	}
	n := &internet{token: "token-" + rand.Text(), names: &names{}}
	n.names.set(map[string]string{
		"allowed.example": publicAddr, "judged.example": judgedAddr, "denied.example": deniedAddr, "other.example": "93.184.216.37",
		"a.wild.example": publicAddr, "bad.wild.example": deniedAddr,
		"xn--llowed-4ve.example": deniedAddr, "аllowed.example": deniedAddr,
		"private.example": "10.0.0.5", "shared.example": "100.64.0.1", "local.example": "169.254.1.1", "loop.example": "127.0.0.1",
		"zero.example": "0.0.0.0", "cloud.example": cloudAddr, "own.example": ownAddr, "fake.example": "198.18.0.9",
		"mapped.example": "::ffff:127.0.0.1", "nat64.example": "64:ff9b::7f00:1", "sixtofour.example": "2002:7f00:1::1",
		"teredo.example": "2001:0:7f00:1::80ff:fffe", "isatap.example": "2606:4700::5efe:7f00:1", "ula.example": "fd00:ec2::254",
		"loop6.example": "::1", "doc6.example": "2001:db8::1", "multi.example": "224.0.0.251",
		"dev.example": "127.0.0.1", "api.example": publicAddr, "denied-by-address.example": deniedAddr,
	})
	t.Cleanup(func() {
		for _, c := range n.open {
			c.Close()
		}
		n.wg.Wait()
		for range 3 {
			runtime.GC() // closes the pipes that package net keeps for splice(2)
		}
	})
	n.authority(t)
	for _, port := range ports {
		n.serve(t, port, plain)
	}
	n.serve(t, 443, func(c net.Conn) net.Conn {
		return tls.Server(c, &tls.Config{
			MinVersion: tls.VersionTLS12,
			GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
				if h.ServerName == "" {
					return n.sign("unnamed.example")
				}
				return n.sign(h.ServerName)
			},
		})
	})
	for _, at := range []string{"198.19.255.254:53", "8.8.8.8:53", publicAddr + ":443", "198.18.0.1:443", "224.0.0.251:5353"} {
		n.packets(t, at)
	}
	return n
}

// names are the names that a resolver knows.
type names struct {
	mu    sync.Mutex
	known map[string]string
	turns map[string][]string // answers that change from look-up to look-up; the last one stays
	asked []string
}

func (n *names) set(known map[string]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known, n.turns = known, map[string][]string{}
}

// rebind sets answers about a name that change from one look-up to the next.
func (n *names) rebind(name string, answers ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turns[name] = answers
}

// LookupNetIP is the look-up that doors use.
func (n *names) LookupNetIP(_ context.Context, _, name string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, name)
	answer, ok := n.known[name]
	if turns := n.turns[name]; len(turns) > 0 {
		answer, ok = turns[0], true
		if len(turns) > 1 {
			n.turns[name] = turns[1:]
		}
	}
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	var all []netip.Addr
	for part := range strings.FieldsSeq(answer) {
		all = append(all, netip.MustParseAddr(part))
	}
	return all, nil
}

// wasAsked reports whether a door asked for a name with the text in it.
func (n *names) wasAsked(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.asked {
		if strings.Contains(a, name) {
			return true
		}
	}
	return false
}

// bringUp makes every address of both families an address of the namespace, and one of them
// an address of an interface.
func bringUp() error {
	sock, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	if err := netlink.AllLocal(sock, netip.MustParseAddr(ownAddr)); err != nil {
		return err
	}
	// The same for IPv6: ip -6 route add local default dev lo (rtnetlink(7)).
	route := []byte{unix.AF_INET6, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_LOCAL, 0, 0, 0, 0}
	route = append(route, 8, 0, unix.RTA_OIF, 0)
	route = binary.NativeEndian.AppendUint32(route, 1)
	if err := tellKernel(sock, unix.RTM_NEWROUTE, unix.NLM_F_CREATE, route); err != nil {
		return fmt.Errorf("route IPv6: %w", err)
	}
	return nil
}

// tellKernel sends one netlink message and returns the kernel's answer as an error.
func tellKernel(sock int, kind, flags uint16, body []byte) error {
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	b = append(b, make([]byte, 8)...)
	if err := unix.Sendto(sock, append(b, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	got, _, err := unix.Recvfrom(sock, answer, 0)
	switch {
	case err != nil:
		return err
	case got < unix.SizeofNlMsghdr+4:
		return errors.New("the kernel's answer is too short")
	}
	if errno := -int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
		return unix.Errno(errno)
	}
	return nil
}

// authority makes an authority that signs certificates for every name.
func (n *internet) authority(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	make := func(cert, parent *x509.Certificate) (*x509.Certificate, error) {
		cert.SerialNumber, cert.NotBefore, cert.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, key)
		if err != nil {
			return nil, err
		}
		return x509.ParseCertificate(der)
	}
	self := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	root, err := make(self, self)
	if err != nil {
		t.Fatal(err)
	}
	n.roots = x509.NewCertPool()
	n.roots.AddCert(root)
	n.sign = func(name string) (*tls.Certificate, error) {
		leaf, err := make(&x509.Certificate{DNSNames: []string{name}}, root)
		if err != nil {
			return nil, err
		}
		return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}, nil
	}
}

func plain(c net.Conn) net.Conn { return c }

// serve answers on a port of all addresses.
func (n *internet) serve(t *testing.T, port int, wrap func(net.Conn) net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	n.accept(l, wrap)
}

// accept answers the connections of a listener until the internet ends.
func (n *internet) accept(l net.Listener, wrap func(net.Conn) net.Conn) {
	n.open = append(n.open, l)
	n.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.wg.Go(func() {
				defer c.Close()
				n.answer(wrap(c), c.LocalAddr())
			})
		}
	})
}

// outside returns the addresses of the names as a program outside finds them.
func (n *internet) outside() map[string]string {
	n.names.mu.Lock()
	defer n.names.mu.Unlock()
	known := maps.Clone(n.names.known)
	for name, turns := range n.names.turns { // the answer that a program gets at a later look-up
		known[name] = turns[len(turns)-1]
	}
	return known
}

// packets answers to datagrams at an address.
func (n *internet) packets(t *testing.T, at string) {
	t.Helper()
	addr := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(at))
	var c *net.UDPConn
	var err error
	if addr.IP.IsMulticast() {
		c, err = net.ListenMulticastUDP("udp4", nil, addr)
	} else {
		c, err = net.ListenUDP("udp4", addr)
	}
	if err != nil {
		t.Fatal(err)
	}
	n.open = append(n.open, c)
	n.wg.Go(func() {
		buf := make([]byte, 4096)
		for {
			got, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(append([]byte(n.token), buf[:got]...), from)
		}
	})
}

// quiet is how long the server waits for more of a request, like servers that read a
// request as a whole.
const quiet = 20 * time.Millisecond

// answer is a careless server: it states its token and repeats everything that it gets. It
// is also a proxy for clients that ask for one.
func (n *internet) answer(c net.Conn, at net.Addr) {
	in := bufio.NewReaderSize(c, 4<<20)
	for {
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := in.Peek(1); err != nil {
			return
		}
		raw, _ := in.Peek(in.Buffered())
		for !hurried(raw) { // until no more bytes come
			_ = c.SetReadDeadline(time.Now().Add(quiet))
			_, err := in.Peek(in.Buffered() + 1)
			raw, _ = in.Peek(in.Buffered())
			if err != nil {
				break
			}
		}
		text := string(raw)
		_, _ = in.Discard(len(raw))
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		n.mu.Lock()
		n.heard = append(n.heard[max(0, len(n.heard)-31):], text[:min(len(text), 4096)])
		n.mu.Unlock()
		line, _, _ := strings.Cut(text, "\n")
		word := strings.Fields(line)
		switch {
		case len(word) > 1 && word[0] == "CONNECT":
			n.tunnel(c, word[1])
			return
		case len(word) > 1 && strings.HasPrefix(word[1], "http://"):
			n.forward(c, word[1], text)
			return
		}
		if err := n.say(c, word, text, at); err != nil {
			return
		}
	}
}

// hurried reports whether a request comes from a client that wants its answer soon.
func hurried(raw []byte) bool {
	return bytes.Contains(raw, []byte("/fast")) && bytes.HasSuffix(raw, []byte("\r\n\r\n"))
}

// large is how many bytes a server sends for /big.
const large = 1 << 20

func (n *internet) say(c io.Writer, word []string, text string, at net.Addr) error {
	body := fmt.Sprintf("%s at %s\n%s", n.token, at, text)
	if len(word) < 2 || !strings.Contains(text, "HTTP/1") {
		_, err := io.WriteString(c, body)
		return err
	}
	extra := ""
	status := "200 OK"
	if _, to, ok := strings.Cut(word[1], "/redirect?to="); ok {
		status, extra, body = "302 Found", "Location: "+to+"\r\n", "moved\n"
	}
	if strings.Contains(word[1], "/big") {
		body += strings.Repeat("x", large)
	}
	_, err := fmt.Fprintf(c, "HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s", status, extra, len(body), body)
	return err
}

// tunnel serves a proxy's CONNECT to any target.
func (n *internet) tunnel(c net.Conn, target string) {
	up, err := n.dial(target)
	if err != nil {
		return
	}
	defer up.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	done := make(chan struct{})
	n.wg.Go(func() {
		defer close(done)
		_, _ = io.Copy(up, c)
		up.Close()
	})
	_, _ = io.Copy(c, up)
	c.Close()
	<-done
}

// forward serves a proxy's request for a URL.
func (n *internet) forward(c net.Conn, url, text string) {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	if !strings.Contains(host, ":") {
		host += ":80"
	}
	up, err := n.dial(host)
	if err != nil {
		return
	}
	defer up.Close()
	_, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	_, _ = io.WriteString(up, strings.Replace(text, url, "/"+path, 1))
	_ = up.SetReadDeadline(time.Now().Add(10 * quiet))
	_, _ = io.Copy(c, up)
}

// dial connects as a careless program does, and reads a host as C does.
func (n *internet) dial(target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	return net.DialTimeout("tcp", net.JoinHostPort(n.careless(host), port), 3*time.Second)
}

func (n *internet) careless(host string) string {
	if i := strings.IndexFunc(host, func(r rune) bool { return r < ' ' }); i >= 0 {
		host = host[:i]
	}
	host = strings.ToLower(strings.TrimSuffix(host[strings.LastIndexByte(host, '@')+1:], "."))
	n.names.mu.Lock()
	known, ok := n.names.known[host]
	n.names.mu.Unlock()
	if ok {
		return known
	}
	return aton(host)
}

// aton reads numbers as inet_aton(3) does; any other text stays as it is.
func aton(host string) string {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return host
	}
	var sum uint64
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 0, 32)
		if err != nil {
			return host
		}
		if i < len(parts)-1 {
			sum |= v << (8 * (3 - i))
		} else {
			sum |= v
		}
	}
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(sum)))).String()
}

// contains returns an error unless a text contains all of the words.
func contains(text []byte, words ...string) error {
	for _, w := range words {
		if !bytes.Contains(text, []byte(w)) {
			return fmt.Errorf("no %q in %.300q", w, text)
		}
	}
	return nil
}
