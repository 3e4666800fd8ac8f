package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"belljar.dev/internal/testenv"
)

// A policy that is read again takes callers with the tokens of an issuer away, with their
// streams, when it says something else of the issuer; and with their sessions, when it does
// not name the issuer any more.
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
	w := serveWeb(t, []string{"XDG_STATE_HOME=" + t.TempDir(), "SSL_CERT_FILE=" + issuer.cert}, "--workspace", t.TempDir(), "--policy", policy, "--state", t.TempDir())
	session := w.session(issuer.token(t, "api://one"))
	answers := func(want int) {
		t.Helper()
		if res, text := w.post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); res == nil || res.StatusCode != want {
			t.Errorf("the session: %v %s, want %d", res, text, want)
		}
	}
	read := func() { w.wait("the policy was read again and holds from now on") }
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
	answers(http.StatusOK) // it is the same principal's

	stream = w.stream(session)
	write("")
	read()
	over(stream)
	answers(http.StatusUnauthorized)
	write(of("api://two"))
	read()
	answers(http.StatusNotFound) // the session has ended for good
}
