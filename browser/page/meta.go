package page

import (
	"strings"

	"golang.org/x/net/html"
)

// about is what the head of a document says about the document.
type about struct {
	title, language, published string
	article                    bool // whether it calls itself an article
}

// aboutOf reads title, language and date, each from the place that is most
// often right.
func aboutOf(t *tree) about {
	metas := make(map[string]string)
	var title, heading, when string
	article := false
	walk(t.doc, func(n *html.Node) bool {
		switch {
		case is(n, "meta"):
			key := strings.ToLower(firstFilled(attr(n, "property"), attr(n, "name"), attr(n, "itemprop"), attr(n, "http-equiv")))
			if v := oneLine(attr(n, "content")); key != "" && v != "" && metas[key] == "" && len(metas) < 500 {
				metas[key] = v
			}
		case is(n, "svg"):
			return false
		case is(n, "title") && title == "":
			title = lineOf(n)
		case is(n, "h1") && heading == "":
			heading = lineOf(n)
		case is(n, "time") && when == "" && (hasAttr(n, "pubdate") || attr(n, "itemprop") == "datePublished" || within(n, nil, "article", "header") != nil):
			when = attr(n, "datetime")
		case is(n, "script") && attr(n, "type") == "application/ld+json":
			text := rawTextOf(n)
			article = article || strings.Contains(text, `Article"`) || strings.Contains(text, `BlogPosting"`)
			if m := published().FindStringSubmatch(text); m != nil && when == "" {
				when = m[1]
			}
		}
		return true
	})
	a := about{
		title:     shorten(firstFilled(title, metas["og:title"], metas["twitter:title"], metas["dc.title"], heading), 300),
		language:  firstFilled(attr(t.root, "lang"), attr(t.root, "xml:lang"), metas["content-language"], strings.ReplaceAll(metas["og:locale"], "_", "-")),
		published: firstFilled(metas["article:published_time"], metas["og:published_time"], metas["datepublished"], metas["date"], metas["dc.date"], metas["dc.date.issued"], metas["dcterms.created"], metas["citation_publication_date"], metas["citation_date"], metas["publish-date"], metas["pubdate"], when),
	}
	a.article = article || metas["og:type"] == "article" || metas["article:published_time"] != ""
	// A longer title in og:title that contains the title is more complete.
	if og := metas["og:title"]; og != "" && len(og) > len(a.title) && strings.Contains(og, a.title) {
		a.title = shorten(og, 300)
	}
	if !languageTag().MatchString(a.language) {
		a.language = ""
	}
	if a.published = shorten(a.published, 40); !startsAsDate().MatchString(a.published) {
		a.published = ""
	}
	return a
}

var (
	published    = pattern(`"datePublished"\s*:\s*"([^"]{8,40})"`)
	languageTag  = pattern(`^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8}){0,4}$`)
	startsAsDate = pattern(`^\d{4}|^\w{3,9}[ ,.]|^\d{1,2}[ ./-]`)
)

func firstFilled(values ...string) string {
	for _, v := range values {
		if v = strings.TrimSpace(v); v != "" {
			return v
		}
	}
	return ""
}

// shorten cuts a string to n characters.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:byteAt(s, n)]
}

// appRoots are the ids of the elements in which frameworks draw their pages. settle.js of
// package browser has the same list.
var appRoots = set("root app __next __nuxt ___gatsby svelte main-app app-root react-root mount")

// needsScript returns the reason why a page looks as if a script had to make it, or "".
func needsScript(t *tree) string {
	const little, long = 200, 4000 // characters
	size := length(t.body)
	scripts, reason := false, ""
	walk(t.doc, func(n *html.Node) bool {
		switch {
		case is(n, "script"):
			scripts = scripts || !strings.Contains(attr(n, "type"), "json")
		case reason != "" || size >= long:
		case is(n, "noscript"):
			text := strings.ToLower(lineOf(n))
			if (strings.Contains(text, "javascript") || strings.Contains(text, "java script")) && first(n, func(n *html.Node) bool { return is(n, "iframe") }) == nil {
				reason = "it asks for JavaScript"
			}
			return false
		case is(n, "div", "main", "section", "my-app") && appRoots.has(attr(n, "id")) && length(n) < 40:
			reason = "the element #" + attr(n, "id") + " has next to no text"
		case is(n, "app-root") && length(n) < 40:
			reason = "the element app-root has next to no text"
		}
		return true
	})
	switch {
	case !scripts:
		return ""
	case reason == "" && size < little:
		return "it has little text, and it has scripts"
	}
	return reason
}
