package page

import (
	"golang.org/x/net/html"
)

// dropComments removes the comments of readers from a page that marks its content.
// Readability does the same for an article. It removes one or two parts whose names are
// those of comments (the comments, and the form to write one) if each is built like
// comments, at least 500 letters of text are before the first part, and at most 200 letters
// follow it outside of the parts. If an element with such a name contains the page's own
// text, for example in a forum or under each answer to a question, nothing is removed. It
// reports whether anything was removed.
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
	before, after := 0, 0 // letters outside of the parts, before and after the beginning of the first one
	started := false
	walk(root, func(n *html.Node) bool {
		switch {
		case n == parts[0]:
			started = true
			return false
		case n == parts[len(parts)-1]:
			return false
		case n.Type == html.TextNode && started:
			after += letters(n.Data)
		case n.Type == html.TextNode:
			before += letters(n.Data)
		}
		return true
	})
	if before < 500 || after > 200 {
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

// isThread reports whether an element is built like the comments of readers. That is so if
// it has a field to write in, if it has no paragraph to read, or if at least two items in it
// look alike (see lookOf) and each of them has a link or a time.
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
