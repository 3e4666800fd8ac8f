package page

import (
	"golang.org/x/net/html"
)

// dropComments removes what readers wrote under a page that marks its content, as
// readability does. It removes the last part that is named as comments, if the part is
// built like comments and the page has enough to read before it. If the name is on the
// page's own text, for example in a forum or under each answer to a question, nothing is
// removed. It reports whether anything was removed.
func dropComments(root *html.Node) bool {
	found := all(root, func(n *html.Node) bool {
		return n != root && is(n, "div", "section", "ol", "ul", "aside", "footer") && wordsOf(n, func(w string) bool { return commentWords.has(w) })
	})
	var parts []*html.Node // none of them contains another
	for _, n := range found {
		if len(parts) == 0 || !contains(parts[len(parts)-1], n) {
			parts = append(parts, n)
		}
	}
	if len(parts) == 0 || len(parts) > 2 { // there may be two: the comments, and the form to write one
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

// commentWords are parts of the names that blogs give to the comments under a post.
var commentWords = set(`comments commentlist respond disqus`)

// isThread reports whether an element is built like the comments of readers: it has items
// of one look that each have a link or a time, or a field to write in, or nothing to read.
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
