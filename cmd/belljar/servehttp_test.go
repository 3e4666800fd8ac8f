package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// certificate writes a self-signed certificate for loopback, and its key.
func certificate(t *testing.T, cert, key string) *x509.CertPool {
	t.Helper()
	return certificateUntil(t, cert, key, time.Now().Add(time.Hour))
}

// certificateUntil is certificate with an expiry time.
func certificateUntil(t *testing.T, cert, key string, expires time.Time) *x509.CertPool {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: expires,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	put(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	put(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	pool := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(leaf)
	return pool
}

// serveTenant starts a server for the tenant a with a token.
func serveTenant(t *testing.T, token string, flags ...string) *web {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	dir := t.TempDir()
	policy, file := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "token")
	put(t, file, digest(token)+"\n")
	put(t, policy, `version: 1
profiles: {p: {fs: {system: true, workspace: ro}}}
defaults: {decision: allow, profile: p}
tenants: {a: {token: "${file:`+file+`}"}}
`)
	return serveWeb(t, []string{"XDG_STATE_HOME=" + t.TempDir()}, append([]string{"--workspace", t.TempDir(), "--policy", policy, "--state", t.TempDir()}, flags...)...)
}

// TestServesTLS checks that a server with a certificate uses TLS, in both versions of HTTP,
// for clients with a token, and answers no client in clear text.
func TestServesTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool := certificate(t, cert, key)
	w := serveTenant(t, "one", "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(w.url, "https://127.0.0.1:") {
		t.Fatalf("clients connect at %s", w.url)
	}
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		client := &http.Client{Transport: &http.Transport{
			ForceAttemptHTTP2: version == "HTTP/2.0",
			TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		}}
		for bearer, want := range map[string]int{"one": http.StatusOK, "two": http.StatusUnauthorized} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, strings.NewReader(hello))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			req.Header.Set("Authorization", "Bearer "+bearer)
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != want || res.Proto != version {
				t.Errorf("the token %s by %s: %s %s %s, %v; want %d", bearer, version, res.Proto, res.Status, text, err, want)
			}
		}
		client.CloseIdleConnections()
	}
	res, text := w.postTo(strings.Replace(w.url, "https:", "http:", 1))
	if res.StatusCode != http.StatusBadRequest || !strings.Contains(text, "HTTPS") {
		t.Errorf("in clear text: %s %s", res.Status, text)
	}
}

// TestCertificateDegrades checks that a fault of the certificate is reported at /readyz,
// and that clients can connect meanwhile.
func TestCertificateDegrades(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, socket := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), "unix:"+filepath.Join(dir, "admin.sock")
	pool := certificate(t, cert, key)
	w := serveTenant(t, "one", "--tls-cert", cert, "--tls-key", key, "--admin", socket)
	a := adminAt(t, socket)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	says := func(want string) {
		t.Helper()
		a.until(`belljar_fault{what="certificate"}`, 1)
		if status, r := a.ready(); status != http.StatusOK || !r.Ready || len(r.Degraded) != 1 || r.Degraded[0].What != "certificate" || !strings.Contains(r.Degraded[0].Why, want) {
			t.Errorf("it says %d %+v, want %q", status, r, want)
		}
	}
	connects := func(want bool) {
		t.Helper()
		res, err := client.Get(w.url)
		if err == nil {
			res.Body.Close()
		}
		if (err == nil) != want {
			t.Errorf("a client of the certificate before: %v, want it let in: %t", err, want)
		}
	}
	certificate(t, filepath.Join(dir, "other.pem"), key)
	says("are not a pair")
	connects(true)
	certificateUntil(t, cert, key, time.Now().Add(-time.Minute))
	w.wait("clients will refuse the certificate")
	says("it expired on")
	connects(false) // the server uses the certificate that the operator has put there
}

// postTo sends hello to another address.
func (w *web) postTo(url string) (*http.Response, string) {
	w.t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(hello))
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res, string(text)
}
