package page

import (
	"golang.org/x/net/html"
)

// dropComments removes what readers wrote under a page that marks its content,
// as readability does: the last part of it that is named so, if it is built so,
// and the page has enough to read before it. Where the name stands on the page's
// own matter, as on a forum or under each answer to a question, nothing goes.
// It reports whether anything did.
func dropComments(root *html.Node) bool {
	found := all(root, func(n *html.Node) bool {
		return n != root && is(n, "div", "section", "ol", "ul", "aside", "footer") && wordsOf(n, func(w string) bool { return commentWords.has(w) })
	})
	var parts []*html.Node // they do not hold each other
	for _, n := range found {
		if len(parts) == 0 || !contains(parts[len(parts)-1], n) {
			parts = append(parts, n)
		}
	}
	if len(parts) == 0 || len(parts) > 2 { // what was written, and the box to write in
		return false
	}
	under, rest := 0, 0
	started := false
	walk(root, func(n *html.Node) bool {
		switch {
		case n == parts[0]:
			started = true
			return false
		case n == parts[len(parts)-1]:
			return false
		case n.Type == html.TextNode && started:
			under += letters(n.Data)
		case n.Type == html.TextNode:
			rest += letters(n.Data)
		}
		return true
	})
	if rest < 500 || under > 200 {
		return false
	}
	for _, n := range parts {
		if !isThread(n) {
			return false
		}
	}
	for _, n := range parts {
		remove(n)
	}
	return true
}

// commentWords are parts of the names that blogs give to what is written under
// a post.
var commentWords = set(`comments commentlist respond disqus`)

// isThread reports whether an element is built like what readers write: items of
// one look that each lead somewhere, a box to write in, or nothing to read.
func isThread(n *html.Node) bool {
	if paragraphs(n) == 0 || first(n, func(c *html.Node) bool { return is(c, "textarea") }) != nil {
		return true
	}
	items := make(map[string]int)
	return first(n, func(c *html.Node) bool {
		if !is(c, "li", "article", "div", "section") || first(c, func(a *html.Node) bool { return is(a, "a", "time") }) == nil {
			return false
		}
		items[lookOf(c)]++
		return attr(c, "class") != "" && items[lookOf(c)] == 2
	}) != nil
}
