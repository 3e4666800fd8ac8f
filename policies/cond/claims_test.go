package cond

import (
	"strings"
	"testing"
)

func TestClaims(t *testing.T) {
	type claims = map[string]any
	for _, tt := range []struct {
		text   string
		claims claims
		want   bool
		err    string
	}{
		{`claims.org == "a"`, claims{"org": "a"}, true, ""},
		{`claims.org == "a"`, claims{"org": 1.0}, false, ""},
		{`claims.level >= 3`, claims{"level": 3.0}, true, ""},
		{`claims["https://x/y"] == "a"`, claims{"https://x/y": "a"}, true, ""},
		{`has(claims.realm) && claims.realm.roles.exists(r, r == "dev")`, claims{"realm": claims{"roles": []any{"ops", "dev"}}}, true, ""},
		{`has(claims.realm) && claims.realm.roles.exists(r, r == "dev")`, claims{}, false, ""},
		{`claims.email.endsWith("@a.example") && claims.email_verified`, claims{"email": "x@a.example", "email_verified": true}, true, ""},
		{`claims.org == "a"`, claims{}, false, "no such key: org"},
		{`claims.org`, claims{"org": "a"}, false, "its value is a string"},
		{`claims.a.exists(x, claims.a.exists(y, claims.a.exists(z, x + y + z == "never")))`, claims{"a": many(200)}, false, "cost limit"},
	} {
		c, wrong := CompileClaims(tt.text)
		if len(wrong) > 0 {
			t.Errorf("%s: %v", tt.text, wrong)
			continue
		}
		got, err := c.Holds(tt.claims)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s of %v: got %v, %v; want %v, %q", tt.text, tt.claims, got, err, tt.want, tt.err)
		}
	}
	for _, bad := range []string{`org == "a"`, `claims.size()`, `tool == "Bash"`, `claims.`, strings.Repeat("true||", 1000) + "true"} {
		if _, wrong := CompileClaims(bad); len(wrong) == 0 {
			t.Errorf("%.40s is accepted", bad)
		}
	}
}

func many(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = "x"
	}
	return all
}
