package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"

	"belljar.dev/policies"
)

const (
	// authorityLife is how long a door's authority and its certificates are valid. It
	// bounds how long a key that was read out of a process is useful.
	authorityLife = 7 * 24 * time.Hour

	// maxLeaves bounds the certificates that are kept: one of about 2 KiB for each name.
	maxLeaves = 256
)

// authority makes the certificates with which a door opens TLS. Its key is made for one
// door, which belongs to one box, and never leaves memory: only that box has a reason to
// trust it. It is safe for concurrent use.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey // key of the authority
	leaf *ecdsa.PrivateKey // key of all its certificates
	pem  []byte

	mu     sync.Mutex
	leaves map[policies.Host]*tls.Certificate
}

func newAuthority(now time.Time) (*authority, error) {
	a := &authority{leaves: make(map[policies.Host]*tls.Certificate)}
	var err error
	for _, key := range []**ecdsa.PrivateKey{&a.key, &a.leaf} {
		if *key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, fmt.Errorf("make a key for the box's authority: %w", err)
		}
	}
	template, err := certificate(now, "belljar authority of one box")
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		return nil, fmt.Errorf("make the box's authority: %w", err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, nil
}

// certificate returns what the certificate of an authority and those that it makes have in
// common.
func certificate(now time.Time, name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour), // for tests with another clock; a box has the host's clock
		NotAfter:     now.Add(authorityLife),
	}, nil
}

// certify returns a certificate for a host. The door shows it to the box on the
// box's side of a connection.
func (a *authority) certify(h policies.Host) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.leaves[h]; ok {
		return c, nil
	}
	// The name is in the alternative names. A common name must be short (RFC 5280, A.1: 64
	// characters), and no client reads it.
	template, err := certificate(a.cert.NotBefore.Add(time.Hour), "belljar")
	if err != nil {
		return nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if addr := h.Addr(); addr.IsValid() {
		template.IPAddresses = []net.IP{addr.AsSlice()}
	} else {
		template.DNSNames = []string{h.Name()}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.leaf.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for %s: %w", h, err)
	}
	c := &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: a.leaf}
	if len(a.leaves) >= maxLeaves {
		clear(a.leaves) // making certificates again is cheap, and it is not known which ones are needed
	}
	a.leaves[h] = c
	return c, nil
}

// Authority returns the certificate, in PEM, of the authority with which the door opens
// TLS. A box must trust it for the hosts that it reaches. Authority returns nil if the
// policy that the door was made with does not intercept.
func (d *Door) Authority() []byte {
	if d.authority == nil {
		return nil
	}
	return append([]byte(nil), d.authority.pem...)
}

// Pin identifies the key of all certificates that the door makes (RFC 7469, 2.4:
// SHA-256 of the public key, in base64), for a program that trusts keys instead
// of authorities. Only the door has the private key, so only the door can use
// such a certificate. Pin is empty if Authority is nil.
func (d *Door) Pin() string {
	if d.authority == nil {
		return ""
	}
	der, err := x509.MarshalPKIXPublicKey(d.authority.leaf.Public())
	if err != nil {
		return "" // a P-256 key can always be encoded; with an empty pin nothing is trusted
	}
	sum := sha256.Sum256(der)
	return base64.StdEncoding.EncodeToString(sum[:])
}
