package engine

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/strictyaml"
)

func TestBundledEnginesAreComplete(t *testing.T) {
	s := load(t)
	keys := Keys{"searxng-url": "https://searx.example.org/"}
	uses := make(map[Use]int)
	for _, e := range s.All() {
		uses[e.Use]++
		if e.Use == UseOff {
			continue
		}
		keys[e.NeedsKey] = "k"
		for page := 1; page <= max(e.query.pages, 1); page++ {
			x, err := e.Exchange(Query{Text: "words & more", Page: page, Language: "de", Region: "AT", SafeSearch: "strict", TimeRange: "month"}, keys)
			if err != nil {
				t.Errorf("%s: %v", e.Name, err)
				continue
			}
			req, more := x.Next()
			u, err := url.Parse(req.URL)
			if err != nil || !more || !e.Allows(u.Hostname(), keys) || req.Header.Get("User-Agent") == "" {
				t.Errorf("%s asks %q (%v)", e.Name, req.URL, err)
			}
			if strings.Contains(req.URL+string(req.Body), "{") && e.steps[0].json == nil {
				t.Errorf("%s leaves a variable in %s %s", e.Name, req.URL, req.Body)
			}
		}
	}
	if uses[UseReserve] < uses[UseDefault] {
		t.Errorf("%d engines are asked; %d stand in for them, want as many at least", uses[UseDefault], uses[UseReserve])
	}
	for page, sentence := range map[string]string{
		"../../docs/search.md":  "belljar asks %d engines at the same time",
		"../../docs/compare.md": "belljar's WebSearch asks %d engines and reports",
	} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(sentence, uses[UseDefault]); !strings.Contains(string(text), want) {
			t.Errorf("%d engines have use: default; write in %s: %q", uses[UseDefault], page, want)
		}
	}
}

// TestBundledEnginesSayWhatTheyAre checks that each bundled file contains the keys about,
// family, role, use and verified, and for an engine that is asked also order and rate, even
// if a value is the default. Without this test, an engine without "use" would be off, and no
// test would ask for its recorded answers.
func TestBundledEnginesSayWhatTheyAre(t *testing.T) {
	for _, e := range load(t).All() {
		text, err := bundled.ReadFile("engines/" + filepath.Base(e.Source))
		if err != nil {
			t.Fatal(err)
		}
		keys := []string{"about", "family", "role", "use", "verified"}
		if e.Use != UseOff {
			keys = append(keys, "order", "rate")
		}
		for _, key := range keys {
			if !strings.Contains("\n"+string(text), "\n"+key+": ") {
				t.Errorf("%s: write the key %s, even if its value is the default", e.Source, key)
			}
		}
	}
}

// TestDriftIsMendedByOneLine checks that, if the page of an engine has changed, one changed
// line of the engine's file repairs the engine without a restart of belljar.
func TestDriftIsMendedByOneLine(t *testing.T) {
	text, err := bundled.ReadFile("engines/brave.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	right := ""
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "items:") {
			right = line
			line = "    items: ['div.gone']\n"
		}
		lines = append(lines, line)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "brave.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	broken := strings.Join(lines, "")
	write(broken)
	s, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	page, err := own.ReadFile("testdata/bodies/brave.results.html")
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Find("brave").Parse(Response{Body: page}); p.Outcome != Drift {
		t.Errorf("with a selector that finds nothing: %s (%s), want DRIFT", p.Outcome, p.Detail)
	}
	if _, changed, err := s.Reload(); changed || err != nil {
		t.Errorf("nothing was edited, and reload says %t, %v", changed, err)
	}
	write("name: brave\nanswers: [")
	if next, changed, err := s.Reload(); next != s || changed || err == nil {
		t.Errorf("a broken file was loaded: %t, %v", changed, err)
	}
	write(strings.Replace(broken, "    items: ['div.gone']\n", right, 1))
	next, changed, err := s.Reload()
	if !changed || err != nil {
		t.Fatalf("the file was mended, and reload says %t, %v", changed, err)
	}
	if p := next.Find("brave").Parse(Response{Body: page}); p.Outcome != OK || len(p.Hits) != 5 {
		t.Errorf("after the edit: %s (%s) and %d results, want OK and 5", p.Outcome, p.Detail, len(p.Hits))
	}
	if p := s.Find("brave").Parse(Response{Body: page}); p.Outcome != Drift {
		t.Error("engines that were loaded have changed")
	}
}

func TestFaultsSayWhere(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "1:1: the file is empty"},
		{"nam: x\n", `1:1: an engine has no key "nam"`},
		{"name: X\n", `1:7: "X" cannot be the name of an engine`},
		{"name: x\nname: y\n", `2:1: the key "name" stands here a second time`},
		{"name: x\nrole: boss\n", `2:7: role cannot be "boss"`},
		{"name: x\nhosts: ['http://a']\n", `2:9: hosts: "http://a" is not a host`},
		{"name: x\nrate: {every: fast}\n", `2:15: every must be a time from 1ms to 24h0m0s`},
		{"name: x\nweight: heavy\n", "2:9: weight must be a number above 0"},
		{"name: x\nhosts: [a.example]\nrequests:\n  - url: https://b.example/\n", "4:10: the host b.example is not one of the engine's"},
		{"name: x\nhosts: [a.example]\nrequests:\n  - url: http://a.example/\n", "4:10: url must be an https address"},
		{"name: x\nhosts: [a.example]\nrequests:\n  - url: https://a.example/\n    params: {q: '{quary}'}\n", "5:17: params: the variable {quary} is not known"},
		{"name: x\nhosts: [a.example]\nrequests:\n  - url: https://a.example/\n    headers: {'X Y': z}\n", `5:15: "X Y" cannot be the name of a header`},
		{"name: x\nanswers:\n  - title: a\n", "3:5: the answer has no format"},
		{"name: x\nanswers:\n  - format: html\n    items: ['div[']\n", "4:13: items: read the selector div["},
		{"name: x\nanswers:\n  - format: html\n    empty: ['p :: (']\n", "4:13: empty: read the pattern"},
		{"name: x\nanswers:\n  - format: json\n    items: ['a[x]']\n", `4:13: items: read the path "a[x]"`},
		{"name: x\nanswers:\n  - format: html\n    items: [p]\n", "3:5: an answer with items needs title and url"},
		{"name: x\nunwrap:\n  - {host: a.example}\n", "3:5: an entry of unwrap has host or path, and either param or between"},
		{"name: x\nstatus: {999: angry}\n", `2:15: a status cannot be "angry"`},
		{"name: x\nabout: &a b\nfamily: *a\n", "2:8: anchors, aliases and tags are not allowed in an engine"},
		{"name: x\n---\nname: y\n", "2:1: a second document starts here"},
		{"  name: x\nfamily: y\n", "2:1: not YAML: did not find expected <document start>"},
		{"  name: x\n  hosts: [a.example]\n  about: a\nfamily: y\nweight: 1\n", "4:1: not YAML: did not find expected <document start>"},
		{"name: x\nhosts:\n  - a.example\n  - b.example\n  about: a\nweight: 1\n", "5:1: not YAML: did not find expected '-' indicator"},
		{"name: [\n", "not YAML"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.yaml"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(dir)
		var faults *FileError
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got\n%v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestTwoEnginesOfOneName(t *testing.T) {
	dir := t.TempDir()
	text := "name: other\naliases: [brave]\nhosts: [a.example]\nanswers: [{format: json}]\n"
	if err := os.WriteFile(filepath.Join(dir, "other.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "the name brave is that of an engine in engines/brave.yaml") {
		t.Errorf("got %v", err)
	}
}

// ask starts an exchange and returns its first request.
func ask(t *testing.T, e *Engine, q Query, keys Keys) (*Exchange, Request) {
	t.Helper()
	x, err := e.Exchange(q, keys)
	if err != nil {
		t.Fatal(err)
	}
	req, more := x.Next()
	if !more {
		t.Fatalf("%s has no request", e.Name)
	}
	return x, req
}

func TestStartpageTakesATokenFirst(t *testing.T) {
	e := load(t).Find("startpage")
	x, req := ask(t, e, Query{Text: "words"}, nil)
	if req.Method != "GET" || req.URL != "https://www.startpage.com/" {
		t.Errorf("the first request is %s %s", req.Method, req.URL)
	}
	x.Answer(Response{Status: 200, Body: []byte(`<form id="search"><input name="sc" value="tok+en"></form>`)})
	req, more := x.Next()
	if !more || req.Method != "POST" || !strings.Contains(string(req.Body), "query=words&") || !strings.Contains(string(req.Body), "sc=tok%2Ben") {
		t.Errorf("the second request is %s %s %s", req.Method, req.URL, req.Body)
	}
	x.Answer(Response{Status: 200, Body: []byte(`<div class=result><a class=result-title href="https://a.example/">A</a></div>`)})
	if _, more = x.Next(); more || x.Parsed().Outcome != OK {
		t.Errorf("it ends with %+v", x.Parsed())
	}

	x, _ = ask(t, e, Query{Text: "words"}, nil)
	x.Answer(Response{Status: 200, Body: []byte(`<html><body>nothing</body></html>`)})
	if _, more := x.Next(); more || !x.Parsed().Outcome.Blocked() {
		t.Errorf("without a token it ends with %+v", x.Parsed())
	}
}

func TestBingAsksForItsPageWhereTheFeedProvesNothing(t *testing.T) {
	e := load(t).Find("bing")
	feed := `<?xml version="1.0"?><rss version="2.0"><channel><title>Bing: words</title></channel></rss>`
	x, req := ask(t, e, Query{Text: "words", Language: "en", Region: "US"}, nil)
	if !strings.Contains(req.URL, "format=rss") || !strings.Contains(req.URL, "mkt=en-US") || strings.Contains(req.URL, "first=") {
		t.Errorf("the first request is %s", req.URL)
	}
	x.Answer(Response{Status: 200, Body: []byte(feed)})
	req, more := x.Next()
	if !more || strings.Contains(req.URL, "format=rss") {
		t.Fatalf("an empty feed was believed: %t %s", more, req.URL)
	}
	x.Answer(Response{Status: 200, Body: []byte(`<ol id=b_results><li class=b_no>nothing</li></ol>`)})
	if p := x.Parsed(); p.Outcome != Empty {
		t.Errorf("it ends with %+v", p)
	}
}

func TestDuckDuckGoPages(t *testing.T) {
	e := load(t).Find("duckduckgo")
	_, req := ask(t, e, Query{Text: `!w some \words`, Region: "us", Language: "en", TimeRange: "week"}, nil)
	if got, want := string(req.Body), "q=%22%21w%22+some+%22%5Cwords%22&b=&kl=us-en&df=w&kp=-1"; got != want {
		t.Errorf("the first page is asked by %s, want %s", got, want)
	}
	x, req := ask(t, e, Query{Text: "words", Page: 2}, nil)
	if strings.Contains(string(req.Body), "vqd") {
		t.Errorf("the token is sent before it is known: %s", req.Body)
	}
	x.Answer(Response{Status: 200, Body: []byte(`<form><input type=hidden name=vqd value=4-123></form>`)})
	req, _ = x.Next()
	if body := string(req.Body); !strings.Contains(body, "s=10&") || !strings.Contains(body, "dc=11&") || !strings.Contains(body, "vqd=4-123") {
		t.Errorf("the second page is asked by %s", req.Body)
	}
}

func TestRequestsHoldTheirKeys(t *testing.T) {
	s := load(t)
	if _, err := s.Find("tavily").Exchange(Query{Text: "words"}, nil); !errors.Is(err, ErrKey) {
		t.Errorf("without a key: %v", err)
	}
	_, req := ask(t, s.Find("tavily"), Query{Text: "words", MaxResults: 7}, Keys{"tavily": "k\r\ney"})
	if got, want := req.Header.Get("Authorization"), "Bearer key"; got != want {
		t.Errorf("the key is sent as %q, want %q", got, want)
	}
	if got, want := string(req.Body), `{"max_results":7,"query":"words","search_depth":"basic"}`; got != want {
		t.Errorf("it is asked by %s, want %s", got, want)
	}
	_, req = ask(t, s.Find("github"), Query{Text: "words"}, nil)
	if _, there := req.Header["Authorization"]; there {
		t.Error("github is asked with a token that nobody gave")
	}
	x, req := ask(t, s.Find("searxng"), Query{Text: "words"}, Keys{"searxng-url": "http://10.0.0.7:8080/searx/"})
	if !strings.HasPrefix(req.URL, "http://10.0.0.7:8080/searx/search?q=words&format=json") || !x.engine.Allows("10.0.0.7", Keys{"searxng-url": "http://10.0.0.7:8080/"}) {
		t.Errorf("searxng is asked at %s", req.URL)
	}
	for _, bad := range []string{"file:///etc/passwd", "https://user:pass@a.example/", "nonsense"} {
		if _, err := s.Find("searxng").Exchange(Query{Text: "words"}, Keys{"searxng-url": bad}); !errors.Is(err, ErrKey) {
			t.Errorf("searxng at %s: %v", bad, err)
		}
	}
}

func TestQueriesAreCutForTheEngine(t *testing.T) {
	s := load(t)
	long := strings.Repeat("word ", 400)
	_, req := ask(t, s.Find("brave"), Query{Text: long}, nil)
	u, err := url.Parse(req.URL)
	if err != nil {
		t.Fatal(err)
	}
	if words := strings.Fields(u.Query().Get("q")); len(words) != 50 {
		t.Errorf("brave is asked for %d words, want 50", len(words))
	}
	if _, err := s.Find("keenable").Exchange(Query{Text: "words", Page: 2}, nil); !errors.Is(err, ErrPage) {
		t.Errorf("page 2 of an engine with one: %v", err)
	}
	_, req = ask(t, s.Find("wikipedia"), Query{Text: "words", Language: "../evil"}, nil)
	if !strings.HasPrefix(req.URL, "https://en.wikipedia.org/w/api.php?") {
		t.Errorf("a language leads to %s", req.URL)
	}
}

func TestAllowsOwnHostsOnly(t *testing.T) {
	s := load(t)
	for host, want := range map[string]bool{
		"en.wikipedia.org": true, "de.wikipedia.org": true, "EN.wikipedia.org.": true,
		"wikipedia.org": false, "wikipedia.org.evil.example": false, "evilwikipedia.org": false,
	} {
		if got := s.Find("wikipedia").Allows(host, nil); got != want {
			t.Errorf("wikipedia allows %s: %t", host, got)
		}
	}
}

func TestFaultCount(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.yaml"), []byte(strings.Repeat("a: 1\n", 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(dir)
	var faults *FileError
	if !errors.As(err, &faults) || len(faults.Faults) != strictyaml.MaxFaults || faults.More == 0 || faults.Faults[0] == (strictyaml.Fault{}) {
		t.Errorf("got %v", err)
	}
}
