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

// Credentials are the files by which the ends of a link know each other. They are read
// again when they change.
type Credentials struct {
	Cert, Key string // of this end, PEM
	CA        string // the certificates of the fleet's authority, PEM
}

// lookEvery is how often the files are looked at, at most.
const lookEvery = time.Second

// certificates are what the files of Credentials contain. It is safe for concurrent use.
type certificates struct {
	files Credentials

	mu     sync.Mutex
	own    tls.Certificate // guarded by mu, as are the next four
	roots  *x509.CertPool
	times  [3]time.Time // of the files, when they were read
	looked time.Time
	fault  error // why the files cannot be used now; what was read before is used
}

// open reads the files, or returns why they cannot be used.
func (c Credentials) open() (*certificates, error) {
	if c.Cert == "" || c.Key == "" || c.CA == "" {
		return nil, errors.New("--link-cert, --link-key and --link-ca go together: without all three the ends of a link do not know each other; `belljar fleet init` makes such files")
	}
	all := &certificates{files: c}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.read()
	return all, all.fault
}

// now returns the certificate of this end and the authority.
func (c *certificates) now() (tls.Certificate, *x509.CertPool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= lookEvery {
		c.read()
	}
	return c.own, c.roots
}

// state returns until when the certificate is valid, and why its files cannot be used.
func (c *certificates) state() (expires time.Time, fault error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if leaf := c.own.Leaf; leaf != nil {
		expires = leaf.NotAfter
	}
	return expires, c.fault
}

// read reads the files if they have changed; mu is held.
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

// server is the TLS configuration of a front: only certificates of the authority that are
// for clients pass.
func (c *certificates) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			own, roots := c.now()
			return &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, NextProtos: []string{protocol},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
				SessionTicketsDisabled: true, // each link shows its certificate, which may have been replaced
			}, nil
		},
	}
}

// client is the TLS configuration of a worker for a front of a name.
func (c *certificates) client(host string) *tls.Config {
	own, roots := c.now()
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, RootCAs: roots, ServerName: host, NextProtos: []string{protocol}}
}

// peer is the certificate by which the other end of a link is known.
type peer struct {
	chain []*x509.Certificate // which the handshake has verified
	usage x509.ExtKeyUsage
	roots *x509.CertPool // by which chain was verified last
}

// check returns why the certificate of a peer is not good any more: it has expired, or the
// files name another authority now.
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

// IsWorkerName reports whether a text may name a worker: it is a label of a DNS name.
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

// workerDomain is the domain of workers' names in their certificates.
const workerDomain = ".worker.belljar"

// WorkerDNS is the name that the certificate of a worker needs. A certificate for
// *.worker.belljar is good for every worker.
func WorkerDNS(name string) string { return name + workerDomain }
