package browser_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"belljar.dev/browser"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/netlink"
)

// The internet of these tests is a network namespace in which every address belongs to the
// machine: one server answers at all public and private addresses, and notes at which
// address it was asked. So an address that the door refuses does exist, and a browser
// without walls reaches it.

// worldEnv is set for a test that runs in a network of its own.
const worldEnv = "BELLJAR_TEST_WORLD"

// world is everything outside the boxes.
type world struct {
	t     *testing.T
	mux   *http.ServeMux // handlers of all hosts
	dns   *nameserver
	roots string // PEM file of the authority of all certificates
	pin   string // pin of the authority's key
	sup   *sandbox.Supervisor
	pool  *browser.Pool
	wg    sync.WaitGroup

	mu   sync.Mutex
	hits map[netip.Addr][]string // requests and packets, by the address at which they arrived
}

// inWorld reports whether the test runs in a network of its own. If it does not, inWorld
// runs the test in such a network, in a new process of this program.
func inWorld(t *testing.T) bool {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.UserNamespaces, testenv.Chromium)
	if os.Getenv(worldEnv) != "" {
		return true
	}
	t.Parallel() // the test waits most of the time
	pattern := "^" + regexp.QuoteMeta(t.Name()) + "$"
	if f := flag.Lookup("test.run"); f != nil {
		if _, below, ok := strings.Cut(f.Value.String(), "/"); ok {
			pattern += "/" + below
		}
	}
	roots := filepath.Join(t.TempDir(), "roots.pem")
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run="+pattern, "-test.v", "-test.timeout=10m")
	// A process reads the certificates that it trusts only once, from this file.
	c.Env = append(os.Environ(), worldEnv+"="+roots, "SSL_CERT_FILE="+roots, "SSL_CERT_DIR=/nonexistent")
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

// newWorld sets up the network, serves it, and opens a pool.
func newWorld(t *testing.T, cfg browser.Config) *world {
	t.Helper()
	if err := allLocal(); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, mux: http.NewServeMux(), roots: os.Getenv(worldEnv), hits: map[netip.Addr][]string{}}
	t.Cleanup(w.wg.Wait) // runs after the functions that end these goroutines
	// This path distinguishes a hit that a vector aims at from other requests.
	w.mux.HandleFunc("/hit/", func(o http.ResponseWriter, _ *http.Request) {
		o.Header().Set("Access-Control-Allow-Origin", "*")
	})
	w.dns = newNameserver(t, w)
	sign := w.authority()
	w.serve(":80")
	w.web(tls.NewListener(w.listen(":443"), &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return sign(h.ServerName) },
	}))
	for _, port := range []int{3478, 9222} {
		w.accept(port)
	}
	for _, port := range []int{443, 3478, 5353} {
		w.packets(port)
	}
	var err error
	w.sup, err = sandbox.New(sandbox.Config{Resolver: w.dns})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Supervisor = w.sup
	if w.pool, err = browser.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(w.pool.Close(), w.sup.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// allLocal makes every address the namespace's own.
func allLocal() error {
	sock, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	if err := netlink.AllLocal(sock, netip.MustParseAddr("8.8.4.4")); err != nil {
		return err
	}
	// The same for IPv6: ip -6 route add local default dev lo (rtnetlink(7)).
	const size, loopback = unix.SizeofNlMsghdr + 12 + 8, 1
	b := binary.NativeEndian.AppendUint32(nil, size)
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_NEWROUTE)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE)
	b = append(b, make([]byte, 8)...)
	b = append(b, unix.AF_INET6, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_LOCAL, 0, 0, 0, 0)
	b = append(b, 8, 0, unix.RTA_OIF, 0)
	b = binary.NativeEndian.AppendUint32(b, loopback)
	if err := unix.Sendto(sock, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("route IPv6: %w", err)
	}
	return nil
}

// lan is the address of the interface, like that of a machine in a local network.
var lan = netip.MustParseAddr("192.168.77.2")

// addInterface makes an interface with that address: WebRTC does not work if there is only
// a loopback interface. A program at the other end of the device would receive nothing:
// everything that is sent is for addresses of this namespace.
func addInterface(t *testing.T) error {
	tun, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/net/tun: %w", err)
	}
	t.Cleanup(func() { unix.Close(tun) })
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	r, err := unix.NewIfreq("eth0")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(tun, unix.TUNSETIFF, r); err != nil {
		return fmt.Errorf("make an interface: %w", err)
	}
	if err := r.SetInet4Addr(lan.AsSlice()); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(sock, unix.SIOCSIFADDR, r); err != nil {
		return fmt.Errorf("set the address of an interface: %w", err)
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(sock, unix.SIOCSIFFLAGS, r); err != nil {
		return fmt.Errorf("bring an interface up: %w", err)
	}
	return nil
}

// authority returns a function that issues a certificate for every name. A name that begins
// with "bad" gets the certificate of another name, and a name that begins with "forged"
// gets one that it signs itself.
func (w *world) authority() func(name string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	issue := func(cert, parent *x509.Certificate) *x509.Certificate {
		cert.SerialNumber, cert.NotBefore, cert.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, key)
		if err != nil {
			w.t.Error(err)
			return cert
		}
		made, err := x509.ParseCertificate(der)
		if err != nil {
			w.t.Error(err)
			return cert
		}
		return made
	}
	self := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	root := issue(self, self)
	sum := sha256.Sum256(root.RawSubjectPublicKeyInfo)
	w.pin = base64.StdEncoding.EncodeToString(sum[:])
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw})
	if err := os.WriteFile(w.roots, text, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return func(name string) (*tls.Certificate, error) {
		cert := &x509.Certificate{DNSNames: []string{name}}
		if strings.HasPrefix(name, "bad") {
			cert.DNSNames[0] = "other.example"
		}
		if strings.HasPrefix(name, "forged") {
			// This certificate is signed by no authority, but the authority's certificate
			// is shown after it.
			own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				return nil, err
			}
			cert.SerialNumber, cert.NotBefore, cert.NotAfter = big.NewInt(1), root.NotBefore, root.NotAfter
			der, err := x509.CreateCertificate(rand.Reader, cert, cert, &own.PublicKey, own)
			return &tls.Certificate{Certificate: [][]byte{der, root.Raw}, PrivateKey: own}, err
		}
		return &tls.Certificate{Certificate: [][]byte{issue(cert, root).Raw}, PrivateKey: key}, nil
	}
}

// seen notes a hit.
func (w *world) seen(at net.Addr, what string) {
	var to netip.Addr
	switch a := at.(type) {
	case *net.TCPAddr:
		to = a.AddrPort().Addr()
	case *net.UDPAddr:
		to = a.AddrPort().Addr()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hits[to.Unmap()] = append(w.hits[to.Unmap()], what)
}

// at returns the hits at an address.
func (w *world) at(addr netip.Addr) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.hits[addr]...)
}

// counted notes each connection when it is accepted, before it has sent a byte.
type counted struct {
	net.Listener
	w    *world
	name string
}

func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.w.seen(conn.LocalAddr(), c.name)
	}
	return conn, err
}

// listen opens a TCP port at all addresses.
func (w *world) listen(at string) net.Listener {
	l, err := net.Listen("tcp", at)
	if err != nil {
		w.t.Fatal(err)
	}
	return counted{l, w, "tcp " + at}
}

// serve answers HTTP at an address and port, until stop is called or the test ends.
// Requests in progress may finish after stop.
func (w *world) serve(at string) (stop func()) {
	l := w.listen(at)
	w.web(l)
	return func() { l.Close() }
}

// web serves HTTP on l.
func (w *world) web(l net.Listener) {
	s := &http.Server{Handler: w.mux, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	s.SetKeepAlivesEnabled(false) // so that each request has a connection, which is noted at its address
	w.wg.Go(func() { _ = s.Serve(l) })
	w.t.Cleanup(func() { s.Close() })
}

// accept accepts connections and closes them.
func (w *world) accept(port int) {
	l := w.listen(fmt.Sprintf(":%d", port))
	w.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	})
	w.t.Cleanup(func() { l.Close() })
}

// packets receives datagrams on a port at all IPv4 addresses.
func (w *world) packets(port int) {
	c, err := net.ListenPacket("udp4", fmt.Sprintf(":%d", port))
	if err != nil {
		w.t.Fatal(err)
	}
	p := ipv4.NewPacketConn(c)
	if err := p.SetControlMessage(ipv4.FlagDst, true); err != nil {
		w.t.Fatal(err)
	}
	w.wg.Go(func() {
		buf := make([]byte, 2048)
		for {
			_, cm, _, err := p.ReadFrom(buf)
			if err != nil {
				return
			}
			w.seen(&net.UDPAddr{IP: cm.Dst}, fmt.Sprintf("udp :%d", port))
		}
	})
	w.t.Cleanup(func() { c.Close() })
}

// page serves HTML, with headers as "Name: value".
func (w *world) page(path, html string, headers ...string) {
	w.file(path, "text/html; charset=utf-8", html, headers...)
}

func (w *world) file(path, kind, text string, headers ...string) {
	w.mux.HandleFunc(path, func(o http.ResponseWriter, _ *http.Request) {
		o.Header().Set("Content-Type", kind)
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			o.Header().Add(name, value)
		}
		_, _ = io.WriteString(o, text)
	})
}

// pageThen serves HTML. At each request it calls then first.
func (w *world) pageThen(path, html string, then func()) {
	w.mux.HandleFunc(path, func(o http.ResponseWriter, _ *http.Request) {
		then()
		o.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(o, html)
	})
}

func (w *world) redirect(path, to string) {
	w.mux.HandleFunc(path, func(o http.ResponseWriter, q *http.Request) { http.Redirect(o, q, to, http.StatusFound) })
}

// grant allows every name, so that only the kind of a private address keeps a page from it,
// and no list does.
func (w *world) grant(tenant, more string) policies.Grant {
	w.t.Helper()
	return policytest.GrantFor(w.t, fmt.Sprintf(`version: 1
defaults: {decision: allow, profile: pages}
profiles:
  pages:
    browser: sandboxed
    net: {mode: proxy, allow: ["*"], ports: [80, 443, 3478, 8080, 9222], limits: {connections: 512, rate: 10000, bytes: 100GiB} %s}
`, more), policies.Facts{Tenant: tenant, Tool: "ReadDocs"})
}

// intercepted is an argument for grant: the door decrypts TLS.
const intercepted = ", tls: intercept"

func (w *world) load(g policies.Grant, q browser.Request) (*browser.Loaded, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute*testenv.Patience(w.t))
	defer cancel()
	return w.pool.Load(ctx, g, q)
}

// bare loads a page in a Chrome without walls and waits until ok returns true, for at most
// 20 seconds. It reports whether ok did.
func (w *world) bare(url string, ok func() bool, flags ...string) bool {
	w.t.Helper()
	program, err := browser.Find()
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second*testenv.Patience(w.t))
	defer cancel()
	dir := w.t.TempDir()
	args := append([]string{
		"--no-sandbox", "--headless", "--disable-gpu", "--user-data-dir=" + dir, "--remote-debugging-pipe",
		"--ignore-certificate-errors-spki-list=" + w.pin,
	}, flags...) // if a flag is given twice, the last one counts
	c := exec.CommandContext(ctx, program, append(args, url)...)
	// Chrome has a pid namespace of its own, so that all of its processes end with it.
	c.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Pdeathsig: unix.SIGKILL}
	c.WaitDelay = time.Second
	toChrome, in, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, fromChrome, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	c.ExtraFiles = []*os.File{toChrome, fromChrome}
	err = c.Start()
	toChrome.Close()
	fromChrome.Close()
	defer in.Close()
	defer out.Close()
	if err != nil {
		w.t.Fatal(err)
	}
	came := poll(ctx, ok)
	cancel()
	_ = c.Wait()
	return came
}

// poll waits for a change that is not announced.
func poll(ctx context.Context, ok func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok() {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ok()
		}
	}
}

// number returns an address with a number in its last two bytes.
func number(prefix string, n int) netip.Addr {
	a := netip.MustParseAddr(prefix).As4()
	binary.BigEndian.PutUint16(a[2:], uint16(n))
	return netip.AddrFrom4(a)
}
