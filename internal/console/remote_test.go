package console

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// known returns a person as the policy names them, and their token.
func known(name string, role Role) (Known, string) {
	token := NewToken()
	return Known{Name: name, Role: role, Scope: Everything(), Sum: sha256.Sum256([]byte(token))}, token
}

// permit replaces the people whom the policy of a rig names.
func (g *rig) permit(people ...Known) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.people = people
}

// enter logs in with a code or a token.
func (g *rig) enter(text string) (status int, in loggedIn) {
	g.t.Helper()
	got := g.send("POST", "api/v1/login", "", map[string]string{"code": text})
	if got.status == http.StatusOK {
		got.into(g.t, &in)
	}
	return got.status, in
}

// People whom the policy names log in with tokens of their own, as often as they want. At
// each request they have the role that the policy gives them, and they lose access when the
// policy does not name them any more.
func TestPeopleOfThePolicy(t *testing.T) {
	g := start(t, full)
	ann, annToken := known("ann", Operator)
	bob, bobToken := known("bob", Viewer)
	g.permit(ann, bob)
	_, in := g.enter(annToken)
	if _, again := g.enter(annToken); again.Token == "" || again.Token == in.Token || in.Person != "ann" || in.Role != "operator" {
		t.Fatalf("got %+v, then %+v", in, again)
	}
	_, other := g.enter(bobToken)
	kill := func(token string) int { return g.send("POST", "api/v1/boxes/s-1/kill", token, struct{}{}).status }
	if a, b := kill(in.Token), kill(other.Token); a != 200 || b != 403 {
		t.Errorf("an operator: %d, a viewer: %d", a, b)
	}
	if got := g.send("GET", "api/v1/me", annToken, nil); got.status != 401 {
		t.Errorf("the token of a person without a login: %d", got.status)
	}
	next, _, end := g.events(in.Token, "")
	defer end()
	if _, ok := next(); !ok {
		t.Fatal("no stream")
	}
	ann.Role = Viewer
	g.permit(ann, bob)
	if got := kill(in.Token); got != 403 {
		t.Errorf("an operator who is a viewer now: %d", got)
	}
	moved, _ := known("ann", Operator) // the policy now names another token of ann
	g.permit(moved, bob)
	if got := g.send("GET", "api/v1/me", in.Token, nil); got.status != 401 {
		t.Errorf("somebody whose token was changed: %d", got.status)
	}
	g.permit(bob)
	if got := g.send("GET", "api/v1/me", in.Token, nil); got.status != 401 {
		t.Errorf("somebody who is not named any more: %d", got.status)
	}
	g.ring.add(thing{kind: "box", id: "x"})
	for ok := true; ok; { // the stream of a person who lost access ends too
		_, ok = next()
	}
	if status, _ := g.enter(annToken); status != 401 {
		t.Errorf("login of somebody who is not named any more: %d", status)
	}
	if got := g.send("GET", "api/v1/me", other.Token, nil); got.status != 200 {
		t.Errorf("the others: %d", got.status)
	}
}

// Wrong tokens never lock the login, and the token of an agent is never accepted as the
// token of a person.
func TestForeignTokens(t *testing.T) {
	g := start(t, func(g *rig, _ *Views) { g.agents = ownToken + "shared" })
	ann, annToken := known("ann", Operator)
	g.permit(ann, Known{Name: "eve", Role: Operator, Sum: sha256.Sum256([]byte(ownToken + "shared"))})
	for range 3 * maxWrong {
		if status, _ := g.enter(NewToken()); status != 401 {
			t.Fatalf("a wrong token: %d", status)
		}
	}
	if status, _ := g.enter(annToken); status != 200 {
		t.Errorf("after wrong tokens: %d", status)
	}
	if _, code, _ := strings.Cut(first(g.Link("ann", Viewer)), "#"); code == "" {
		t.Error("no code")
	} else if status, _ := g.enter(code); status != 200 {
		t.Errorf("a code after wrong tokens: %d", status)
	}
	if status, _ := g.enter(ownToken + "shared"); status != 401 {
		t.Errorf("a token that an agent has: %d", status)
	}
}

// Behind a proxy, the console serves its paths with and without the prefix. It accepts the
// name of the proxy as its host, and pages from there. Its link contains that name: WC11.
func TestPrefix(t *testing.T) {
	g := startRemote(t, Remote{URL: "https://h.example/tools/console/"}, full)
	link, _ := g.Link("ann", Viewer)
	if !strings.HasPrefix(link, "https://h.example/tools/console/#") {
		t.Errorf("the link is %s", link)
	}
	local := "http://" + g.front.Addr() + "/"
	_, code, _ := strings.Cut(link, "#")
	g.at = local
	_, in := g.enter(code)
	for _, tt := range []struct {
		path string
		head []string
		want int
	}{
		{"api/v1/me", nil, 200},
		{"tools/console/api/v1/me", nil, 200},
		{"tools/console/", nil, 200},
		{"tools/console/api/v1/me", []string{"Host", "h.example", "Origin", "https://h.example"}, 200},
		{"tools/console/api/v1/me", []string{"Origin", "https://h.example"}, 200},
		{"tools/console/api/v1/me", []string{"Host", "evil.example"}, 403},
		{"tools/console/api/v1/me", []string{"Host", "h.example", "Origin", "https://other.example"}, 403},
		{"tools/api/v1/me", nil, 404},
		{"tools/console/../../api/v1/me", nil, 404},
		{"tools/console/%2e%2e/%2e%2e/api/v1/me", nil, 404},
	} {
		if got := g.send("GET", tt.path, in.Token, nil, tt.head...); got.status != tt.want {
			t.Errorf("%s %q: got %d %s, want %d", tt.path, tt.head, got.status, got.body, tt.want)
		}
	}
	for url, want := range map[string]bool{
		"https://h.example": true, "https://h.example/": true, "https://h.example:8443/a/b": true, "http://127.0.0.1:8080/x/": true, "http://localhost/": true, "https://[2001:db8::1]/": true,
		"http://h.example/": false, "ftp://h.example/": false, "https://u:p@h.example/": false, "https://h.example/?q": false, "https://h.example/#x": false,
		"https://h.example/a/../b": false, "https://h.example//": false, "h.example": false, "https://h.example/{x}/": false, "https://h.example/%2f/": false, "http://127.0.0.1.evil.example/": false,
	} {
		if _, _, err := splitURL(url); (err == nil) != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// selfSigned writes a certificate for 127.0.0.1 and its key.
func selfSigned(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	as := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, as, as, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, cert, string(text))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return cert, key, roots
}

// With a certificate, the console serves only TLS. Other machines may reach it if the
// policy names people.
func TestTLS(t *testing.T) {
	cert, key, roots := selfSigned(t)
	g := startRemote(t, Remote{Cert: cert, Key: key})
	if !strings.HasPrefix(g.URL(), "https://127.0.0.1:") {
		t.Fatalf("the page is at %s", g.URL())
	}
	if resp, err := http.Get("http://" + g.front.Addr() + "/"); err == nil {
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("the page is served without TLS")
		}
	}
	client := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer client.CloseIdleConnections()
	_, code, _ := strings.Cut(first(g.Link("ann", Viewer)), "#")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL()+"api/v1/login", strings.NewReader(`{"code":"`+code+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var in loggedIn
	if err := json.NewDecoder(resp.Body).Decode(&in); err != nil || in.Token == "" || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("login over TLS: %d %v", resp.StatusCode, err)
	}
	whole := Remote{URL: "https://h.example/", Cert: cert, Key: key, People: true}
	for lacks, change := range map[string]func(r *Remote){
		"--console-cert": func(r *Remote) { r.Cert, r.Key = "", "" },
		"go together":    func(r *Remote) { r.Key = "" },
		"--console-url":  func(r *Remote) { r.URL = "" },
		"people":         func(r *Remote) { r.People = false },
		"":               func(*Remote) {},
	} {
		remote := whole
		change(&remote)
		c, err := Open(t.Context(), Config{Addr: "0.0.0.0:0", Remote: remote, Log: slog.New(slog.DiscardHandler)})
		switch {
		case err == nil:
			c.Close()
			if lacks != "" {
				t.Errorf("without %s it is open to others", lacks)
			}
		case lacks == "" || !strings.Contains(err.Error(), lacks):
			t.Errorf("without %q: %v", lacks, err)
		}
	}
}
