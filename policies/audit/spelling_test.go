package audit

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// A known secret is removed in each of its spellings. A secret that contains another one is
// removed as a whole, because the rest would be a part of it.
func TestSecretsInEverySpelling(t *testing.T) {
	const short, long = "hunter2", "hunter2?/ \xffand-\xfb\xefmore"
	r := &redactor{secrets: true, key: []byte("key")}
	r.add("short", short)
	r.add("long", long)
	for name, text := range map[string]string{
		"as it is":         long,
		"in a query":       url.QueryEscape(long),
		"in a path":        url.PathEscape(long),
		"base64":           base64.StdEncoding.EncodeToString([]byte(long)),
		"base64 of URLs":   base64.URLEncoding.EncodeToString([]byte(long)),
		"base64, unpadded": base64.RawURLEncoding.EncodeToString([]byte(long)),
	} {
		got := r.text("before " + text + " after")
		want := regexp.MustCompile(`^before \[redacted long hmac:[0-9a-f]{16}\]=* after$`)
		if !want.MatchString(got) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := r.text(short); !strings.HasPrefix(got, "[redacted short") {
		t.Errorf("the short one alone: got %q", got)
	}
}
