package searchtest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Server is one TLS server on the loopback interface that answers under all names that it
// was given. Its methods are safe for concurrent use.
type Server struct {
	listener net.Listener
	front    *http.Server
	serving  sync.WaitGroup
	ca       *x509.Certificate
	caKey    *ecdsa.PrivateKey

	mu      sync.Mutex
	hosts   map[string]Behaviour
	asked   map[string]int // number of requests by host
	strange []string       // hosts of other names that were looked up or asked
	leaves  map[string]*tls.Certificate
}

// Start starts a server. The caller must Close it.
func Start() (*Server, error) {
	s := &Server{hosts: make(map[string]Behaviour), asked: make(map[string]int), leaves: make(map[string]*tls.Certificate)}
	if err := s.authority(); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0") //nolint:forbidigo // a listen does not wait
	if err != nil {
		return nil, err
	}
	s.listener = l
	s.front = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		TLSConfig:         &tls.Config{GetCertificate: s.certificate, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	s.serving.Go(func() { _ = s.front.ServeTLS(l, "", "") }) // runs until Close
	return s, nil
}

// Close ends all requests and waits for the server.
func (s *Server) Close() error {
	err := s.front.Close()
	s.serving.Wait()
	return err
}

// Set sets the behaviour of an engine from the next request on.
func (s *Server) Set(e Engine, b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range e.Hosts {
		s.hosts[h] = b
	}
}

// Asked returns the number of requests for an engine.
func (s *Server) Asked(e Engine) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range e.Hosts {
		n += s.asked[h]
	}
	return n
}

// Strange returns the hosts that were looked up or asked although no engine has their name,
// 100 at most.
func (s *Server) Strange() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.strange...)
}

// Port returns the port on which the server listens.
func (s *Server) Port() uint16 {
	return netip.MustParseAddrPort(s.listener.Addr().String()).Port()
}

// Authority returns the certificate that signs the server's certificates, in PEM.
func (s *Server) Authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.ca.Raw})
}

// Way returns how to reach the server from any process on this machine.
func (s *Server) Way() Way {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := Way{Port: s.Port(), Authority: s.Authority(), strange: s.note}
	for h := range s.hosts {
		w.Hosts = append(w.Hosts, h)
	}
	return w
}

// note records a host that no engine has.
func (s *Server) note(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.strange) < 100 {
		s.strange = append(s.strange, host)
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	// If the body is not read, the server closes the connection.
	var body bytes.Buffer
	_, _ = io.Copy(&body, io.LimitReader(r.Body, 1<<20)) // an incomplete body is used as far as it was read
	r.Body = io.NopCloser(&body)
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	s.mu.Lock()
	b := s.hosts[host]
	s.asked[host]++
	s.mu.Unlock()
	if b == nil {
		s.note(host)
		http.Error(w, "nobody is here", http.StatusMisdirectedRequest)
		return
	}
	b(w, r)
}

// authority makes the key and the certificate that sign for all names.
func (s *Server) authority() (err error) {
	if s.caKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "search tests"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &s.caKey.PublicKey, s.caKey)
	if err != nil {
		return err
	}
	s.ca, err = x509.ParseCertificate(der)
	return err
}

// certificate returns the certificate for the name that a client asks for.
func (s *Server) certificate(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(h.ServerName)
	if name == "" {
		return nil, errors.New("no name is asked for")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.leaves[name]; c != nil {
		return c, nil
	}
	if len(s.leaves) > 1000 {
		return nil, fmt.Errorf("more than 1000 names")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(s.leaves) + 2)), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, s.ca, &key.PublicKey, s.caKey)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{der, s.ca.Raw}, PrivateKey: key}
	s.leaves[name] = c
	return c, nil
}
