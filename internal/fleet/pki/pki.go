// Package pki makes the certificates with which the machines of a fleet authenticate each
// other: an authority for the fleet alone, and a certificate for each front and worker. An
// operator who already has an authority, for example in Kubernetes, does not need this
// package: docs/fleet.md says which names the certificates need.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Names of the files of an authority.
const (
	CAFile    = "ca.pem"
	caKeyFile = "ca-key.pem"
)

// caLife is the lifetime of an authority.
const caLife = 10 * 365 * 24 * time.Hour

// Node is a front or worker that gets a certificate.
type Node struct {
	Name  string   // prefix of the names of its files
	Hosts []string // names and addresses with which workers reach a front; empty for a worker
	DNS   string   // DNS name of a worker, below the domain of workers; empty for a front
	Life  time.Duration
}

// Init makes a new authority in a directory. It fails if the directory already
// has one.
func Init(dir string, now time.Time) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "belljar fleet"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return write(dir, "ca", template, template, key, key)
}

// Issue makes a certificate for a node, and returns the names of its two files.
func Issue(dir string, n Node, now time.Time) (cert, key string, err error) {
	ca, caKey, err := load(dir)
	if err != nil {
		return "", "", err
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	end := now.Add(n.Life)
	if end.After(ca.NotAfter) {
		end = ca.NotAfter
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: n.Name}, NotBefore: now.Add(-time.Hour), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
	// A worker cannot pose as a front, and a front cannot pose as a worker: each
	// certificate is valid only for one end of a connection.
	if n.DNS != "" {
		template.ExtKeyUsage, template.DNSNames = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, []string{n.DNS}
	} else {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		for _, host := range n.Hosts {
			if ip := net.ParseIP(host); ip != nil {
				template.IPAddresses = append(template.IPAddresses, ip)
			} else {
				template.DNSNames = append(template.DNSNames, host)
			}
		}
	}
	if err := write(dir, n.Name, template, ca, own, caKey); err != nil {
		return "", "", err
	}
	return filepath.Join(dir, n.Name+".pem"), filepath.Join(dir, n.Name+"-key.pem"), nil
}

// load reads the certificate and the key of an authority.
func load(dir string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	cert, err := block(filepath.Join(dir, CAFile))
	if err != nil {
		return nil, nil, err
	}
	key, err := block(filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(cert)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(dir, CAFile), err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(dir, caKeyFile), err)
	}
	own, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !own.PublicKey.Equal(ca.PublicKey) {
		return nil, nil, fmt.Errorf("%s: it is not the key of %s", filepath.Join(dir, caKeyFile), filepath.Join(dir, CAFile))
	}
	return ca, own, nil
}

// block reads the PEM block in a file of the authority.
func block(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; `belljar fleet init` makes an authority", err)
	}
	if err != nil {
		return nil, err
	}
	b, _ := pem.Decode(text)
	if b == nil {
		return nil, fmt.Errorf("%s: it is not PEM", name)
	}
	return b.Bytes, nil
}

// write signs a certificate, and writes it with its key. It does not overwrite existing
// files.
func write(dir, name string, template, parent *x509.Certificate, own, signer *ecdsa.PrivateKey) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, &own.PublicKey, signer)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return err
	}
	if err := create(filepath.Join(dir, name+"-key.pem"), "PRIVATE KEY", key, 0o600); err != nil {
		return err
	}
	return create(filepath.Join(dir, name+".pem"), "CERTIFICATE", cert, 0o644)
}

// create writes a PEM file that must not exist yet.
func create(name, kind string, der []byte, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; move it away to make another one", err)
	}
	if err != nil {
		return err
	}
	return errors.Join(pem.Encode(f, &pem.Block{Type: kind, Bytes: der}), f.Sync(), f.Close())
}
