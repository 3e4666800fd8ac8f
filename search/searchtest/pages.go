package searchtest

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strings"
)

// Result is one entry of a made-up page.
type Result struct{ Title, URL, Snippet string }

// Page is the answer of an engine in its format.
type Page struct {
	Type string // Content-Type
	Body []byte
}

// Engine is a mock: the hosts under which it answers, and how it writes a page of results.
type Engine struct {
	Name  string
	Hosts []string
	Write func(all []Result) Page
	// Block returns the page for a client that the engine takes for a program. It is nil if
	// the engine has no such page and answers with a status.
	Block func() Page
	// Size is the approximate size of a real page of the engine, in bytes.
	Size int
}

// Defaults returns the eleven engines that a query asks first.
func Defaults() []Engine {
	return []Engine{
		{Name: "duckduckgo", Hosts: []string{"html.duckduckgo.com"}, Write: duckduckgo, Block: duckduckgoBlock, Size: 25_000},
		{Name: "brave", Hosts: []string{"search.brave.com"}, Write: brave, Block: braveBlock, Size: 540_000},
		{Name: "mojeek", Hosts: []string{"www.mojeek.com"}, Write: mojeek, Size: 39_000},
		{Name: "bing", Hosts: []string{"www.bing.com"}, Write: bing, Block: bingBlock, Size: 115_000},
		{Name: "startpage", Hosts: []string{"www.startpage.com"}, Write: startpage, Block: startpageBlock, Size: 380_000},
		{Name: "keenable", Hosts: []string{"api.keenable.ai"}, Write: keenable, Size: 4_000},
		{Name: "wikipedia", Hosts: []string{"en.wikipedia.org"}, Write: wikipedia, Size: 5_000},
		{Name: "stackexchange", Hosts: []string{"api.stackexchange.com"}, Write: stackexchange, Size: 9_000},
		{Name: "github", Hosts: []string{"api.github.com"}, Write: github, Size: 50_000},
		{Name: "hackernews", Hosts: []string{"hn.algolia.com"}, Write: hackernews, Size: 9_000},
		{Name: "arxiv", Hosts: []string{"export.arxiv.org"}, Write: arxiv, Size: 20_000},
	}
}

// Made returns n made-up results of an engine. Every third page is one that other engines
// have too, so that there is something to merge.
func Made(engine string, n int) []Result {
	all := make([]Result, n)
	for i := range all {
		path := fmt.Sprintf("%s/%d", engine, i)
		if i%3 == 0 {
			path = fmt.Sprintf("shared/%d", i)
		}
		all[i] = Result{
			Title:   fmt.Sprintf("Page %s of the made-up web", path),
			URL:     fmt.Sprintf("https://site%d.example.org/%s?x=1", i, path),
			Snippet: fmt.Sprintf("What page %s says about the thing, in <some> words & signs.", path),
		}
	}
	return all
}

const htmlType = "text/html; charset=utf-8"

// page returns an HTML page with as much script and style around its content as real pages
// have.
func page(title, content string, size int) Page {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + html.EscapeString(title) + "</title><style>\n")
	for i := 0; b.Len() < size/4; i++ {
		fmt.Fprintf(&b, ".svelte-%x{display:flex;margin:%dpx 0;color:#%06x}\n", i*7919, i%40, i*997%0xffffff)
	}
	b.WriteString("</style></head><body><main>\n" + content + "\n</main><script>var data=[")
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "{\"id\":%d,\"t\":\"<div class=result><a href=https://no.example/%d>no<\\/a><\\/div>\"},", i, i)
	}
	b.WriteString("0]</script></body></html>")
	return Page{htmlType, []byte(b.String())}
}

// entries writes each result with a template: %[1]s is the escaped title, %[2]s the address
// and %[3]s the snippet.
func entries(all []Result, template string) string {
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, template, html.EscapeString(r.Title), html.EscapeString(r.URL), html.EscapeString(r.Snippet))
	}
	return b.String()
}

func duckduckgo(all []Result) Page {
	return page("things at DuckDuckGo", `<div class="serp__results"><div id="links" class="results">`+entries(all, `
<div class="result results_links results_links_deep web-result "><div class="links_main links_deep result__body">
<h2 class="result__title"><a rel="nofollow" class="result__a" href="%[2]s">%[1]s</a></h2>
<div class="result__extras"><div class="result__extras__url"><a class="result__url" href="%[2]s">%[2]s</a></div></div>
<a class="result__snippet" href="%[2]s">%[3]s</a><div class="clear"></div></div></div>`)+`</div></div>`, 25_000)
}

func duckduckgoBlock() Page {
	return page("DuckDuckGo", `<form id="challenge-form" action="//duckduckgo.com/anomaly.js" method="POST"><div class="anomaly-modal__mask"><div class="anomaly-modal__modal">
<div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div></div></div></form>`, 14_000)
}

func brave(all []Result) Page {
	return page("things - Brave Search", `<div id="results">`+entries(all, `
<div class="snippet svelte-jmfu5f" data-pos="0" data-type="web" data-keynav="true"><div class="result-wrapper svelte-1rq4ngz"><div class="result-content svelte-1rq4ngz">
<a href="%[2]s" target="_self" class="svelte-14r20fy l1"><div class="site-name-wrapper svelte-on1hvy"><div class="favicon-wrapper"><img alt="" class="favicon" src="https://imgs.search.brave.com/x"/></div>
<div class="site-name-content"><cite class="snippet-url desktop-small-regular t-tertiary">%[2]s</cite></div></div>
<div class="title search-snippet-title line-clamp-1 svelte-14r20fy" title="%[1]s">%[1]s</div></a>
<div class="generic-snippet svelte-1cwdgg3"><div class="content desktop-default-regular t-primary line-clamp-dynamic svelte-1cwdgg3">%[3]s</div></div></div></div></div>`)+`</div>`, 540_000)
}

func braveBlock() Page {
	return page("PoW Captcha - Brave Search", `<div class="captcha"><h1>Confirm you are a human being</h1><button>I am not a robot</button></div>`, 20_000)
}

func mojeek(all []Result) Page {
	return page("things - Mojeek Search", `<div class="results"><ul class="results-standard">`+entries(all, `
<li class="r1"><a title="%[2]s" href="%[2]s" class="ob"><p class="i"><span class="url">%[2]s</span></p></a>
<h2><a class="title" title="%[2]s" href="%[2]s">%[1]s</a></h2><p class="s">%[3]s</p><p class="more"><a href="/search?q=site">See more results</a></p></li>`)+`</ul></div>`, 39_000)
}

// bing answers as RSS, which the engine offers in addition to its pages.
func bing(all []Result) Page {
	return Page{"text/xml; charset=utf-8", []byte(`<?xml version="1.0" encoding="utf-8" ?><rss version="2.0"><channel><title>Bing: things</title>
<link>http://www.bing.com:80/search?q=things</link><description>Search results</description>
<image><url>http://www.bing.com:80/s/a/rsslogo.gif</url><title>things</title><link>http://www.bing.com:80/search?q=things</link></image><copyright>(c)</copyright>` +
		entries(all, `<item><title>%[1]s</title><link>%[2]s</link><description>%[3]s</description><pubDate>Sun, 05 Oct 2025 12:00:00 GMT</pubDate></item>`) + `</channel></rss>`)}
}

func bingBlock() Page {
	return page("things - Search", `<ol id="b_results"></ol><div class="captcha"><div class="captcha_header">One last step</div>
<div class="captcha_text">Please solve the challenge below to continue</div><div class="checkbox"><div id="turnstile-widget"></div></div></div>`, 115_000)
}

func startpage(all []Result) Page {
	// The first page has the token that a search needs. One page serves for both requests.
	form := `<form id="search" action="/sp/search" method="post"><input type="hidden" name="sc" value="made-up-token"><input name="query"></form>`
	return page("Startpage Search Results", form+`<div class="w-gl css-1og29rd">`+entries(all, `
<div class="result css-o7i03b"><div class="upper"><a href="%[2]s" rel="noopener nofollow" class="favicon-link"><div class="favicon"><style>.css-1{height:16px}</style></div></a></div>
<a class="result-title result-link css-i3irj7" href="%[2]s" data-testid="gl-title-link"><style data-emotion="css i3irj7">.css-i3irj7{line-height:18px;}</style><h2 class="wgl-title css-i3irj7">%[1]s</h2></a>
<p class="description css-1507v2l">%[3]s</p></div>`)+`</div>`, 380_000)
}

func startpageBlock() Page {
	return page("Startpage Captcha", `<div><h1>Please verify</h1><p>To prevent possible abuse of our service, we ask you to solve this.</p></div>`, 12_000)
}

// object returns a page of JSON.
func object(v any) Page {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen: the maps and texts are made in this file
	}
	return Page{"application/json; charset=utf-8", text}
}

// each returns one JSON value for each result.
func each(all []Result, one func(i int, r Result) map[string]any) []map[string]any {
	out := make([]map[string]any, 0, len(all))
	for i, r := range all {
		out = append(out, one(i, r))
	}
	return out
}

func keenable(all []Result) Page {
	return object(map[string]any{"results": each(all, func(_ int, r Result) map[string]any {
		return map[string]any{"url": r.URL, "title": r.Title, "description": r.Snippet, "published_at": "2026-05-04T10:00:00Z"}
	})})
}

func wikipedia(all []Result) Page {
	return object(map[string]any{"batchcomplete": "", "query": map[string]any{
		"searchinfo": map[string]any{"totalhits": len(all)},
		"search": each(all, func(i int, r Result) map[string]any {
			return map[string]any{"ns": 0, "title": r.Title, "pageid": i, "snippet": html.EscapeString(r.Snippet), "timestamp": "2026-01-02T03:04:05Z"}
		}),
	}})
}

func stackexchange(all []Result) Page {
	return object(map[string]any{"items": each(all, func(i int, r Result) map[string]any {
		return map[string]any{
			"tags": []string{"go"}, "is_answered": true, "score": i, "answer_count": 1, "creation_date": 1437907882,
			"question_id": i, "link": r.URL, "title": html.EscapeString(r.Title),
		}
	}), "has_more": true, "quota_max": 300, "quota_remaining": 250})
}

func github(all []Result) Page {
	return object(map[string]any{"total_count": len(all), "incomplete_results": false, "items": each(all, func(i int, r Result) map[string]any {
		return map[string]any{
			"id": i, "full_name": r.Title, "html_url": r.URL, "description": r.Snippet, "language": "Go", "stargazers_count": i,
			"updated_at": "2026-02-03T04:05:06Z", "owner": map[string]any{"login": "somebody", "html_url": "https://github.com/somebody"},
			"topics": strings.Split(strings.Repeat("topic ", 40), " "),
		}
	})})
}

func hackernews(all []Result) Page {
	return object(map[string]any{"hits": each(all, func(i int, r Result) map[string]any {
		return map[string]any{
			"objectID": fmt.Sprint(48463808 + i), "title": r.Title, "url": r.URL, "author": "somebody", "points": 10, "num_comments": 3,
			"created_at": "2026-03-04T05:06:07Z", "created_at_i": 1772600767,
		}
	}), "nbHits": len(all), "page": 0})
}

func arxiv(all []Result) Page {
	return Page{"application/atom+xml; charset=utf-8", []byte(`<?xml version='1.0' encoding='UTF-8'?>
<feed xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/" xmlns:arxiv="http://arxiv.org/schemas/atom" xmlns="http://www.w3.org/2005/Atom">
<id>https://arxiv.org/api/x</id><title>arXiv Query</title><updated>2026-03-26T07:27:39Z</updated><opensearch:totalResults>3</opensearch:totalResults>` +
		entries(all, `<entry><id>%[2]s</id><title>%[1]s</title><updated>2020-01-29T20:27:42Z</updated><link href="%[2]s" rel="alternate" type="text/html"/>
<summary>%[3]s</summary><published>2020-01-29T20:27:42Z</published></entry>`) + `</feed>`)}
}

// write answers with a page.
func (p Page) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", p.Type)
	_, _ = w.Write(p.Body) // an error means that the client has left
}
