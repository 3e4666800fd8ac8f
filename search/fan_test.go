package search_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"belljar.dev/search"
	"belljar.dev/search/engine"
	"belljar.dev/search/searchtest"
)

func TestAllEnginesAnswer(t *testing.T) {
	r := newRig(t, nil)
	report := r.search(search.Query{Text: "made-up things", MaxResults: 50})
	for _, e := range r.mocks {
		a := of(t, report, e.Name)
		if a.Outcome != engine.OK || a.Results != 10 {
			t.Errorf("%s: got %v, %d results (%s)", e.Name, a.Outcome, a.Results, a.Detail)
		}
		if n := r.server.Asked(e); n == 0 || n > 2 {
			t.Errorf("%s was asked %d times", e.Name, n)
		}
	}
	if report.Partial || len(report.Engines) != 11 {
		t.Errorf("got partial %v, %d engines", report.Partial, len(report.Engines))
	}
	if got := report.Status(); got != "11/11 engines answered" {
		t.Errorf("got %q", got)
	}
	first := report.Results[0]
	if len(first.Engines) < 5 || !strings.Contains(first.Title, "shared/0") {
		t.Errorf("first: got %+v, want the page that many have", first)
	}
	if s := r.server.Strange(); len(s) != 0 {
		t.Errorf("hosts that are no engine's: %q", s)
	}
	t.Log("\n" + report.Text())
}

func TestOutcomes(t *testing.T) {
	r := newRig(t, nil)
	r.fan.SetPatience(500 * time.Millisecond)
	r.has("duckduckgo", searchtest.Blocked(r.mock("duckduckgo")))
	r.has("bing", searchtest.Blocked(r.mock("bing")))
	r.has("mojeek", searchtest.Refuse(429, 540))
	r.has("keenable", searchtest.Hang)
	r.has("wikipedia", searchtest.Refuse(500, 0))
	r.has("github", searchtest.Circle)
	r.has("hackernews", searchtest.Away("https://elsewhere.example/"))
	r.has("stackexchange", searchtest.Good(searchtest.Page{Type: "application/json", Body: []byte(`{"items":[],"has_more":false,"quota_max":300,"quota_remaining":200}`)}))
	r.has("arxiv", searchtest.Huge(50<<20))
	r.has("brave", searchtest.Bomb())
	report := r.search(search.Query{Text: "things", Timeout: 2 * time.Second})
	for name, want := range map[string][]engine.Outcome{
		"duckduckgo": {engine.BlockedCaptcha, engine.BlockedSoft}, "bing": {engine.BlockedCaptcha},
		"mojeek": {engine.RateLimited}, "keenable": {engine.Timeout}, "wikipedia": {engine.HTTPError},
		"github": {engine.HTTPError, engine.Drift}, "hackernews": {engine.HTTPError, engine.Drift, engine.BlockedSoft}, "stackexchange": {engine.Empty},
		"arxiv": {engine.Drift, engine.HTTPError, engine.Timeout}, "brave": {engine.Drift, engine.HTTPError, engine.Timeout}, "startpage": {engine.OK},
	} {
		a := of(t, report, name)
		ok := false
		for _, w := range want {
			ok = ok || a.Outcome == w
		}
		if !ok {
			t.Errorf("%s: got %v (%s), want one of %v", name, a.Outcome, a.Detail, want)
		}
	}
	if !report.Partial || len(report.Results) == 0 {
		t.Errorf("got partial %v, %d results", report.Partial, len(report.Results))
	}
	if a := of(t, report, "mojeek"); a.RetryAfter < 9*time.Minute || a.RetryAfter > 11*time.Minute {
		t.Errorf("mojeek: got retry in %v, want its own 9 minutes", a.RetryAfter)
	}
	for _, h := range r.server.Strange() {
		t.Errorf("asked for %s, which is no engine", h)
	}
	if got := report.Status(); !strings.HasPrefix(got, "2/11 engines answered; ") || !strings.Contains(got, "mojeek rate limited, retry in ") {
		t.Errorf("status: got %q", got)
	}
	t.Log(report.Status())
	// The next query does not ask the engines that failed.
	r.fan.ForgetAnswers()
	asked := r.server.Asked(r.mock("bing"))
	report = r.search(search.Query{Text: "other things"})
	if a := of(t, report, "bing"); a.Outcome != engine.SkippedOpen || a.RetryAfter < time.Minute || r.server.Asked(r.mock("bing")) != asked {
		t.Errorf("bing: got %+v", a)
	}
	if got := report.Status(); !strings.Contains(got, "bing blocked, retry in ") {
		t.Errorf("status: got %q", got)
	}
}

// TestHangIsNotWaitedFor checks that an engine that hangs costs one query its time, and the
// next query none.
func TestHangIsNotWaitedFor(t *testing.T) {
	r := newRig(t, nil)
	r.has("mojeek", searchtest.Hang)
	r.fan.SetPatience(300 * time.Millisecond)
	first := r.search(search.Query{Text: "one"})
	if a := of(t, first, "mojeek"); a.Outcome != engine.Timeout && !a.Pending {
		t.Errorf("first: got %+v", a)
	}
	eventually(t, "the first query's end", func() bool { return r.fan.Underway() == 0 })
	second := r.search(search.Query{Text: "two"})
	if a := of(t, second, "mojeek"); a.Outcome != engine.SkippedOpen {
		t.Errorf("second: got %+v", a)
	}
	if !strings.Contains(second.Status(), "mojeek timed out, retry in ") {
		t.Errorf("status: got %q", second.Status())
	}
}

func TestNothingIsNotNoResults(t *testing.T) {
	r := newRig(t, nil)
	for _, e := range r.mocks {
		r.server.Set(e, searchtest.Blocked(e))
	}
	_, err := r.fan.Search(t.Context(), r.grant("local"), search.Query{Text: "an unusual thing"})
	none, ok := errors.AsType[*search.UnavailableError](err)
	if !ok {
		t.Fatalf("got %v, want an UnavailableError", err)
	}
	if got := none.Error(); none.RetryAfter <= 0 || !strings.Contains(got, "does not show that nothing exists") || !strings.Contains(got, "bing blocked, retry in ") || strings.Contains(got, "unusual") {
		t.Errorf("got %q, retry in %v", got, none.RetryAfter)
	}
}

// TestStaleRatherThanNothing checks that an older report is returned, with its age, if no engine
// answers.
func TestStaleRatherThanNothing(t *testing.T) {
	r := newRig(t, nil)
	q := search.Query{Text: "things"}
	r.search(q)
	if again := r.search(q); !again.Cached || again.Stale {
		t.Errorf("again: got cached %v", again.Cached)
	}
	for _, e := range r.mocks {
		r.server.Set(e, searchtest.Blocked(e))
	}
	r.fan.Age(time.Hour)
	stale := r.search(q)
	if !stale.Stale || stale.Cached || len(stale.Results) != 10 || stale.Age < time.Hour || !strings.Contains(stale.Status(), "these results are 60 min old") {
		t.Errorf("got stale %v, %d results, %q", stale.Stale, len(stale.Results), stale.Status())
	}
	r.fan.Age(24 * time.Hour)
	if _, err := r.fan.Search(t.Context(), r.grant("local"), q); err == nil {
		t.Error("results of yesterday were given out")
	}
}

func TestEmptyIsEmpty(t *testing.T) {
	r := newRig(t, nil)
	r.has("keenable", searchtest.Good(searchtest.Page{Type: "application/json", Body: []byte(`{"results":[]}`)}))
	report := r.search(search.Query{Text: "gobbilygook", Engines: []string{"keenable"}})
	if len(report.Results) != 0 || report.Partial || of(t, report, "keenable").Outcome != engine.Empty {
		t.Errorf("got %+v", report)
	}
	if got := report.Text(); !strings.Contains(got, "the engines themselves report that they found nothing") {
		t.Errorf("got %q", got)
	}
}

func TestPolicyDecidesWhoIsAsked(t *testing.T) {
	r := newRig(t, nil)
	r.policy = searchPolicy(t, browsing, r.mock("github"), r.mock("arxiv"))
	report := r.search(search.Query{Text: "things"})
	if of(t, report, "github").Outcome != engine.OK || of(t, report, "brave").Outcome != engine.DisabledByPolicy {
		t.Errorf("got %+v", report.Engines)
	}
	if got := report.Status(); !strings.HasPrefix(got, "2/2 engines answered; ") || !strings.Contains(got, "brave") || !strings.Contains(got, "not allowed by the policy") {
		t.Errorf("got %q", got)
	}
	if n := r.server.Asked(r.mock("brave")); n != 0 {
		t.Errorf("brave was asked %d times", n)
	}
	r.policy = searchPolicy(t, browsing, searchtest.Engine{Hosts: []string{"example.com"}})
	_, err := r.fan.Search(t.Context(), r.grant("local"), search.Query{Text: "things"})
	if _, ok := errors.AsType[*search.NotAllowedError](err); !ok {
		t.Errorf("got %v, want a NotAllowedError", err)
	}
}

func TestArguments(t *testing.T) {
	r := newRig(t, nil)
	for want, q := range map[string]search.Query{
		"query: ":                                     {},
		"query: it is empty":                          {Text: " \u200B\n"},
		"query: it has 3000 bytes":                    {Text: strings.Repeat("x", 3000)},
		"max_results: got 51, want 1 to 50":           {Text: "x", MaxResults: 51},
		"page: got 11, want 1 to 10":                  {Text: "x", Page: 11},
		"timeout_ms: got 20000, want 100 to 10000":    {Text: "x", Timeout: 20 * time.Second},
		`category: got "images", want one of`:         {Text: "x", Category: "images"},
		`safesearch: got "none"`:                      {Text: "x", SafeSearch: "none"},
		`time_range: got "decade"`:                    {Text: "x", TimeRange: "decade"},
		`language: got "english"`:                     {Text: "x", Language: "english"},
		`region: got "USA"`:                           {Text: "x", Region: "USA"},
		`engines: no such engine "gogle"; known are `: {Text: "x", Engines: []string{"gogle"}},
		"engines: brave-api needs a key":              {Text: "x", Engines: []string{"brave-api"}},
		"allowed_domains: number 2 is not a domain":   {Text: "x", AllowedDomains: []string{"go.dev", "https://x.example/"}},
	} {
		_, err := r.fan.Search(t.Context(), r.grant("local"), q)
		if bad, ok := errors.AsType[*search.QueryError](err); !ok || !strings.HasPrefix(bad.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
