package auth

import (
	"strings"
	"testing"
)

func TestTokenForm(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		id, secret, token := newToken()
		gotID, gotSecret, err := parseToken(token)
		if err != nil || gotID != id || gotSecret != secret || len(token) != tokenLength || !isToken(token) || IDOf(token) != id || seen[secret] {
			t.Fatalf("%s: got %s %s %v, want %s %s", token, gotID, gotSecret, err, id, secret)
		}
		seen[secret] = true
	}
	_, _, token := newToken()
	for i := range token {
		changed := []byte(token)
		if changed[i]++; string(changed) == token {
			continue
		}
		if _, _, err := parseToken(string(changed)); err == nil {
			t.Errorf("%s is accepted with another byte %d: %s", token, i, changed)
		}
	}
	for _, bad := range []string{"", "bj_", token[1:], token + "0", strings.ToUpper(token), "bj_" + strings.Repeat("_", tokenLength-3), strings.Repeat("é", tokenLength/2)} {
		if _, _, err := parseToken(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		} else if bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("the error repeats the token: %v", err)
		}
	}
}

func FuzzToken(f *testing.F) {
	_, _, token := newToken()
	f.Add(token)
	f.Add("bj___")
	f.Fuzz(func(t *testing.T, text string) {
		id, secret, err := parseToken(text)
		if err == nil && tokenPrefix+id+"_"+secret+"_"+check(id, secret) != text {
			t.Errorf("%q was read as %q and %q", text, id, secret)
		}
	})
}
