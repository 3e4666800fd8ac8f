package page

import (
	"strings"

	"golang.org/x/net/html"
)

// unseen reports whether a character shows nothing and changes how other characters are
// read: marks that override the direction, and the tags and joiners in which text can be
// hidden from people. Joiners that scripts and emoji need are not among them.
func unseen(r rune) bool {
	switch {
	case r == '\u200b' || r == '\u2060' || r == '\ufeff' || r == '\u00ad' || r == '\u180e':
		return true
	case r >= '\u202a' && r <= '\u202e', r >= '\u2061' && r <= '\u206f':
		return true
	case r >= 0xe0000 && r <= 0xe0fff, r >= 0xfff9 && r <= 0xfffb:
		return true
	case r < ' ' && r != '\n' && r != '\t' && r != '\r', r == 0x7f, r >= 0x80 && r < 0xa0:
		return true
	case r == '\uf002' || r == '\ue0f3' || r == '\ue0f4': // marks for a line end of code and brackets in markdownOf
		return true
	}
	return false
}

// visible returns s without characters that do not show, and how many characters of hidden
// text were in it. A space that does not show is not counted, a tag is.
func visible(s string) (string, int) {
	clean := true
	for i := range len(s) {
		if c := s[i]; c >= 0x80 || c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return s, 0
	}
	hidden := 0
	out := strings.Map(func(r rune) rune {
		if !unseen(r) {
			return r
		}
		if r >= 0xe0020 && r <= 0xe007e || r >= 0xe0100 && r <= 0xe01ef {
			hidden++
		}
		return -1
	}, s)
	return out, hidden
}

// dropSigns removes unseen characters from texts and from attributes that become text.
func dropSigns(doc *html.Node) int {
	hidden := 0
	walk(doc, func(n *html.Node) bool {
		if n.Type == html.TextNode {
			s, h := visible(n.Data)
			n.Data, hidden = s, hidden+h
		}
		for i := range n.Attr {
			switch a := &n.Attr[i]; a.Key {
			case "alt", "title", "aria-label", "href", "src":
				a.Val, _ = visible(a.Val)
			}
		}
		return true
	})
	return hidden
}

// Bounds of the nesting of quotes and lists: each level writes its mark before every line
// again.
const (
	maxQuotes = 12
	maxLists  = 20
)

// shallow removes the levels above the bounds; their content stays.
func shallow(root *html.Node) {
	var visit func(n *html.Node, quotes, lists int)
	visit = func(n *html.Node, quotes, lists int) {
		for c := n.FirstChild; c != nil; {
			next := c.NextSibling
			q, l := quotes, lists
			switch {
			case is(c, "blockquote"):
				q++
			case is(c, "ul", "ol", "dl"):
				l++
			}
			visit(c, q, l)
			if q > maxQuotes && is(c, "blockquote") || l > maxLists && is(c, "ul", "ol", "dl", "li", "dd") {
				c.Data, c.DataAtom = "div", atomOf("div")
			}
			c = next
		}
	}
	visit(root, 0, 0)
}

// plain keeps only the attributes that a reader of HTML needs.
func plain(root *html.Node) {
	keep := set("href src alt title id class lang dir colspan rowspan start checked type datetime scope headers cite name value reversed")
	walk(root, func(n *html.Node) bool {
		attrs := n.Attr[:0]
		for _, a := range n.Attr {
			if keep.has(a.Key) && (a.Key != "class" || is(n, "pre", "code")) {
				attrs = append(attrs, a)
			}
		}
		n.Attr = attrs
		return true
	})
}
