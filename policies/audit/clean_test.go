package audit

import (
	"strings"
	"testing"

	"belljar.dev/policies"
)

func TestClean(t *testing.T) {
	const text = "write to someone@lists.example with ghp_0123456789abcdefghijABCDEFGHIJ012345, or someone@lists.example"
	for _, tt := range []struct {
		what           []policies.Redaction
		emails, tokens bool
	}{
		{nil, true, true},
		{[]policies.Redaction{policies.RedactEmails}, false, true},
		{[]policies.Redaction{policies.RedactTokens}, true, false},
		{[]policies.Redaction{policies.RedactTokens, policies.RedactEmails}, false, false},
	} {
		got := Clean(text, tt.what)
		if strings.Contains(got, "someone@") != tt.emails || strings.Contains(got, "ghp_") != tt.tokens {
			t.Errorf("%v: got %q", tt.what, got)
		}
		if again := Clean(text, tt.what); again != got {
			t.Errorf("%v: got %q and then %q", tt.what, got, again)
		}
	}
}
