package server

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/auth"
	"belljar.dev/internal/auth/authtest"
	"belljar.dev/policies"
)

// A login at the provider of the policy leads to a person of the policy. The secret is read
// from the place that the policy names, the tenants are those that a condition gives, and
// the name of the person is unique. A new policy takes effect immediately.
func TestProviderOfThePolicy(t *testing.T) {
	far := authtest.New(t)
	secret := filepath.Join(t.TempDir(), "secret")
	put(t, secret, authtest.Secret+"\n")
	policy := fmt.Sprintf(`%sconsole:
  provider:
    url: %s
    client: %s
    secret: "${file:%s}"
    algorithms: [ES256]
    addresses: [127.0.0.0/8]
    name: email
    roles: [{when: '"ops" in claims.groups', role: approver, tenants: [a, b]}]
`, estatePolicy, far.URL, authtest.Client, secret)
	e, page := withConsole(t, policy)
	var ways struct{ Provider string }
	if page.get("login", &ways); ways.Provider != strings.TrimPrefix(far.URL, "https://") {
		t.Errorf("the page offers %+v", ways)
	}
	v := &consoleProvider{server: e.Server, roots: far.Roots()}
	t.Cleanup(v.Close)
	login := func() (map[string]any, error) {
		t.Helper()
		visit, err := v.Begin(t.Context(), "https://belljar.example/login")
		if err != nil {
			return nil, err
		}
		to, err := far.Visit(visit.URL)
		if err != nil || to.Query().Get("state") != visit.State {
			t.Fatal(to, err)
		}
		return v.Finish(t.Context(), visit.Kept, to.Query().Get("code"))
	}
	claims, err := login()
	if err != nil {
		t.Fatal(err)
	}
	who, ok := v.Admits(claims)
	if !ok || who.Name != far.URL+"|ann-1 (ann@example.com)" || who.Role.String() != "approver" || fmt.Sprint(who.Scope) != fmt.Sprint(scopeOf([]string{"a", "b"})) {
		t.Errorf("got %+v, %v", who, ok)
	}
	for _, wrong := range []map[string]any{
		{"iss": "https://other.example", "sub": "ann-1", "email": "x", "groups": []any{"ops"}},
		{"iss": far.URL, "sub": "ann-1", "email": "x", "groups": []any{"others"}},
		{"sub": "ann-1", "email": "x", "groups": []any{"ops"}},
	} {
		if who, ok := v.Admits(wrong); ok || who.Name != "" {
			t.Errorf("%v: got %+v", wrong, who)
		}
	}
	before := v.at
	turnTo := func(from, to string) {
		t.Helper()
		p, err := policies.Parse("policy.yaml", []byte(strings.Replace(policy, from, to, 1)+e.tenants("")))
		if err != nil {
			t.Fatal(err)
		}
		e.gate.now.Store(p)
	}
	turnTo(`"ops"`, `"others"`)
	if _, ok := v.Admits(claims); ok {
		t.Error("the condition of a policy that does not hold any more counts")
	}
	if _, err := login(); err != nil || v.at != before {
		t.Errorf("what was fetched is fetched again: %v", err)
	}
	turnTo("client: belljar", "client: another")
	if visit, err := v.Begin(t.Context(), "https://belljar.example/login"); err != nil || !strings.Contains(visit.URL, "client_id=another&") {
		t.Errorf("the client of a policy that does not hold any more counts: %s, %v", visit.URL, err)
	}
	put(t, secret, "wrong")
	turnTo("", "")
	if _, err := login(); err == nil || !strings.Contains(err.Error(), "invalid_client") {
		t.Errorf("with a secret that was changed: %v", err)
	}
	turnTo("    secret:", "    # secret:")
	if _, err := login(); err == nil || !strings.Contains(err.Error(), "invalid_client") {
		t.Errorf("without a secret: %v", err)
	}
	turnTo(policy[strings.Index(policy, "console:"):], "")
	if _, err := login(); !errors.Is(err, errNoProvider) || v.Host() != "" {
		t.Errorf("without a provider: %v", err)
	}
	if _, ok := v.Admits(claims); ok {
		t.Error("somebody comes by a provider that the policy does not name any more")
	}
	turnTo("", "")
	v.Close()
	if _, err := login(); !errors.Is(err, auth.ErrClosed) {
		t.Errorf("a login after the end of the console: %v", err)
	}
}
