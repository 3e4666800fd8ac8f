package main

import (
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/config"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies/audit"
)

// The token of a tenant is rotated by writing its file, without a signal. From then on, the
// token before is refused. If the file cannot be used, nobody can connect as that tenant,
// and the other tenants still can.
func TestTokensRotate(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Parallel()
	dir, state := t.TempDir(), t.TempDir()
	policy, file, other := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "token-a"), filepath.Join(dir, "token-b")
	put(t, policy, `version: 1
profiles: {p: {fs: {system: true, workspace: ro}}}
defaults: {decision: allow, profile: p}
tenants: {a: {token: "${file:`+file+`}"}, b: {token: "${file:`+other+`}"}}
`)
	token := func(name, token string) {
		t.Helper()
		// The file is replaced in one step, so that the server sees one change.
		if err := os.WriteFile(name+".new", []byte(digest(token)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	token(file, "one")
	token(other, "b")
	w := serveWeb(t, []string{"XDG_STATE_HOME=" + t.TempDir()}, "--workspace", t.TempDir(), "--policy", policy, "--state", state)
	opens := func(token string, want bool) {
		t.Helper()
		res, text := w.post(map[string]string{"Authorization": "Bearer " + token}, hello)
		if res == nil {
			t.Fatal("no answer")
		}
		if got := res.StatusCode == http.StatusOK; got != want || !got && res.StatusCode != http.StatusUnauthorized {
			t.Errorf("the token %q: %s %s, want it known: %t", token, res.Status, text, want)
		}
	}
	session := w.session("one")
	opens("b", true)
	stream := w.stream(session)
	defer stream.Close()

	// The new file has the size and the modification time of the file before.
	was, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	token(file, "two")
	if err := os.Chtimes(file, time.Time{}, was.ModTime()); err != nil {
		t.Fatal(err)
	}
	w.wait(`msg="the tokens of tenants were changed or removed" tenants=a`)
	opens("one", false)
	opens("two", true)
	opens("b", true)
	if _, err := io.Copy(io.Discard, stream); err != nil {
		t.Errorf("the stream that the token before has opened ends with %v", err)
	}
	if res, text := w.post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a session goes on with a token that was rotated: %s %s", res.Status, text)
	}
	session["Authorization"] = "Bearer two"
	if res, text := w.post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); res.StatusCode != http.StatusOK {
		t.Errorf("a session does not go on with its tenant's new token: %s %s", res.Status, text)
	}

	const lost = `msg="the token of a tenant is not known, so no client can connect as it" tenant=a`
	for what, change := range map[string]func() error{
		"others can read it": func() error { return os.Chmod(file, 0o644) },
		"it is gone":         func() error { return os.Remove(file) },
		"it is no digest":    func() error { return os.WriteFile(file, []byte("two\n"), 0o600) },
		"it is another's":    func() error { return os.WriteFile(file, []byte(digest("b")+"\n"), 0o600) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		said := w.wait(" level=ERROR ")
		t.Logf("%s: %s", what, said)
		shared := what == "it is another's"
		if shared && !strings.Contains(said, "tenant a has the same") || !shared && !strings.Contains(said, lost) {
			t.Errorf("%s: %s", what, said)
		}
		w.wait("the tokens of tenants were changed")
		opens("b", !shared) // a token of two tenants belongs to neither of them
		opens("two", false)
		opens("one", false)
		token(file, "two")
		w.wait("the tokens of tenants were changed")
		opens("two", true)
		opens("b", true)
	}

	// If the new policy has faults, the policy before is kept, but tokens that were rotated
	// out stay refused.
	put(t, policy, "version: 1\nrules: [")
	w.wait("the policy cannot be read again")
	token(file, "three")
	w.wait("the tokens of tenants were changed")
	opens("two", false)
	opens("three", true)

	w.end() // all audit records are written when the server has ended
	told := 0
	err = audit.Read(t.Context(), config.AuditDir(state), audit.Filter{Kind: audit.KindPolicy}, func(e audit.Entry) error {
		if e.Event == "tokens" {
			told++
		}
		if strings.Contains(string(e.Raw), digest("two")) || strings.Contains(string(e.Raw), digest("three")) {
			t.Errorf("the audit log has a digest: %s", e.Raw)
		}
		return nil
	})
	if err != nil || told < 10 {
		t.Errorf("the audit log tells of %d changes, %v", told, err)
	}
}

// A token is created, used and revoked while a server runs. The session and the stream that
// it opened end within a second.
func TestTokensRevoked(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Parallel()
	dir, state := t.TempDir(), t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	put(t, policy, "version: 1\nprofiles: {p: {fs: {system: true, workspace: ro}}}\ndefaults: {decision: allow, profile: p}\ntenants: {a: {}, b: {}}\n")
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Args = append([]string{"belljar"}, args...)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v %s", args, err, errs.String())
		}
		return strings.TrimSpace(string(out))
	}
	w := serveWeb(t, []string{"XDG_STATE_HOME=" + t.TempDir()}, "--workspace", t.TempDir(), "--policy", policy, "--state", state)
	token := run("token", "create", "--tenant", "a", "--state", state, "--policy", policy)
	other := run("token", "create", "--tenant", "a", "--state", state, "--policy", policy)
	w.wait(`msg="another token is valid from now on"`)
	w.wait(`msg="another token is valid from now on"`)
	session, others := w.session(token), w.session(other)

	stream := w.stream(session)
	defer stream.Close()

	// Another token of the same tenant is another principal.
	stolen := maps.Clone(session)
	stolen["Authorization"] = others["Authorization"]
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	if res, text := w.post(stolen, list); res.StatusCode != http.StatusNotFound {
		t.Errorf("the session of one token with another: %s %s", res.Status, text)
	}

	run("token", "revoke", token, "--state", state)
	began := time.Now()
	if _, err := io.Copy(io.Discard, stream); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
	if took := time.Since(began); took > 5*time.Second*testenv.Patience(t) { // one second, and more on a busy machine
		t.Errorf("the stream of a revoked token ended after %v", took)
	}
	if res, text := w.post(session, list); res.StatusCode != http.StatusUnauthorized || !strings.Contains(res.Header.Get("WWW-Authenticate"), "invalid_token") {
		t.Errorf("a revoked token: %s %s", res.Status, text)
	}
	if res, text := w.post(others, list); res.StatusCode != http.StatusOK {
		t.Errorf("the other token: %s %s", res.Status, text)
	}
	w.end()
	seen := make(map[string]int)
	err := audit.Read(t.Context(), config.AuditDir(state), audit.Filter{}, func(e audit.Entry) error {
		if e.Kind == audit.KindLogin {
			seen[e.Event]++
		}
		if strings.Contains(string(e.Raw), token) || strings.Contains(string(e.Raw), other) {
			t.Errorf("the audit log has a token: %s", e.Raw)
		}
		return nil
	})
	if err != nil || seen["created"] != 2 || seen["revoked"] != 1 || seen["refused"] != 1 {
		t.Errorf("the audit log has %v, %v", seen, err)
	}
	if text := run("token", "list", "--all", "--json", "--state", state); strings.Count(text, `"used": "`) != 2 {
		t.Errorf("it is not known when the tokens were last used: %s", text)
	}
}
