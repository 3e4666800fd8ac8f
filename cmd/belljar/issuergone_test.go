package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/config"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies/audit"
)

// TestIssuerThatIsTakenOut checks a policy that is read again: if it says something else
// about an issuer, callers with the issuer's tokens lose their streams. If it no longer
// names the issuer, they also lose their sessions.
func TestIssuerThatIsTakenOut(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Parallel()
	issuer, policy := newProvider(t), filepath.Join(t.TempDir(), "policy.yaml")
	write := func(auth string) {
		put(t, policy, "version: 1\nprofiles: {p: {fs: {system: true, workspace: ro}}}\ndefaults: {decision: allow, profile: p}\ntenants: {a: {}}\n"+auth)
	}
	of := func(audience string) string {
		return fmt.Sprintf("auth: {issuers: [{url: %q, keys: %q, addresses: 127.0.0.0/8, audience: [%q], tenant: a}]}\n", issuer.URL, issuer.URL+"/keys", audience)
	}
	write(of("api://one"))
	state := t.TempDir()
	w := serveWeb(t, []string{"XDG_STATE_HOME=" + t.TempDir(), "SSL_CERT_FILE=" + issuer.cert}, "--workspace", t.TempDir(), "--policy", policy, "--state", state)
	session := w.session(issuer.token(t, "api://one"))
	answers := func(want int) {
		t.Helper()
		if res, text := w.post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); res == nil || res.StatusCode != want {
			t.Errorf("the session: %v %s, want %d", res, text, want)
		}
	}
	read := func() { w.wait("the policy was read again and is in force from now on") }
	over := func(stream io.ReadCloser) {
		t.Helper()
		defer stream.Close()
		if _, err := io.Copy(io.Discard, stream); err != nil {
			t.Errorf("the stream ends with %v", err)
		}
	}
	answers(http.StatusOK)

	stream := w.stream(session)
	write(of("api://two"))
	read()
	over(stream)
	answers(http.StatusUnauthorized)
	session["Authorization"] = "Bearer " + issuer.token(t, "api://two")
	answers(http.StatusOK) // the session belongs to the same principal

	stream = w.stream(session)
	write("")
	read()
	over(stream)
	answers(http.StatusUnauthorized)
	write(of("api://two"))
	read()
	answers(http.StatusNotFound) // the session has ended for good

	w.end() // after this, all records are written
	var why []string
	err := audit.Read(t.Context(), config.AuditDir(state), audit.Filter{Kind: audit.KindLogin}, func(e audit.Entry) error {
		var refused audit.Login
		if err := json.Unmarshal(e.Raw, &refused); err != nil {
			return err
		}
		why = append(why, refused.Reason)
		return nil
	})
	if want := []string{"audience", "issuer"}; err != nil || !slices.Equal(why, want) {
		t.Errorf("the audit log says that tokens were refused because of %v, %v; want %v", why, err, want)
	}
}

// TestIssuerWithMetadataOfAnother checks that a server does not start if the metadata of
// the issuer in its policy belong to another issuer, and that the error names both.
func TestIssuerWithMetadataOfAnother(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Parallel()
	metadata := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"issuer":"https://other.example","jwks_uri":"https://other.example/keys"}`)
	}))
	defer metadata.Close()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	put(t, policy, fmt.Sprintf("version: 1\nprofiles: {p: {}}\ntenants: {a: {}}\nauth: {issuers: [{url: %q, addresses: 127.0.0.0/8, tenant: a}]}\n", metadata.URL))
	// the server might start in spite of this
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second*testenv.Patience(t))
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Args = []string{"belljar", "serve", "--http", "127.0.0.1:0", "--workspace", t.TempDir(), "--policy", policy, "--state", t.TempDir()}
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), "SSL_CERT_FILE="+newProvider(t).cert)
	out, err := cmd.CombinedOutput()
	if text := string(out); err == nil || !strings.Contains(text, metadata.URL) || !strings.Contains(text, "https://other.example") || strings.Contains(text, " url=") {
		t.Errorf("the server ended with %v, and said %s", err, text)
	}
}
