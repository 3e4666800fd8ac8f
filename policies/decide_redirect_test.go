package policies_test

import (
	"slices"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
)

func readDocs(url string) policies.Facts {
	return policies.Facts{Tenant: "local", Tool: "ReadDocs", URLs: []string{url}, Args: map[string]any{"url": url, "wait_ms": int64(5)}}
}

const pagesPolicy = `
version: 1
defaults: {profile: offline}
profiles:
  offline: {net: {mode: none}}
  pages:
    net: {mode: proxy, allow: ["*"]}
    read: {render: never, redirects: follow, robots: respect, headers: [accept-language, X-Trace]}
rules:
  - {id: pages, match: {tool: ReadDocs, url: "https://*.example/**"}, decision: allow, profile: pages}
  - {id: other, match: {tool: ReadDocs, url: "https://other.example/**"}, decision: deny}
  - {id: asks, match: {tool: ReadDocs, url: "https://ask.example/**"}, decision: ask}
  - {id: offline, match: {tool: ReadDocs, url: "https://offline.test/**"}, decision: allow}
  - {id: dated, match: {tool: ReadDocs, url: "https://*.example/**"}, decision: deny, when: 'args.url.endsWith("/secret")'}
`

func TestReading(t *testing.T) {
	p := parse(t, pagesPolicy)
	d := p.Decide(readDocs("https://a.example/x"))
	r := d.Grant.Reading()
	if r.Render != policies.RenderNever || !r.Redirects || !r.Robots || !slices.Equal(r.Headers, []string{"Accept-Language", "X-Trace"}) {
		t.Errorf("got %+v", r)
	}
	plain := p.Decide(readDocs("https://offline.test/")).Grant.Reading()
	if plain.Render != policies.RenderAuto || plain.Redirects || plain.Robots || len(plain.Headers) != 0 {
		t.Errorf("got %+v", plain)
	}
	if zero := (policies.Grant{}).Reading(); zero.Render != policies.RenderNever {
		t.Errorf("a grant of nothing renders %v", zero.Render)
	}
}

// A URL that a page leads to is judged as a call for it would be, without a grant.
func TestDecideURL(t *testing.T) {
	p := parse(t, pagesPolicy)
	g := p.Decide(readDocs("https://a.example/x")).Grant
	for url, want := range map[string]struct {
		verdict policies.Verdict
		rule    string
	}{
		"https://b.example/y":         {policies.Allow, "pages"},
		"https://other.example/y":     {policies.Deny, "other"},
		"https://ask.example/y":       {policies.Ask, "asks"},
		"http://a.example/y":          {policies.Deny, "default"},
		"https://offline.test/":       {policies.Deny, "offline"},
		"https://a.example/secret":    {policies.Deny, "dated"},
		"file:///etc/passwd":          {policies.Deny, "unreadable"},
		"https://a.example@evil.test": {policies.Deny, "unreadable"},
	} {
		d := g.DecideURL(url)
		if d.Verdict != want.verdict || d.Rule != want.rule || !d.Grant.IsZero() || !d.Offers().IsZero() {
			t.Errorf("%s: got %v by %s, want %v by %s", url, d.Verdict, d.Rule, want.verdict, want.rule)
		}
	}
	none := policies.Grant{}.DecideURL("https://a.example/")
	if none.Verdict != policies.Deny {
		t.Errorf("without a grant: %v", none.Verdict)
	}
	golden.Equal(t, "reading.golden", none.Refusal("")+"\n\n"+g.DecideURL("https://offline.test/").Refusal("")+"\n")
	l, err := policies.ParseLayer(policies.LayerSession, "s.yaml", []byte("version: 1\nrules: [{id: no-b, match: {tool: ReadDocs, url: \"https://b.example/**\"}, decision: deny}]\n"), p)
	if err != nil {
		t.Fatal(err)
	}
	f := readDocs("https://a.example/x")
	g = l.Narrow(p.Decide(f), f).Grant
	if d := g.DecideURL("https://b.example/y"); d.Verdict != policies.Deny || d.Rule != "no-b" {
		t.Errorf("under a layer: got %v by %s", d.Verdict, d.Rule)
	}
	approved := p.Decide(readDocs("https://ask.example/x")).Approved()
	if d := approved.Grant.DecideURL("https://ask.example/other"); d.Verdict != policies.Ask {
		t.Errorf("a yes for one URL was taken for another: %v", d.Verdict)
	}
}

// The URL that is decided about and the URL that is fetched are read by the same parser.
func TestParseURL(t *testing.T) {
	for in, want := range map[string]string{
		"HTTPS://Example.COM./a?b#c":   "https://example.com/a?b#c",
		"http://[::ffff:127.0.0.1]:8/": "http://127.0.0.1:8/",
		"http://[2001:DB8::1]/":        "http://[2001:db8::1]/",
		"http://xn--bcher-kva.example": "http://xn--bcher-kva.example",
		"http://2130706433/":           "", "http://0x7f.1/": "", "http://127.1/": "", "http://0177.0.0.1/": "",
		"http://a@b.example/": "", "http://a\x00b/": "", "http://b\u00fccher.example/": "", "http://a.example\\@b/": "",
		"data:text/html,x": "", "javascript:alert(1)": "", "blob:https://a/b": "", "view-source:https://a/": "", "about:blank": "",
		"file:///etc/passwd": "", "//a.example/": "", "a.example": "", "http://[fe80::1%25eth0]/": "", "http:///x": "", "http://a..b/": "",
	} {
		u, err := policies.ParseURL(in)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q: got %v, want an error", in, u)
		case want != "" && (err != nil || u.String() != want):
			t.Errorf("%q: got %v, %v, want %q", in, u, err, want)
		}
	}
}
