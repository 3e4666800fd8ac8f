package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
)

// shared is a directory outside of the repository with real bodies, which we may not
// publish.
const shared = "../../../shared/data/search"

// phrases are texts of pages that refuse us. In a title they mean nothing.
var phrases = []string{
	"anomaly detection", "no results found for", "verify that you are not a robot", "unusual traffic",
	"Just a moment...", "403 Forbidden", "429 Too Many Requests", "captcha", "Access denied",
}

func load(t testing.TB) *Set {
	t.Helper()
	s, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// realBodies returns the bodies in shared with their present results.
func realBodies(t testing.TB, s *Set) []Examined {
	t.Helper()
	if _, err := os.Stat(filepath.Join(shared, indexFile)); err != nil {
		t.Skipf("needs real bodies of engines: %v", err)
	}
	all, err := s.Examine(shared)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readShared(t testing.TB, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(shared, file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestOwnBodies checks that for each engine that is asked without being named, a page of
// results and an answer without results are recorded, and that the index lists all bodies.
func TestOwnBodies(t *testing.T) {
	s := load(t)
	all, err := s.ExamineOwn()
	if err != nil {
		t.Fatal(err)
	}
	has := func(engine string, outcome Outcome) bool {
		return slices.ContainsFunc(all, func(e Examined) bool { return e.Engine == engine && e.Parsed.Outcome == outcome })
	}
	for _, e := range s.All() {
		if e.Use != UseOff && (!has(e.Name, OK) || !has(e.Name, Empty)) {
			t.Errorf("%s: testdata/bodies/%s lists no page of results of it, or no answer without any", e.Name, indexFile)
		}
	}
	files, err := own.ReadDir("testdata/bodies")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != indexFile && !slices.ContainsFunc(all, func(e Examined) bool { return e.File == f.Name() }) {
			t.Errorf("testdata/bodies/%s is not in %s", f.Name(), indexFile)
		}
	}
	for _, e := range all {
		if e.Wrong != "" {
			t.Errorf("%s: %s", e.File, e.Wrong)
		}
		for _, h := range e.Parsed.Hits {
			if strings.ContainsAny(h.Title+h.Snippet, "<>{}") {
				t.Errorf("%s: markup in %q: %q", e.File, h.Title, h.Snippet)
			}
		}
	}
}

func TestRealBodies(t *testing.T) {
	for _, e := range realBodies(t, load(t)) {
		if e.Wrong != "" {
			t.Errorf("%s: %s", e.File, e.Wrong)
		}
	}
}

func TestPhrasesInTitlesChangeNothing(t *testing.T) {
	s := load(t)
	for _, e := range realBodies(t, s) {
		if e.Count() == 0 {
			continue
		}
		text := string(readShared(t, e.File))
		for _, phrase := range phrases {
			planted := text
			for _, h := range e.Parsed.Hits {
				planted = strings.ReplaceAll(planted, ">"+h.Title+"<", ">"+phrase+"<")
				planted = strings.ReplaceAll(planted, `"`+h.Title+`"`, `"`+phrase+`"`)
			}
			p := s.Find(e.Engine).Parse(Response{Body: []byte(planted)})
			if p.Outcome != OK || len(p.Hits) != e.Count() {
				t.Errorf("%s with %q in its titles: %s (%s) and %d results, want OK and %d", e.File, phrase, p.Outcome, p.Detail, len(p.Hits), e.Count())
			}
		}
	}
}

// TestTreeShowsWhatAStandardOneDoes checks that our tree, which is not made like a
// browser's, gives the same results as a standard tree.
func TestTreeShowsWhatAStandardOneDoes(t *testing.T) {
	s := load(t)
	for _, e := range realBodies(t, s) {
		if e.Count() == 0 || !strings.HasSuffix(e.File, ".html") {
			continue
		}
		top, err := html.Parse(strings.NewReader(string(readShared(t, e.File))))
		if err != nil {
			t.Fatal(err)
		}
		b := newBody(s.Find(e.Engine), Response{Body: readShared(t, e.File)})
		b.page = &page{top: top}
		for _, a := range b.engine.answers {
			if b.read(a); len(b.parsed.Hits) > 0 {
				break
			}
		}
		if diff := cmp.Diff(b.parsed.Hits, e.Parsed.Hits, cmp.AllowUnexported(Hit{})); diff != "" {
			t.Errorf("%s (standard -, ours +):\n%s", e.File, diff)
		}
	}
}

func TestBraveTakesFewAllocations(t *testing.T) {
	s := load(t)
	realBodies(t, s)
	text := readShared(t, "brave.wsm.results.html")
	e := s.Find("brave")
	got := testing.AllocsPerRun(5, func() { e.Parse(Response{Body: text}) })
	if got >= 9000 {
		t.Errorf("a page of %d bytes takes %.0f allocations, want less than 9,000", len(text), got)
	}
	t.Logf("%.0f allocations", got)
}

// TestCutBodies checks that, wherever a body is cut off, the results before that place stay
// the same, and that a cut answer is never an empty one.
func TestCutBodies(t *testing.T) {
	s := load(t)
	all, err := s.ExamineOwn()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Count() == 0 {
			continue
		}
		text, err := own.ReadFile("testdata/bodies/" + e.File)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(text); at += 5 {
			p := s.Find(e.Engine).Parse(Response{Body: text[:at]})
			if p.Outcome == Empty {
				t.Fatalf("%s cut at %d is EMPTY by %s", e.File, at, p.Detail)
			}
			for i, h := range p.Hits {
				if h.URL != e.Parsed.Hits[i].URL || h.Title != e.Parsed.Hits[i].Title {
					t.Fatalf("%s cut at %d: result %d is %q %s, want %q %s", e.File, at, i, h.Title, h.URL, e.Parsed.Hits[i].Title, e.Parsed.Hits[i].URL)
				}
			}
		}
	}
}

func TestStatuses(t *testing.T) {
	s := load(t)
	results, err := own.ReadFile("testdata/bodies/mojeek.results.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		engine string
		status int
		header [2]string
		body   string
		want   Outcome
	}{
		{"mojeek", 200, [2]string{}, string(results), OK},
		{"mojeek", 403, [2]string{}, string(results), BlockedSoft},
		{"duckduckgo", 202, [2]string{}, "<html><body>hm</body></html>", BlockedCaptcha},
		{"duckduckgo", 303, [2]string{"Location", "https://duckduckgo.com/"}, "", BlockedSoft},
		{"startpage", 302, [2]string{"Location", "https://www.startpage.com/sp/captcha?x"}, "", BlockedCaptcha},
		{"wikipedia", 429, [2]string{"Retry-After", "7"}, "Too many", RateLimited},
		{"wikipedia", 503, [2]string{}, "<html><body>upstream</body></html>", HTTPError},
		{"brave", 403, [2]string{"Cf-Mitigated", "challenge"}, "", BlockedCaptcha},
		{"brave", 429, [2]string{}, "", RateLimited},
		{"marginalia", 503, [2]string{}, "", RateLimited},
		{"yahoo", 999, [2]string{}, "", RateLimited},
		{"github", 200, [2]string{}, "", BlockedSoft},
		{"github", 200, [2]string{}, `{"items":[]} trailing`, Drift},
		{"github", 200, [2]string{}, `{"items":{}}`, Drift},
		{"github", 200, [2]string{}, "<html><body><h1>Whoa there!</h1></body></html>", BlockedSoft},
		{"brave", 200, [2]string{}, "\x00\xff\xfe", BlockedSoft},
	} {
		r := Response{Status: c.status, Body: []byte(c.body), Header: map[string][]string{}}
		if c.header[0] != "" {
			r.Header.Set(c.header[0], c.header[1])
		}
		p := s.Find(c.engine).Parse(r)
		if p.Outcome != c.want {
			t.Errorf("%s with status %d: %s (%s), want %s", c.engine, c.status, p.Outcome, p.Detail, c.want)
		}
		if c.header[0] == "Retry-After" && p.RetryAfter.Seconds() != 7 {
			t.Errorf("%s asks to wait %s, want 7s", c.engine, p.RetryAfter)
		}
	}
}

func TestEngineAsksToWait(t *testing.T) {
	p := load(t).Find("stackexchange").Parse(Response{Body: []byte(`{"error_id":502,"error_name":"throttle_violation","error_message":"too many requests from this IP, more requests available in 82216 seconds"}`)})
	if p.Outcome != RateLimited || p.RetryAfter.Seconds() != 82216 {
		t.Errorf("got %s after %s, want RATE_LIMITED after 82216s", p.Outcome, p.RetryAfter)
	}
}

func TestAddresses(t *testing.T) {
	s := load(t)
	for _, c := range []struct{ engine, link, want string }{
		{"bing", "https://www.bing.com/ck/a?!&&p=1&u=a1aHR0cHM6Ly9leGFtcGxlLm9yZy9h&ntb=1", "https://example.org/a"},
		{"bing", "https://www.bing.com/ck/a?u=a1!!!", ""},
		{"bing", "https://www.bing.com/aclick?ld=x", ""},
		{"duckduckgo", "//duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.org%2Fa%3Fb%3D1&rut=x", "https://example.org/a?b=1"},
		{"duckduckgo", "https://duckduckgo.com/y.js?ad_domain=example.org", ""},
		{"duckduckgo", "//duckduckgo.com/l/?uddg=javascript%3Aalert(1)", ""},
		{"yahoo", "https://r.search.yahoo.com/_ylt=A;_ylu=B/RV=2/RE=1/RO=10/RU=https%3a%2f%2fexample.org%2fa/RK=2/RS=x-", "https://example.org/a"},
		{"pkg.go.dev", "/gopkg.in/yaml.v3", "https://pkg.go.dev/gopkg.in/yaml.v3"},
		{"brave", "javascript:alert(1)", ""},
		{"brave", "data:text/html,x", ""},
		{"brave", "ftp://example.org/", ""},
		{"brave", "https://user:secret@example.org/", ""},
		{"brave", "http://intranet/", ""},
		{"brave", "http://printer.local/", ""},
		{"brave", "http://127.0.0.1/", ""},
		{"brave", "http://10.1.2.3/", ""},
		{"brave", "http://[::1]/", ""},
		{"brave", "http://[::ffff:10.0.0.1]/", ""},
		{"brave", "http://[64:ff9b::a00:1]/", ""},
		{"brave", "http://100.64.0.1/", ""},
		{"brave", "http://127.1/", ""},
		{"brave", "http://0x7f.1/", ""},
		{"brave", "http://8.8.8.8/", "http://8.8.8.8/"},
		{"brave", "https://example.org/%e3%81%82 b", "https://example.org/%e3%81%82%20b"},
	} {
		e := s.Find(c.engine)
		got, ok := e.result(c.link, e.base)
		if !ok {
			got = ""
		}
		if got != c.want {
			t.Errorf("%s: %s leads to %q, want %q", c.engine, c.link, got, c.want)
		}
	}
}

func TestCharsets(t *testing.T) {
	for _, c := range []struct{ text, kind, want string }{
		{"caf\xe9 \x93x\x94", "text/html; charset=ISO-8859-1", "café “x”"},
		{"<meta charset=windows-1252>caf\xe9", "", "<meta charset=windows-1252>café"},
		{"\xff\xfeh\x00i\x00", "", "hi"},
		{"\xfe\xff\x00h\x00i", "", "hi"},
		{"\xef\xbb\xbfhi", "", "hi"},
		{"\x93\xfa\x96{\x8c\xea", "text/html; charset=Shift_JIS", "日本語"},
		{`<?xml version="1.0" encoding="EUC-JP"?>` + "\xc6\xfc\xcb\xdc", "", `<?xml version="1.0" encoding="EUC-JP"?>日本`},
		{"\xd1\xe5\xf2\xfc", "text/html; charset=windows-1251", "Сеть"},
		{"caf\xe9", "text/html; charset=utf-8", "caf\uFFFD"},
		{"caf\xe9", "text/html; charset=no-such", "caf\uFFFD"},
		{"caf\xe9", "text/html; charset=iso-2022-kr", "caf\uFFFD"}, // a set that nobody should decode
		{"café", "text/html; charset=iso-8859-1", "café"},          // text that is valid UTF-8 is UTF-8
	} {
		got := decoded([]byte(c.text), map[string][]string{"Content-Type": {c.kind}})
		if got != c.want {
			t.Errorf("%q as %q is %q, want %q", c.text, c.kind, got, c.want)
		}
	}
}

// If the selectors find nothing any more, neither words in titles nor words about missing
// results lead to another outcome than drift.
func TestDriftIsNothingElse(t *testing.T) {
	s := load(t)
	all, err := s.ExamineOwn()
	if err != nil {
		t.Fatal(err)
	}
	gone, err := newPlace("x-gone")
	if err != nil {
		t.Fatal(err)
	}
	drifted := func(e *Engine) *Engine {
		d := *e
		d.answers = nil
		for _, a := range e.answers {
			b := *a
			if b.items != nil {
				b.items = []finder{{place: gone, path: path{{name: "x-gone"}}}}
			}
			d.answers = append(d.answers, &b)
		}
		return &d
	}
	check := func(name, file string, text []byte) {
		p := drifted(s.Find(name)).Parse(Response{Body: text})
		if p.Outcome != Drift {
			t.Errorf("%s with a selector that finds nothing: %s (%s), want DRIFT", file, p.Outcome, p.Detail)
		}
	}
	for _, e := range all {
		if e.Count() == 0 {
			continue
		}
		text, err := own.ReadFile("testdata/bodies/" + e.File)
		if err != nil {
			t.Fatal(err)
		}
		check(e.Engine, e.File, text)
	}
	for _, e := range realBodies(t, s) {
		columns := strings.Contains(e.File, "opensearch")
		trimmed := strings.Contains(e.File, "pkggodev.trimmed") // trimmed to three results
		if e.Count() > 0 && !columns && !trimmed {
			check(e.Engine, e.File, readShared(t, e.File))
		}
	}
}

// BenchmarkParse parses the real pages of results, the largest of 547 KB.
func BenchmarkParse(b *testing.B) {
	s := load(b)
	for _, e := range realBodies(b, s) {
		if e.Count() == 0 || !strings.HasSuffix(e.File, ".html") {
			continue
		}
		text, engine := readShared(b, e.File), s.Find(e.Engine)
		b.Run(e.Engine, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				engine.Parse(Response{Body: text})
			}
		})
	}
}

// A snippet contains no text that the engine's page does not show.
func TestSnippetsAreWhatShows(t *testing.T) {
	const src = `<p>seen <span style="display: NONE">A</span><b hidden>B</b><i style="color:red;visibility:hidden">C</i><span style="display:inline">too</span></p>`
	if got := textOf(grow(src, false).top, 100, nil); got != "seen too" {
		t.Errorf("got %q, want %q", got, "seen too")
	}
}
