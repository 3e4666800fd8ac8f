package policies_test

import (
	"testing"

	"belljar.dev/policies"
)

// A port has one form, that of browsers and resolvers: an address written with another one
// is the same address to a rule.
func TestPortsOfURLs(t *testing.T) {
	p := parse(t, `version: 1
defaults: {decision: allow}
profiles: {a: {}}
rules:
  - {id: own, match: {url: "https://a.example/**"}, decision: deny}
  - {id: other, match: {url: "*://b.example:8080/**"}, decision: deny}
  - {id: below, match: {url: "https://*.C.example./**"}, decision: deny}
`)
	for url, want := range map[string]string{
		"https://a.example/x":           "deny own",
		"https://a.example:443/x":       "deny own",
		"https://a.example:0443/x":      "deny own",
		"https://a.example:/x":          "deny own",
		"https://a.example:444/x":       "allow default",
		"http://b.example:8080/":        "deny other",
		"http://b.example:08080/":       "deny other",
		"http://b.example:000080/":      "allow default",
		"https://x.c.example/":          "deny below",
		"https://a.example:65536/":      "deny unreadable",
		"https://a.example:0/":          "deny unreadable",
		"https://a.example:4294967739/": "deny unreadable", // 443 to a program that drops the upper bits
	} {
		d := p.Decide(policies.Facts{Tool: "ReadDocs", URLs: []string{url}})
		if got := d.Verdict.String() + " " + d.Rule; got != want {
			t.Errorf("%s: got %s (%s), want %s", url, got, d.Reason, want)
		}
	}
	if u, err := policies.ParseURL("http://b.example:08080/x"); err != nil || u.String() != "http://b.example:8080/x" {
		t.Errorf("got %v, %v", u, err)
	}
}
