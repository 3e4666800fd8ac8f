package page

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestShortLinks(t *testing.T) {
	const here = "https://docs.example.org/guide/page.html"
	p := convertString(t, `<!doctype html><title>T</title><body>
<p><a href="other.html">beside</a> <a href="/api/x?y=1#z">on the host</a> <a href="../up.html">above</a> <a href="#s">here</a>
<a href="page.html?q=1">itself</a> <a href="//docs.example.org//evil.example/">two slashes</a> <a href="https://docs.example.org:8443/">another port</a>
<a href="http://docs.example.org/guide/a">another scheme</a> <a href="https://docs.example.org.evil.example/">another host</a> <a href="javascript:1:2">script</a> <a href="./a:b">colon</a></p>
<p><a href="https://far.example/a/long/way">one</a> <a href="https://far.example/a/long/way">two</a> <a href="s.html">short</a> <a href="s.html">again</a> <img src="i.png" alt="i"></p>
`, Options{Whole: true, URL: here, ShortLinks: true})
	const want = `[beside](other.html) [on the host](/api/x?y=1#z) [above](/up.html) [here](#s) [itself](page.html?q=1) [two slashes](https://docs.example.org//evil.example/) [another port](https://docs.example.org:8443/) [another scheme](http://docs.example.org/guide/a) [another host](https://docs.example.org.evil.example/) script [colon](/guide/a:b)

[one][1] [two][1] [short](s.html) [again](s.html) ![i](i.png)
`
	if p.Content != want {
		t.Errorf("got:\n%s\nwant:\n%s", p.Content, want)
	}
	if got := p.Definitions(p.Content); !slices.Equal(got, []string{"[1]: https://far.example/a/long/way"}) {
		t.Errorf("definitions: got %q", got)
	}
	if got := p.Definitions("[one](a) m[0][2]"); len(got) > 0 {
		t.Errorf("definitions of a piece without references: got %q", got)
	}
	for _, l := range p.Links {
		if u, err := url.Parse(l.URL); err != nil || !u.IsAbs() {
			t.Errorf("Links: got %q, want an absolute URL", l.URL)
		}
	}
}

// TestShortLinksLoseNone converts random pages and all saved pages that exist, and checks
// that short links lead to the same addresses as full links.
func TestShortLinksLoseNone(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "b.html", "..", ".", "", "c%20d", "e(f)", "g:h", "ü", "//x.example", "?q=1&r=[2]", "#frag", "https://docs.example.org", "https://far.example", "/", "/guide/", "%2F", "|", "mailto:a@b.example"}
	for i := range 300 {
		var b strings.Builder
		for range 1 + r.IntN(12) {
			address := ""
			for range 1 + r.IntN(4) {
				address += parts[r.IntN(len(parts))]
			}
			for range 1 + r.IntN(3) {
				fmt.Fprintf(&b, `<p><a href="%s">link</a> text</p>`, address)
			}
		}
		loseNone(t, fmt.Sprintf("random page %d", i), []byte("<!doctype html><body>"+b.String()))
	}
	read := 0
	for _, dir := range []string{"testdata", filepath.Join("..", "..", "..", "shared", "data", "pages")} {
		if _, err := os.Stat(dir); err != nil {
			continue // not every machine has these pages
		}
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".html") {
				return err
			}
			src, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			loseNone(t, name, src)
			read++
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if read == 0 {
		t.Error("no saved page was read")
	}
}

// loseNone converts a page with short links and with full links, and compares where they
// lead.
func loseNone(t *testing.T, name string, src []byte) {
	t.Helper()
	const here = "https://docs.example.org/guide/page.html"
	whole, err := Convert(t.Context(), src, Options{URL: here, Whole: true})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	short, err := Convert(t.Context(), src, Options{URL: here, Whole: true, ShortLinks: true})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if want, got := addressesOf(t, whole), addressesOf(t, short); !slices.Equal(got, want) {
		t.Errorf("%s: short links lead to\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Equal(whole.Links, short.Links) {
		t.Errorf("%s: Links differ", name)
	}
}

var linkTarget = pattern(`\]\(([^()\s]+)(?: "[^"]*")?\)|\]\[(\d+)\]`)

// addressesOf returns the absolute addresses that a page's markdown names, in order.
func addressesOf(t *testing.T, p *Page) []string {
	t.Helper()
	base, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range linkTarget().FindAllStringSubmatch(p.Content, -1) {
		address := m[1]
		if m[2] != "" {
			var n int
			if _, err := fmt.Sscan(m[2], &n); err != nil || n < 1 || n > len(p.References) {
				continue // this text is in code
			}
			address = p.References[n-1]
		}
		u, err := base.Parse(address)
		if err != nil {
			all = append(all, address)
			continue
		}
		all = append(all, u.String())
	}
	return all
}
