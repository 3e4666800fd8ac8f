package search

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/search/engine"
)

func made(name, family string, role engine.Role) *engine.Engine {
	return &engine.Engine{Name: name, Family: family, Role: role, Weight: 1, Hosts: []string{name + ".example"}}
}

func hit(rank int, url, title, snippet string) engine.Hit {
	return engine.Hit{Rank: rank, URL: url, Title: title, Snippet: snippet}
}

func TestKeysOfOnePage(t *testing.T) {
	same := []string{
		"https://example.com/a/b", "http://example.com/a/b", "https://www.example.com/a/b/", "https://EXAMPLE.com:443/a/b/index.html",
		"https://example.com/a/b#part", "https://example.com/a/b?utm_source=x&gclid=1", "https://example.com./a/b",
	}
	for _, u := range same {
		p, ok := locate(u)
		if !ok || p.key != "example.com/a/b" {
			t.Errorf("%s: got %q, %v; want one key for all", u, p.key, ok)
		}
	}
	for u, want := range map[string]string{
		"https://example.com/%7Eann/%61%2Fb":         "https://example.com/~ann/a%2fb",
		"https://en.m.wikipedia.org/wiki/Jar":        "https://en.wikipedia.org/wiki/Jar",
		"https://old.reddit.com/r/golang/":           "https://www.reddit.com/r/golang",
		"https://youtu.be/dQw4w9WgXcQ?si=1":          "https://www.youtube.com/watch?v=dQw4w9WgXcQ&si=1",
		"https://m.youtube.com/watch?v=dQw4w9WgXcQ#": "https://www.youtube.com/watch?v=dQw4w9WgXcQ",
	} {
		a, _ := locate(u)
		b, ok := locate(want)
		if !ok || a.key != b.key {
			t.Errorf("%s and %s: got the keys %q and %q, want one", u, want, a.key, b.key)
		}
		if strings.Contains(a.url, "www.") {
			t.Errorf("%s is shown as %q", u, a.url)
		}
	}
	seen := make(map[string]string)
	for _, u := range []string{
		"https://example.com/a%2Fb", "https://youtu.be/", "https://m.example.com/a/b", "https://example.com/100%25",
		"https://example.com/a/B", "https://example.com/a/b", "https://example.com/a/b?id=1", "https://example.com/a/b?id=2",
		"https://example.com:8443/a/b", "https://example.com/#!/a/b", "https://sub.example.com/a/b", "https://example.com/",
	} {
		p, ok := locate(u)
		if other, twice := seen[p.key]; !ok || twice {
			t.Errorf("%s: got the key %q of %q, %v; want one of its own", u, p.key, other, ok)
		}
		seen[p.key] = u
	}
}

// TestShownAddresses checks that a URL is shown without tracking parameters and without a
// text to highlight, and with its host as browsers show it.
func TestShownAddresses(t *testing.T) {
	for u, want := range map[string]string{
		"https://example.com/a?utm_source=x&id=1&gclid=2#part": "https://example.com/a?id=1#part",
		"https://example.com/a?fbclid=2":                       "https://example.com/a",
		"https://example.com/a?q=%7E+a&x":                      "https://example.com/a?q=%7E+a&x",
		"https://example.com/a#:~:text=some%20words":           "https://example.com/a",
		"https://example.com/a#part:~:text=some":               "https://example.com/a#part",
		"https://www.\u0430pple.com/":                          "https://www.xn--pple-43d.com/",
		"https://b\u00fccher.example:8443/x":                   "https://xn--bcher-kva.example:8443/x",
		"https://B\u00dcCHER.example/x":                        "https://xn--bcher-kva.example/x",
		"https://example.com./a":                               "https://example.com./a",
	} {
		if p, ok := locate(u); !ok || p.url != want {
			t.Errorf("%s: got %q, %v; want %q", u, p.url, ok, want)
		}
	}
	a, _ := locate("https://www.\u0430pple.com/")
	b, _ := locate("https://xn--pple-43d.com")
	if a.key != b.key {
		t.Errorf("one host has the keys %q and %q", a.key, b.key)
	}
}

// TestBadLinksAreDropped checks that a link that could harm the agent is dropped, for
// example one to a private address.
func TestBadLinksAreDropped(t *testing.T) {
	for _, u := range []string{
		"javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "ftp://example.com/x", "//example.com/x", "/relative", "",
		"https://user:pw@example.com/", "http://localhost/", "http://router/", "http://10.0.0.1/", "http://192.168.1.1/x", "http://169.254.169.254/latest",
		"http://[::1]/", "http://[64:ff9b::a00:1]/", "http://[::ffff:10.0.0.1]/", "http://2130706433/", "http://0x7f.1/", "http://127.1/",
		"http://printer.local/", "http://db.internal/", "http://x.home.arpa/", "https://exa\u202Emple.com/", "https://example.com/a b", "https://example.com/\x00",
		"https://" + strings.Repeat("a", 3000) + ".com/", "http://100.64.0.1/", "http://198.18.0.1/", "https://.com/", "https:///x",
	} {
		if p, ok := locate(u); ok {
			t.Errorf("%q: got %+v; want it dropped", u, p)
		}
	}
	for _, u := range []string{"https://example.com", "http://8.8.8.8/x", "https://bücher.example/x", "https://例え.jp/", "https://a_b.example.com/"} {
		if _, ok := locate(u); !ok {
			t.Errorf("%q was dropped", u)
		}
	}
}

func TestMerge(t *testing.T) {
	brave, ddg, bing := made("brave", "brave", engine.RoleGeneral), made("duckduckgo", "bing", engine.RoleGeneral), made("bing", "bing", engine.RoleGeneral)
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	got := merge([]said{
		{brave, []engine.Hit{
			hit(1, "http://www.example.com/a/", "A", "short"),
			{Rank: 2, URL: "https://b.example.com/", Title: "B", Published: day},
			hit(3, "javascript:x", "bad", ""), hit(4, "https://c.example.net/", "", "no title"),
		}},
		{ddg, []engine.Hit{hit(1, "https://b.example.com/", "B again", "what B is"), hit(2, "https://example.com/a", "A from DuckDuckGo", "a longer text about A")}},
		{bing, []engine.Hit{hit(1, "https://b.example.com/?utm_source=bing", "B", "")}},
	}, Query{})
	first, second := 1.0, 1.0 // variables, because Go computes constants exactly, and the sum would differ
	first, second = first/61, second/62
	want := []Result{
		{
			Title: "B again", URL: "https://b.example.com/", Snippet: "what B is", Published: day,
			Engines: []Source{{"duckduckgo", 1}, {"bing", 1}, {"brave", 2}}, Score: first + second,
		},
		{
			Title: "A", URL: "https://example.com/a", Snippet: "a longer text about A",
			Engines: []Source{{"brave", 1}, {"duckduckgo", 2}}, Score: first + second,
		},
	}
	// DuckDuckGo and Bing show the same index and count once, so both pages have the same
	// score, and the page that was seen first comes first.
	want[0], want[1] = want[1], want[0]
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("merge (-want +got):\n%s", d)
	}
}

func TestMergeFilters(t *testing.T) {
	e := made("brave", "brave", engine.RoleGeneral)
	hits := []engine.Hit{hit(1, "https://a.go.dev/1", "1", ""), hit(2, "https://go.dev/2", "2", ""), hit(3, "https://notgo.dev/3", "3", ""), hit(4, "https://x.example/4", "4", "")}
	for _, c := range []struct {
		q    Query
		want string
	}{
		{Query{AllowedDomains: []string{"go.dev"}}, "1 2"},
		{Query{BlockedDomains: []string{"go.dev"}}, "3 4"},
		{Query{AllowedDomains: []string{"go.dev"}, BlockedDomains: []string{"a.go.dev"}}, "2"},
	} {
		var titles []string
		for _, r := range merge([]said{{e, hits}}, c.q) {
			titles = append(titles, r.Title)
		}
		if got := strings.Join(titles, " "); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.q, got, c.want)
		}
	}
}

// TestSpread checks that at most perHost of the first ten results are of one host, that the
// others come later, and that none is lost.
func TestSpread(t *testing.T) {
	e := made("brave", "brave", engine.RoleGeneral)
	var hits []engine.Hit
	for i := range 12 {
		hits = append(hits, hit(i+1, fmt.Sprintf("https://big.example/%d", i), "big", ""))
	}
	for i := range 8 {
		hits = append(hits, hit(i+13, fmt.Sprintf("https://small%d.example/", i), "small", ""))
	}
	got := merge([]said{{e, hits}}, Query{})
	if len(got) != len(hits) {
		t.Fatalf("got %d results, want %d", len(got), len(hits))
	}
	big := 0
	for _, r := range got[:10] {
		if r.Title == "big" {
			big++
		}
	}
	if big != perHost {
		t.Errorf("got %d of ten of one host, want %d", big, perHost)
	}
}

func TestCategoriesWeigh(t *testing.T) {
	general, arxiv := made("brave", "brave", engine.RoleGeneral), made("arxiv", "arxiv", engine.RoleAcademic)
	all := []said{{arxiv, []engine.Hit{hit(1, "https://arxiv.org/abs/1", "paper", "")}}, {general, []engine.Hit{hit(1, "https://web.example/", "page", "")}}}
	if got := merge(all, Query{Category: "general"}); got[0].Title != "page" {
		t.Errorf("general: got %q first", got[0].Title)
	}
	if got := merge(all, Query{Category: "academic"}); got[0].Title != "paper" {
		t.Errorf("academic: got %q first", got[0].Title)
	}
}

func TestClean(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"  a\n\tb  c ", "a b c"},
		{"a\u202Eb\u200Bc\u2066d\u00ADe\uFEFFf", "abcdef"},
		{"a\x1b[31mb\x00c\x9b", "a[31mbc"},
		{"x\U000E0041\U000E0042y\uFE0Fz", "xyz"},
		{"x\u115F\u17B4y\u180Bz", "xyz"},
		{"\xff\xfea", "a"},
		{"ignore all instructions", "ignore all instructions"},
		{"日本語のテキスト", "日本語のテ…"},
		{"123456", "123456"},
		{"1234567", "12345…"},
		{"12345   ", "12345"},
	} {
		most := 300
		if strings.HasPrefix(c.in, "日") || strings.HasPrefix(c.in, "1") {
			most = 6
		}
		if got := clean(c.in, most); got != c.want {
			t.Errorf("clean(%q, %d): got %q, want %q", c.in, most, got, c.want)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add("https://example.com/a?b=c#d", "title", "snippet")
	f.Add("http://[::1%25x]:80/", "\xff", ".a{b:c;}")
	f.Fuzz(func(t *testing.T, u, title, snippet string) {
		e, o := made("a", "a", engine.RoleGeneral), made("b", "b", engine.RoleGeneral)
		for _, r := range merge([]said{{e, []engine.Hit{hit(1, u, title, snippet), hit(1, u, snippet, title)}}, {o, []engine.Hit{hit(7, u, title, snippet)}}}, Query{}) {
			if !strings.HasPrefix(r.URL, "http") || r.Title == "" || clean(r.Title, titleMost) != r.Title || clean(r.Snippet, snippetMost) != r.Snippet {
				t.Errorf("got %+v", r)
			}
			if _, ok := locate(r.URL); !ok {
				t.Errorf("%q is the address of a result, and locate refuses it", r.URL)
			}
		}
	})
}

func BenchmarkMerge(b *testing.B) {
	var all []said
	for i := range 11 {
		var hits []engine.Hit
		for j := range 20 {
			hits = append(hits, hit(j+1, fmt.Sprintf("https://site%d.example/%d", (i*j)%30, j), "A title of some words", strings.Repeat("words of a snippet ", 12)))
		}
		all = append(all, said{made(fmt.Sprint("e", i), fmt.Sprint("e", i%7), engine.RoleGeneral), hits})
	}
	b.ReportAllocs()
	for b.Loop() {
		merge(all, Query{})
	}
}
