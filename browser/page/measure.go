package page

import (
	"math"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// measure counts the letters under n, and how many of them are in links.
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

// paragraphs counts the letters under n that are outside of links and in blocks of at least
// a sentence.
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

// numberAttr is the attribute with the number of an element. By this number, the elements
// that readability has kept are found among those that it has left out.
const numberAttr = "belljar-number"

// numberOf returns the number of an element or of the nearest numbered element around it,
// or else the largest int.
func numberOf(n *html.Node) int {
	for ; n != nil; n = n.Parent {
		if i, err := strconv.Atoi(attr(n, numberAttr)); err == nil {
			return i
		}
	}
	return math.MaxInt
}

// maskPrefix is put before the names of an element that readability must not see: it has a
// list of names of its own, and removes headings because of the words in their ids.
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
