package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp/upstream/login"
)

// issuer is a remote server that requires a login, together with its own authorization
// server, on one host.
type issuer struct {
	base  string
	notes http.Handler

	mu        sync.Mutex
	challenge string   // guarded by mu: challenge that belongs to the issued code
	tokens    []string // guarded by mu: Authorization headers of the requests to the server
}

// The secrets of a login.
const (
	aCode  = "a-code-of-the-issuer"
	aToken = "a-token-of-the-issuer"
)

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, what map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(what)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource/mcp":
		answer(http.StatusOK, map[string]any{"resource": i.base + "/mcp", "authorization_servers": []string{i.base}})
	case "/.well-known/oauth-authorization-server":
		answer(http.StatusOK, map[string]any{
			"issuer": i.base, "authorization_endpoint": i.base + "/authorize", "token_endpoint": i.base + "/token", "registration_endpoint": i.base + "/register",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		})
	case "/register":
		answer(http.StatusCreated, map[string]any{"client_id": "a-client", "token_endpoint_auth_method": "none"})
	case "/authorize":
		q := r.URL.Query()
		i.challenge = q.Get("code_challenge")
		back := url.Values{"code": {aCode}, "state": {q.Get("state")}, "iss": {i.base}}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	case "/token":
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if r.FormValue("code") != aCode || base64.RawURLEncoding.EncodeToString(sum[:]) != i.challenge || r.FormValue("resource") != i.base+"/mcp" {
			answer(http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
			return
		}
		answer(http.StatusOK, map[string]any{"access_token": aToken, "token_type": "Bearer", "expires_in": 3600})
	case "/mcp":
		token := r.Header.Get("Authorization")
		if i.tokens = append(i.tokens, token); token != "Bearer "+aToken {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+i.base+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		i.mu.Unlock()
		defer i.mu.Lock()
		r.Host = "localhost" // a Host that the handler accepts despite its guard against DNS rebinding
		i.notes.ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

// loginDir is the environment variable with the directory of the certificate for
// TestLoginThroughTheDoor. The test needs its own process: a program reads only once which
// authorities it trusts.
const loginDir = "BELLJAR_TEST_LOGIN"

// GW33: a person logs in at a remote server over TLS through the door, and this machine
// trusts the certificate of the server. Before the login, clients read what to do. After
// it, only the tenant who has logged in can use the server, and the client never sees the
// token. A second tenant logs in through StartLogin, where the caller's own page receives
// the redirect.
func TestLoginThroughTheDoor(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	dir := os.Getenv(loginDir)
	if dir == "" {
		dir = t.TempDir()
		writeCertificate(t, dir)
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), self, "-test.run=^TestLoginThroughTheDoor$", "-test.v")
		c.Env = append(os.Environ(), loginDir+"="+dir, "SSL_CERT_FILE="+filepath.Join(dir, "cert.pem"), "SSL_CERT_DIR="+dir)
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestLoginThroughTheDoor") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	notes := newNotes()
	i := &issuer{notes: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return notes }, nil)}
	e := &elsewhere{Server: httptest.NewUnstartedServer(i)}
	e.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	e.StartTLS()
	t.Cleanup(e.Close)
	u, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	i.base = "https://host.belljar.internal:" + u.Port()
	g := gateTo(t, e, `servers: {far: {profile: {net: {mode: proxy, allow_private: ["host.belljar.internal:PORT"]}}}}`,
		`{"mcpServers": {"far": {"url": "https://host.belljar.internal:PORT/mcp"}}}`)
	if got := g.names(); got != "" {
		t.Fatalf("without a login: got the tools %q", got)
	}
	if _, all := g.list(); !strings.Contains(all["far"], "belljar upstream login far") {
		t.Errorf("without a login: clients are told %q", all["far"])
	}
	needs := func() bool {
		return slices.ContainsFunc(g.Status(), func(s Status) bool { return s.Server == "far" && s.NeedsLogin })
	}
	if !needs() {
		t.Error("the status does not say that the server wants a login")
	}
	if err := Login(t.Context(), g.cfg, "local", "far", func(address string) { go browse(t, u.Port(), address) }); err != nil {
		t.Fatalf("log in: %v", err)
	}
	if _, err := g.Restart(t.Context(), "far"); err != nil {
		t.Fatal(err)
	}
	if !testenv.Until(20*time.Second, func() bool { return g.names() == "mcp_far_add" }) {
		_, all := g.list()
		t.Fatalf("after the login: got the tools %q: %q\n%s", g.names(), all, &g.logged)
	}
	if needs() {
		t.Error("the status says after the login that the server wants one")
	}
	g.wants("mcp_far_add", `{"A":1,"B":2}`, false, "3")
	i.mu.Lock()
	if got := i.tokens[len(i.tokens)-1]; got != "Bearer "+aToken {
		t.Errorf("the server got the header %q, want the token of the login", got)
	}
	i.mu.Unlock()
	if text := g.logged.String(); strings.Contains(text, aToken) || strings.Contains(text, aCode) {
		t.Errorf("the log has a secret of the login: %s", text)
	}
	source, err := login.NewSource(login.SourceConfig{Client: e.Client(), Book: g.cfg.Logins, Server: login.Server{Tenant: "other", Name: "far", URL: i.base + "/mcp"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.Token(t.Context()); !errors.Is(err, login.ErrNone) {
		t.Errorf("another tenant: got %v, want %v", err, login.ErrNone)
	}
	answers := make(chan url.Values, 1) // answers to the other tenant's login, as its page receives them
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers <- r.URL.Query()
		_, _ = io.WriteString(w, "You can close this page")
	}))
	t.Cleanup(back.Close)
	begun, err := StartLogin(t.Context(), g.cfg, "other", "far", back.URL+"/back")
	if err != nil {
		t.Fatalf("begin to log in: %v", err)
	}
	defer begun.Close(t.Context())
	browse(t, u.Port(), begun.URL())
	select {
	case answer := <-answers:
		if err := begun.Receive(t.Context(), answer); err != nil {
			t.Errorf("the answer of the page: %v", err)
		}
	default:
		t.Fatal("the browser did not come back to the page of the caller")
	}
	if _, err := source.Token(t.Context()); err != nil {
		t.Errorf("after the login of the other tenant: %v", err)
	}
	if _, err := StartLogin(t.Context(), g.cfg, "other", "none", back.URL); err == nil || !strings.Contains(err.Error(), "no file has a server none") {
		t.Errorf("a login at a server that does not exist: %v", err)
	}
}

// browse opens an address as a person's browser does, and follows the redirects to the end.
func browse(t *testing.T, port, address string) {
	text, err := os.ReadFile(filepath.Join(os.Getenv(loginDir), "cert.pem"))
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Errorf("the certificate: %v", err)
		return
	}
	way := &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			if strings.HasPrefix(to, "host.belljar.internal:") {
				to = "127.0.0.1:" + port
			}
			return new(net.Dialer).DialContext(ctx, network, to)
		},
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Error(err)
		return
	}
	resp, err := (&http.Client{Transport: way}).Do(req)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the browser: %v", err)
		}
		return
	}
	defer resp.Body.Close()
	if page, _ := io.ReadAll(resp.Body); !strings.Contains(string(page), "You can close this page") {
		t.Errorf("the browser shows %q", page)
	}
}

// writeCertificate writes a certificate, and its key, for the name that this machine has in
// boxes.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"host.belljar.internal"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
