package front

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// lookEvery is how often the files of a certificate are read. A changed pair is used only
// when the next look finds it unchanged, because the files are replaced one after the
// other.
const lookEvery = 500 * time.Millisecond

// maxPEM is the maximum size of a file with certificates, in bytes.
const maxPEM = 1 << 20

// keyPair is the certificate of a server. It is read again when its files change. A pair
// that cannot be used changes nothing.
type keyPair struct {
	cert, key, clientCA string // paths of the files; clientCA may be empty
	log                 *slog.Logger

	now   atomic.Pointer[credentials]
	fault atomic.Pointer[string] // why the files cannot be used; nil if they can
	asked chan struct{}          // contains one element while the files are to be read immediately

	// The contents of the files: of the credentials in use, of the last attempt, and of the
	// last look. Only follow uses them.
	held, tried, seen [3][]byte
}

// credentials are the result of reading the files once.
type credentials struct {
	config *tls.Config
	leaf   *x509.Certificate
}

// openKeyPair reads a certificate for the first time.
func openKeyPair(cert, key, clientCA string, log *slog.Logger) (*keyPair, error) {
	p := &keyPair{cert: cert, key: key, clientCA: clientCA, log: log, asked: make(chan struct{}, 1)}
	texts, err := p.read()
	if err != nil {
		return nil, err
	}
	c, err := p.parse(texts)
	if err != nil {
		return nil, err
	}
	p.hold(c, texts)
	return p, nil
}

// config returns the configuration of a listener. Each handshake uses the certificate that
// is current at that time.
func (p *keyPair) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return p.now.Load().config, nil },
	}
}

// read reads the files.
func (p *keyPair) read() (texts [3][]byte, err error) {
	for i, name := range []string{p.cert, p.key, p.clientCA} {
		if name == "" {
			continue
		}
		if texts[i], err = readBounded(name); err != nil {
			return texts, err
		}
	}
	return texts, nil
}

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var text bytes.Buffer
	if n, err := text.ReadFrom(io.LimitReader(f, maxPEM+1)); err != nil || n > maxPEM {
		return nil, errors.Join(fmt.Errorf("read %s: want at most 1 MiB of PEM", name), err)
	}
	return text.Bytes(), nil
}

// parse makes credentials from the contents of the files.
func (p *keyPair) parse(texts [3][]byte) (*credentials, error) {
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("the certificate %s and the key %s are not a pair: %w", p.cert, p.key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{pair}}
	if p.clientCA != "" {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(texts[2]) {
			return nil, fmt.Errorf("%s has no certificate of an authority for clients", p.clientCA)
		}
	}
	return &credentials{config, pair.Leaf}, nil
}

// hold makes later handshakes use other credentials.
func (p *keyPair) hold(c *credentials, texts [3][]byte) {
	p.held = texts
	p.now.Store(c)
	p.fault.Store(nil)
	if info, err := os.Stat(p.key); err == nil && info.Mode().Perm()&0o007 != 0 {
		p.log.Warn("every user of this machine has access to the key of the certificate, and could impersonate the server; run chmod o= on the key", "file", p.key)
	}
	if why := c.outdated(time.Now()); why != "" {
		p.log.Warn("clients will refuse the certificate", "file", p.cert, "why", why)
	}
}

// outdated returns why clients would refuse the certificate at a time; empty if they would
// not.
func (c *credentials) outdated(now time.Time) string {
	switch {
	case now.After(c.leaf.NotAfter):
		return "it expired on " + c.leaf.NotAfter.UTC().Format(time.DateTime)
	case now.Before(c.leaf.NotBefore):
		return "it is not valid before " + c.leaf.NotBefore.UTC().Format(time.DateTime)
	}
	return ""
}

// degraded returns what is wrong with the certificate now; empty if nothing is wrong.
func (p *keyPair) degraded() string {
	if why := p.now.Load().outdated(time.Now()); why != "" {
		return "the certificate: " + why
	}
	if fault := p.fault.Load(); fault != nil {
		return "the files of the certificate cannot be used, and the previous certificate stays in use: " + *fault
	}
	return ""
}

// ask makes follow read the files immediately, and does not wait for it.
func (p *keyPair) ask() {
	select {
	case p.asked <- struct{}{}:
	default: // the request that waits already serves this caller too
	}
}

// follow reads the files again when they have changed, until ctx ends.
func (p *keyPair) follow(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.asked:
			p.look(true)
		case <-ticker.C:
			p.look(false)
		}
	}
}

// look reads the files. If they contain another pair than before, it uses that pair.
func (p *keyPair) look(atOnce bool) {
	texts, err := p.read()
	if err != nil {
		p.refuse(err)
		return
	}
	still := same(texts, p.seen)
	p.seen = texts
	switch {
	case same(texts, p.held):
		p.fault.Store(nil)
		return
	case !atOnce && (!still || same(texts, p.tried)):
		return
	}
	p.tried = texts
	c, err := p.parse(texts)
	if err != nil {
		p.refuse(err)
		return
	}
	p.hold(c, texts)
	p.log.Info("the certificate was read again", "file", p.cert, "serial", hex.EncodeToString(c.leaf.SerialNumber.Bytes()), "expires", c.leaf.NotAfter.UTC())
}

// refuse keeps the credentials in use, and logs the reason, once for each reason.
func (p *keyPair) refuse(err error) {
	text := err.Error()
	if before := p.fault.Swap(&text); before == nil || *before != text {
		p.log.Error("the certificate cannot be read again; the previous certificate stays in use", "file", p.cert, "err", err)
	}
}

func same(a, b [3][]byte) bool {
	return bytes.Equal(a[0], b[0]) && bytes.Equal(a[1], b[1]) && bytes.Equal(a[2], b[2])
}
