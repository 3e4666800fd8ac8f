package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"image"
	"image/png"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// standIns are a web server and a search engine on the loopback interface, and what belljar
// needs to use them.
type standIns struct {
	place  string   // host and port, in the form for policies and URLs
	env    []string // environment of belljar
	served *httptest.Server
}

// newStandIns starts the servers. They end with the test.
func newStandIns(t testing.TB) *standIns {
	t.Helper()
	const host = "host.belljar.internal"
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	s := &standIns{served: httptest.NewUnstartedServer(http.HandlerFunc(standIn))}
	s.served.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	s.served.StartTLS()
	t.Cleanup(s.served.Close)
	_, port, _ := strings.Cut(s.served.Listener.Addr().String(), ":")
	s.place = host + ":" + port
	dir := t.TempDir()
	s.env = []string{"SSL_CERT_FILE=" + filepath.Join(dir, "ca.pem"), "XDG_CONFIG_HOME=" + dir}
	for name, text := range map[string]string{
		"ca.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		"belljar/engines/standin.yaml": strings.ReplaceAll(`name: standin
about: a stand-in
family: standin
role: reference
use: default
order: 1
hosts: [host.belljar.internal]
base: https://PLACE/
rate: {every: 1ms, burst: 1000}
query: {chars: 300, pages: 10, step: 10, count: 10}
requests: [{url: "https://PLACE/search", params: {q: "{query}"}}]
answers: [{format: json, items: ["results[]"], title: [title], url: [url]}]
`, "PLACE", s.place),
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// standIn answers for both servers.
func standIn(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/search" {
		w.Header().Set("Content-Type", "application/json")
		type result struct {
			Title string `json:"title"`
			URL   string `json:"url"`
		}
		_ = json.NewEncoder(w).Encode(map[string][]result{"results": {{"About " + r.FormValue("q"), "https://example.org/a"}}})
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<title>A page</title><main><h1>Head</h1>%s</main>", strings.Repeat("<p>Some words of a page that anybody may read.</p>", 50))
}

// putPicture writes a PNG of 400 by 300 pixels.
func putPicture(t testing.TB, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, image.NewRGBA(image.Rect(0, 0, 400, 300))); err != nil {
		t.Fatal(err)
	}
}
