package page

import (
	"math"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// measure counts the letters under n, and those of them in links.
func measure(n *html.Node) (total, linked int) {
	walk(n, func(c *html.Node) bool {
		switch {
		case c.Type == html.TextNode:
			total += letters(c.Data)
		case is(c, "script", "style", "noscript", "template"):
			return false
		case is(c, "a") && c != n:
			k := length(c)
			total, linked = total+k, linked+k
			return false
		}
		return true
	})
	return total, linked
}

// paragraphs counts the letters under n that are in blocks of a sentence or
// more, outside of links.
func paragraphs(n *html.Node) int {
	total := 0
	var visit func(n *html.Node) (own, linked int)
	visit = func(n *html.Node) (own, linked int) {
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			switch {
			case c.Type == html.TextNode:
				own += letters(c.Data)
			case c.Type != html.ElementNode || is(c, "script", "style", "noscript", "template", "svg"):
			case is(c, "a"):
				k := length(c)
				own, linked = own+k, linked+k
			case blocks.has(c.Data):
				visit(c)
			default:
				o, l := visit(c)
				own, linked = own+o, linked+l
			}
		}
		if blocks.has(n.Data) || n.Type == html.DocumentNode {
			if own-linked >= 60 {
				total += own - linked
			}
			return 0, 0
		}
		return own, linked
	}
	visit(n)
	return total
}

// numberAttr numbers the elements of a page, so that those which readability
// took can be found among those which it left.
const numberAttr = "belljar-number"

// numberOf is the number of an element or the nearest around it, or one beyond all.
func numberOf(n *html.Node) int {
	for ; n != nil; n = n.Parent {
		if i, err := strconv.Atoi(attr(n, numberAttr)); err == nil {
			return i
		}
	}
	return math.MaxInt
}

// maskPrefix is before the names of an element that readability shall not see: it
// has a list of names of its own, and removes headings for the slugs in their ids.
const maskPrefix = "belljar-was-"

func mask(n *html.Node) {
	for i := range n.Attr {
		if a := &n.Attr[i]; a.Key == "class" || a.Key == "id" {
			a.Key = maskPrefix + a.Key
		}
	}
}

func unmask(root *html.Node) {
	walk(root, func(n *html.Node) bool {
		for i := range n.Attr {
			n.Attr[i].Key = strings.TrimPrefix(n.Attr[i].Key, maskPrefix)
		}
		return true
	})
}
