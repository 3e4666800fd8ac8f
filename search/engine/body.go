package engine

import (
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// body is one answer and the state of reading it.
type body struct {
	engine *Engine
	resp   Response
	text   string
	format format
	base   *url.URL
	page   *page // tree of HTML or XML, once it was read
	value  any   // value of JSON, once it was read
	broken error // error of reading the value

	items  int // number of items that were found, also those that are no results
	parsed Parsed
}

// maxHits bounds the results that are taken from one answer.
const maxHits = 50

func newBody(e *Engine, r Response) *body {
	b := &body{engine: e, resp: r, text: decoded(r.Body, r.Header), base: e.base}
	b.format = sniff(b.text)
	if u, err := url.Parse(r.FinalURL); err == nil && u.IsAbs() && u.Host != "" {
		b.base = u
	}
	return b
}

var feedStart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)<(rss|feed|rdf:rdf|opensearchdescription)[\s>]`) })

// sniff returns the format of a body, judged by its beginning: headers are often wrong.
func sniff(text string) format {
	start := strings.TrimLeft(text[:min(len(text), 4<<10)], " \t\r\n\uFEFF")
	switch {
	case start == "":
		return formatHTML
	case start[0] == '{' || start[0] == '[':
		return formatJSON
	case strings.HasPrefix(start, "<") && feedStart().MatchString(start) && !strings.Contains(strings.ToLower(start), "<html"):
		return formatXML
	}
	return formatHTML
}

// fine reports whether the status is that of an answer.
func (b *body) fine() bool { return b.resp.Status == 0 || b.resp.Status >= 200 && b.resp.Status < 300 }

// suits reports whether a may describe the body.
func (b *body) suits(a *answer) bool {
	if a.after != "" {
		return b.format == formatHTML && strings.Contains(b.text, a.after)
	}
	return a.format == b.format
}

// hit adds a result if it is valid.
func (b *body) hit(title, link, snippet, date string) {
	b.items++
	if title == "" || link == "" || len(b.parsed.Hits) >= maxHits {
		return
	}
	address, ok := b.engine.result(link, b.base)
	if !ok {
		return
	}
	published := parseDate(date)
	if published.IsZero() {
		published, snippet = leadingDate(snippet)
	}
	b.parsed.Hits = append(b.parsed.Hits, Hit{
		Title: title, URL: address, Snippet: snippet, Rank: len(b.parsed.Hits) + 1, Published: published, href: asWritten(link, address),
	})
}

// asWritten returns the address of a result as the answer writes it, unwrapped but not made
// absolute.
func asWritten(link, address string) string {
	if strings.HasPrefix(link, "/") && !strings.HasPrefix(link, "//") && strings.HasSuffix(address, link) {
		return link
	}
	return address
}
