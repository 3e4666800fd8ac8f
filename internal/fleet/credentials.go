package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Credentials are the files with which the two ends of a link authenticate each other. They
// are read again when they change.
type Credentials struct {
	Cert, Key string // PEM files of this end
	CA        string // PEM file with the certificates of the fleet's authority
}

// lookEvery is the shortest time between two checks whether the files have changed.
const lookEvery = time.Second

// certificates are the contents of the files of Credentials. It is safe for concurrent use.
type certificates struct {
	files Credentials

	mu     sync.Mutex
	own    tls.Certificate // guarded by mu, like the four fields below
	roots  *x509.CertPool
	times  [3]time.Time // modification times of the files when they were read
	looked time.Time
	fault  error // why the files cannot be used now; the certificates that were read before stay in use
}

// open reads the files, or returns why they cannot be used.
func (c Credentials) open() (*certificates, error) {
	if c.Cert == "" || c.Key == "" || c.CA == "" {
		return nil, errors.New("--link-cert, --link-key and --link-ca go together: without all three the ends of a link cannot authenticate each other; `belljar fleet init` makes such files")
	}
	all := &certificates{files: c}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.read()
	return all, all.fault
}

// now returns the certificate of this end, and the pool with the authority.
func (c *certificates) now() (tls.Certificate, *x509.CertPool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= lookEvery {
		c.read()
	}
	return c.own, c.roots
}

// state returns when the certificate expires, and why its files cannot be used.
func (c *certificates) state() (expires time.Time, fault error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if leaf := c.own.Leaf; leaf != nil {
		expires = leaf.NotAfter
	}
	return expires, c.fault
}

// read reads the files if they have changed. The caller holds mu.
func (c *certificates) read() {
	c.looked = time.Now()
	var times [3]time.Time
	for i, name := range []string{c.files.Cert, c.files.Key, c.files.CA} {
		info, err := os.Stat(name)
		if err != nil {
			c.fault = fmt.Errorf("read the files of the link: %w", err)
			return
		}
		times[i] = info.ModTime()
	}
	if times == c.times && c.fault == nil {
		return
	}
	own, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		c.fault = fmt.Errorf("--link-cert %s, --link-key %s: %w", c.files.Cert, c.files.Key, err)
		return
	}
	text, err := os.ReadFile(c.files.CA)
	if err != nil {
		c.fault = fmt.Errorf("--link-ca: %w", err)
		return
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		c.fault = fmt.Errorf("--link-ca %s: it contains no certificate in PEM", c.files.CA)
		return
	}
	c.own, c.roots, c.times, c.fault = own, roots, times, nil
}

// server returns the TLS configuration of a front: it accepts only client certificates from
// the authority.
func (c *certificates) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			own, roots := c.now()
			return &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, NextProtos: []string{protocol},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
				SessionTicketsDisabled: true, // each link must present its certificate, which may have been replaced
			}, nil
		},
	}
}

// client returns the TLS configuration of a worker for the front with a host name.
func (c *certificates) client(host string) *tls.Config {
	own, roots := c.now()
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, RootCAs: roots, ServerName: host, NextProtos: []string{protocol}}
}

// peer is the certificate of the other end of a link.
type peer struct {
	chain []*x509.Certificate // chain that the handshake has verified
	usage x509.ExtKeyUsage
	roots *x509.CertPool // pool with which chain was verified last
}

// check returns why the certificate of a peer is not valid any more: it has expired, or the
// files contain another authority now.
func (c *certificates) check(p *peer, now time.Time) error {
	leaf := p.chain[0]
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("the certificate of the other end has expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	_, roots := c.now()
	if roots == p.roots {
		return nil
	}
	more := x509.NewCertPool()
	for _, above := range p.chain[1:] {
		more.AddCert(above)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: more, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{p.usage}})
	if err != nil {
		return fmt.Errorf("the certificate of the other end: %w", err)
	}
	p.roots = roots
	return nil
}

// IsWorkerName reports whether a text can be the name of a worker: a label of a DNS name.
func IsWorkerName(name string) bool {
	if name == "" || len(name) > 63 || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// workerDomain is the domain of the names of workers in their certificates.
const workerDomain = ".worker.belljar"

// WorkerDNS returns the DNS name that the certificate of a worker must have. A certificate
// for *.worker.belljar is valid for every worker.
func WorkerDNS(name string) string { return name + workerDomain }
