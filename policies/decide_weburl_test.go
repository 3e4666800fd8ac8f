package policies_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"belljar.dev/policies"
)

func TestWebURLs(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example/x":                   "https://a.example/x",
		"  HTTPS://A.example ":                  "https://A.example",
		"http:a.example":                        "http://a.example",
		"http:/a.example":                       "http://a.example",
		`http:\\\/a.example\x?y=\z`:             "http://a.example/x?y=%5Cz",
		"\x00\x1f http://a.example/\x00":        "http://a.example/",
		"\x01https://a.example/x y\x1f":         "https://a.example/x%20y",
		"h\ttt\np:/\r/a.ex\tample":              "http://a.example",
		"https://a.example/x and 100% more %41": "https://a.example/x%20and%20100%25%20more%20%41",
		"https://a.example and more":            "https://a.example",
		"https://a.example:443 and":             "https://a.example:443",
		"https://a.example\nand more":           "https://a.example https://a.exampleand",
		"https://a.ex\nample and more":          "https://a.ex https://a.example",
		"https://a.example\n.b.example/x":       "https://a.example.b.example/x https://a.example",
		"ht\ntps://a.example and more":          "https://a.example",
		"https://a b@c.example/":                "https://a%20b@c.example/",
		"\u00a0\ufeffhttps://a.example":         "https://a.example",
		"https://a.example\u3000is nice":        "https://a.example",
		"https://a.example\x0bx":                "https://a.example",
		"https://":                              "",
		"https://@/":                            "",
		"https: see there":                      "",
		"httpsx://a.example":                    "",
		"see https://a.example":                 "",
		"ftp://a.example":                       "",
		"a.example":                             "",
		"":                                      "",
	} {
		if got := strings.Join(policies.WebURLs(text), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// Whatever URL a browser would open is judged, however it is written. The URL that a
// browser would open from the text up to its first blank is judged too. The test makes each
// text from a URL that a browser would open.
func TestNoSpellingHidesAURL(t *testing.T) {
	p := parse(t, strings.Replace(head, "decision: ask", "decision: allow", 1)+`
rules: [{id: no, match: {host: ["*.evil.example", evil.example]}, decision: deny}]
upstreams: {servers: {x: {}}}
`)
	x := p.Upstreams().Of("x", true)
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	some := func(n int, all ...string) (s string) {
		for range r.IntN(n + 1) {
			s += pick(all...)
		}
		return s
	}
	for range 20_000 {
		var word strings.Builder
		plain := pick("http", "HTTP", "hTtPs", "https") + ":" + some(5, "/", `\`) +
			pick("", "", "", "u@", "u:p@", "ok.example@", "a@b@") + pick("evil.example", "EVIL.example", "www.evil.example", "evil.example.", "ｅvil.example", "%65vil.example", "e\u00advil.example") +
			pick("", "", ":80", ":8443", ":") + pick("", "/", `\`, "/a/../b", "?q", "#f", `\..\x?y=\`, "/100%", "/%zz", "/@ok.example", "?@ok.example")
		for _, c := range plain { // tabs and line breaks, which browsers drop, can stand anywhere
			word.WriteString(some(r.IntN(2), "\t", "\n", "\r") + string(c))
		}
		tail := ""
		if r.IntN(2) == 0 {
			tail = pick(" ", "\u00a0", "\u3000", " \n") + pick("and more", "", "https://ok.example/", "/path", "x@ok.example", ".ok.example", "100% \x01")
		}
		text := some(3, " ", "\x00", "\x1f", "\t", "\n", "\x0b") + word.String() + tail
		f := x.Facts("navigate", map[string]any{"deep": []any{map[string]any{"to": text}}})
		f.Tenant, f.Tool = policies.LocalTenant, "mcp_x_navigate"
		if d := p.Decide(f); d.Verdict != deny {
			t.Fatalf("%q is judged as %q: %v by %s", text, f.URLs, d.Verdict, d.Rule)
		}
		for _, u := range f.URLs {
			if got := policies.WebURLs(u); !slices.Equal(got, []string{u}) {
				t.Fatalf("%q is read as %q, and this as %q", text, u, got)
			}
		}
	}
}
