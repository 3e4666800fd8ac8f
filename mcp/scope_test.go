package mcp_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

const twoScopes = "tenants: {a: {}}\nauth: {scopes: {read: {tools: [\"ec*\"]}, all: {tools: [\"*\"]}}}\n"

// The scopes of a token can exclude tools: these tools are not listed, and a call of one is
// refused with the scopes that it needs, in both eras.
func TestScopesNarrow(t *testing.T) {
	_, with := newOffice(t, twoScopes)
	s := newSite(t, with)
	ask := func(scopes, tool, args string) map[string]reply {
		auth := []string{"Authorization", "Bearer token-a@" + scopes}
		r := s.do("POST", fmt.Sprintf(hello, revLegacy), auth...)
		if r.status != 200 {
			t.Fatalf("initialize: %d %s", r.status, r.raw)
		}
		legacy := append([]string{"Mcp-Session-Id", r.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", revLegacy}, auth...)
		if tool == "" {
			return map[string]reply{
				"legacy": s.do("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, legacy...),
				"modern": s.do("POST", modern("1", "tools/list", ""), append(modernHeaders("tools/list", ""), auth...)...),
			}
		}
		return map[string]reply{
			"legacy": s.do("POST", call("1", tool, args), legacy...),
			"modern": s.do("POST", modern("1", "tools/call", `"name":"`+tool+`","arguments":`+args+`,`), append(modernHeaders("tools/call", tool), auth...)...),
		}
	}
	for era, r := range ask("read", "", "") {
		if !strings.Contains(r.raw, `"name":"echo"`) || strings.Contains(r.raw, `"name":"big"`) {
			t.Errorf("%s: the tools of a token that reads: %s", era, r.raw)
		}
	}
	for era, r := range ask("all", "", "") {
		if !strings.Contains(r.raw, `"name":"big"`) {
			t.Errorf("%s: the control: %s", era, r.raw)
		}
	}
	for era, r := range ask("read", "echo", `{"text":"hi"}`) {
		if r.status != 200 || !strings.Contains(r.raw, `"text":"hi"`) {
			t.Errorf("%s: a call within the scope: %d %s", era, r.status, r.raw)
		}
	}
	for _, scopes := range []string{"read", "", "other"} {
		for era, r := range ask(scopes, "big", `{}`) {
			want := strings.TrimSpace(strings.TrimPrefix(scopes, "other") + " all")
			if got := r.header.Get("WWW-Authenticate"); r.status != 403 || !strings.Contains(got, `error="insufficient_scope"`) || !strings.Contains(got, `scope="`+want+`"`) {
				t.Errorf("%s: a call of big with the scope %q: %d %s %s, want 403 and %q", era, scopes, r.status, got, r.raw, want)
			}
		}
	}
}

// The gate refuses a call that the token's scopes do not cover, even if the transport
// accepts it.
func TestGateKnowsScopes(t *testing.T) {
	o := &office{}
	o.set(t, twoScopes)
	for scope, want := range map[string]policies.Verdict{"read": policies.Deny, "all": policies.Allow} {
		if d := o.Decide(policies.Facts{Tenant: "a", Tool: "big", Scopes: []string{scope}}); d.Verdict != want {
			t.Errorf("with the scope %s: %v by %s, want %v", scope, d.Verdict, d.Rule, want)
		}
	}
	if d := o.Decide(policies.Facts{Tenant: "a", Tool: "big"}); d.Verdict != policies.Allow {
		t.Errorf("without scopes: %v by %s", d.Verdict, d.Rule)
	}
}

// A token that is not in its header is refused, and is not repeated or logged.
func TestTokensElsewhere(t *testing.T) {
	const secret = "token-a/hidden"
	var logged strings.Builder
	_, with := newOffice(t, twoScopes)
	s := newSite(t, with, func(c *mcp.Config) {
		c.Log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	auth := []string{"Authorization", "Bearer " + secret}
	plain := s.url
	body := call("1", "echo", `{"text":"hi"}`)
	for name, r := range map[string]reply{
		"cookie": s.do("POST", body, append([]string{"Cookie", "access_token=" + secret}, auth...)...),
		"_meta":  s.do("POST", strings.Replace(body, `"params":{`, `"params":{"_meta":{"Authorization":"`+secret+`"},`, 1), auth...),
		"query": func() reply {
			s.url = plain + "?access_token=" + secret
			defer func() { s.url = plain }()
			return s.do("POST", body, auth...)
		}(),
	} {
		if r.status != 400 || !strings.Contains(r.raw, "there is a token in ") || strings.Contains(r.raw, secret) {
			t.Errorf("a token in a %s: %d %s", name, r.status, r.raw)
		}
	}
	if strings.Contains(logged.String(), secret) {
		t.Errorf("the log has it: %s", logged.String())
	}
}
