package sandbox_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox/egress"
)

// The names of the servers. All of them lead to the same servers; only the policy
// distinguishes them.
const (
	allowedName = "allowed.test"
	deniedName  = "denied.test" // no rule names this host
	halfName    = "half.test"   // allowed only on another port
)

// greeting is the text that the servers send, in every protocol.
const greeting = "hello from the allowed host"

// servers are the servers of the clients: one for all protocols over HTTPS, the same
// without TLS, and one that uses TLS but not HTTP. They listen on the host's loopback.
type servers struct {
	https, http, raw string // ports
	authority        []byte // authority of the certificates, as PEM
	roots            *x509.CertPool

	mu     sync.Mutex
	seen   []string // names that clients asked for
	judged int      // requests that the door saw
}

// LookupNetIP answers for the servers' names and no others.
func (*servers) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if !slices.Contains([]string{allowedName, deniedName, halfName}, host) {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
}

func startServers(t testing.TB) *servers {
	t.Helper()
	s := &servers{roots: x509.NewCertPool()}
	cert := s.certify(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, greeting) })
	mux.Handle("/git/", gitServer(t))
	mux.Handle("/go/", http.StripPrefix("/go", modules(t)))
	mux.Handle("/npm/", http.StripPrefix("/npm", packages(t)))
	mux.Handle("/apt/", http.StripPrefix("/apt", archive(t)))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.saw(r.Host)
		mux.ServeHTTP(w, r)
	})
	quiet := log.New(io.Discard, "", 0) // for errors of clients that leave
	https := httptest.NewUnstartedServer(handler)
	https.TLS, https.Config.ErrorLog, https.EnableHTTP2 = cert, quiet, true
	https.StartTLS()
	t.Cleanup(https.Close)
	plain := httptest.NewServer(handler)
	t.Cleanup(plain.Close)
	s.https, s.http, s.raw = port(https.Listener), port(plain.Listener), port(s.speakTLS(t, cert))
	return s
}

func port(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func (s *servers) saw(name string) {
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, name)
}

// names returns the names that clients asked for since the last call.
func (s *servers) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	slices.Sort(seen)
	return slices.Compact(seen)
}

// record counts the requests that the door saw.
func (s *servers) record(_ string, r egress.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method != "" {
		s.judged++
	}
}

// requests returns the number of requests that the door saw since the last call.
func (s *servers) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.judged
	s.judged = 0
	return n
}

// awaitRequest waits until the door has recorded a request. The door does this after the
// whole answer has passed, which the client may have read before.
func (s *servers) awaitRequest(t testing.TB) {
	t.Helper()
	if !testenv.Until(10*time.Second, func() bool { return s.requests() > 0 }) {
		t.Error("the door saw no request")
	}
}

// certify makes an authority, and a certificate of it for all names.
func (s *servers) certify(t testing.TB) *tls.Config {
	t.Helper()
	make := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			parent, signer = template, key
		}
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert, key
	}
	authority, signer := make(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of the test"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	leaf, key := make(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server of the test"}, DNSNames: []string{allowedName, deniedName, halfName},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, authority, signer)
	s.roots.AddCert(authority)
	s.authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw})
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
}

// speakTLS serves a protocol of its own in TLS, in which the server sends first: its
// greeting, and then everything that it gets.
func (s *servers) speakTLS(t testing.TB, config *tls.Config) net.Listener {
	t.Helper()
	return serving(t, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		conn := tls.Server(c, config)
		if conn.Handshake() != nil {
			return
		}
		s.saw(conn.ConnectionState().ServerName)
		_, _ = io.WriteString(conn, greeting+"\n")
		_, _ = io.Copy(conn, io.LimitReader(conn, 1<<10))
	})
}

// gitServer serves /git/probe.git by git's own program (git-http-backend(1)).
func gitServer(t testing.TB) http.Handler {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		return http.NotFoundHandler()
	}
	dir := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+dir,
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "work")
	write(t, filepath.Join(dir, "work", "hello"), greeting+"\n")
	git("-C", "work", "add", "hello")
	git("-C", "work", "commit", "-q", "-m", "hello")
	git("clone", "-q", "--bare", "work", "probe.git")
	return &cgi.Handler{
		Path: filepath.Join(git("--exec-path"), "git-http-backend"), Root: "/git", Dir: dir,
		Env:        []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME=" + dir},
		InheritEnv: []string{"PATH"}, Stderr: io.Discard, Logger: log.New(io.Discard, "", 0),
	}
}

// files serves texts by path.
type files map[string]string

// ServeHTTP answers with the text of a path.
func (f files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, ok := f[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, text)
}

// modules is a module proxy (https://go.dev/ref/mod#goproxy-protocol) with one
// module.
func modules(t testing.TB) http.Handler {
	t.Helper()
	const mod = "module probe.test/m\n\ngo 1.21\n"
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for name, text := range map[string]string{"go.mod": mod, "hello.txt": greeting + "\n"} {
		w, err := z.Create("probe.test/m@v1.0.0/" + name)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return files{
		"/probe.test/m/@v/list":        "v1.0.0\n",
		"/probe.test/m/@v/v1.0.0.info": `{"Version": "v1.0.0", "Time": "2024-01-01T00:00:00Z"}`,
		"/probe.test/m/@v/v1.0.0.mod":  mod,
		"/probe.test/m/@v/v1.0.0.zip":  packed.String(),
	}
}

// packages is an npm registry with one package
// (https://github.com/npm/registry/blob/main/docs/responses/package-metadata.md).
func packages(t testing.TB) http.Handler {
	t.Helper()
	var packed bytes.Buffer
	g := gzip.NewWriter(&packed)
	w := tar.NewWriter(g)
	for name, text := range map[string]string{
		"package.json": `{"name": "probe", "version": "1.0.0", "main": "index.js"}`,
		"index.js":     fmt.Sprintf("console.log(%q)\n", greeting),
	} {
		err := w.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o644, Size: int64(len(text))})
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(packed.Bytes())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/probe/-/probe-1.0.0.tgz" {
			_, _ = w.Write(packed.Bytes())
			return
		}
		if r.URL.Path != "/probe" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"name": "probe", "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{
				"name": "probe", "version": "1.0.0", "dist": map[string]string{
					"tarball":   "https://" + r.Host + "/npm/probe/-/probe-1.0.0.tgz",
					"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
				},
			}},
		})
	})
}

// archive is a flat Debian repository (https://wiki.debian.org/DebianRepository/Format)
// with one file in place of a package: apt only looks at its size and hash when it
// fetches it.
func archive(t testing.TB) http.Handler {
	t.Helper()
	const deb = greeting + "\n"
	index := fmt.Sprintf("Package: probe\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@example.com>\nDescription: probe\n"+
		"Filename: ./probe_1.0_all.deb\nSize: %d\nSHA256: %x\n\n", len(deb), sha256.Sum256([]byte(deb)))
	release := fmt.Sprintf("Suite: test\nDate: %s\nSHA256:\n %x %d Packages\n",
		time.Now().UTC().Format(time.RFC1123), sha256.Sum256([]byte(index)), len(index))
	return files{"/Release": release, "/Packages": index, "/probe_1.0_all.deb": deb}
}
