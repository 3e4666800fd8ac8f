package page

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// attr returns the value of an attribute, or "" if n does not have it.
func attr(n *html.Node, key string) string {
	for i := range n.Attr {
		if n.Attr[i].Key == key {
			return n.Attr[i].Val
		}
	}
	return ""
}

func hasAttr(n *html.Node, key string) bool {
	for i := range n.Attr {
		if n.Attr[i].Key == key {
			return true
		}
	}
	return false
}

func setAttr(n *html.Node, key, val string) {
	for i := range n.Attr {
		if n.Attr[i].Key == key {
			n.Attr[i].Val = val
			return
		}
	}
	n.Attr = append(n.Attr, html.Attribute{Key: key, Val: val})
}

// is reports whether n is an element with one of these names.
func is(n *html.Node, names ...string) bool {
	if n == nil || n.Type != html.ElementNode {
		return false
	}
	return slices.Contains(names, n.Data)
}

// hasClass reports whether n has one of these classes.
func hasClass(n *html.Node, names ...string) bool {
	for word := range strings.FieldsSeq(attr(n, "class")) {
		if slices.Contains(names, word) {
			return true
		}
	}
	return false
}

func remove(n *html.Node) {
	if n.Parent != nil {
		n.Parent.RemoveChild(n)
	}
}

// unwrap replaces n with its children.
func unwrap(n *html.Node) {
	if n.Parent == nil {
		return
	}
	for c := n.FirstChild; c != nil; c = n.FirstChild {
		n.RemoveChild(c)
		n.Parent.InsertBefore(c, n)
	}
	n.Parent.RemoveChild(n)
}

// replace puts another node in the place of n.
func replace(n, other *html.Node) {
	if n.Parent == nil {
		return
	}
	n.Parent.InsertBefore(other, n)
	n.Parent.RemoveChild(n)
}

// empty removes the children of n.
func empty(n *html.Node) {
	for n.FirstChild != nil {
		n.RemoveChild(n.FirstChild)
	}
}

func element(name string, children ...*html.Node) *html.Node {
	n := &html.Node{Type: html.ElementNode, Data: name, DataAtom: atomOf(name)}
	for _, c := range children {
		n.AppendChild(c)
	}
	return n
}

func textNode(s string) *html.Node { return &html.Node{Type: html.TextNode, Data: s} }

// walk calls visit for root and all nodes under it, in the order of the document. It goes
// into a node only if visit returns true for it. visit may remove or replace its node, but
// no node outside of it.
func walk(root *html.Node, visit func(*html.Node) bool) {
	if !visit(root) {
		return
	}
	for c := root.FirstChild; c != nil; {
		next := c.NextSibling
		walk(c, visit)
		c = next
	}
}

// all returns the elements under root that match, without root.
func all(root *html.Node, match func(*html.Node) bool) []*html.Node {
	var found []*html.Node
	walk(root, func(n *html.Node) bool {
		if n != root && n.Type == html.ElementNode && match(n) {
			found = append(found, n)
		}
		return true
	})
	return found
}

// named returns the elements under root with one of these names.
func named(root *html.Node, names ...string) []*html.Node {
	return all(root, func(n *html.Node) bool { return is(n, names...) })
}

// first returns the first element under root that matches, or nil.
func first(root *html.Node, match func(*html.Node) bool) *html.Node {
	for c := root.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode && match(c) {
			return c
		}
		if found := first(c, match); found != nil {
			return found
		}
	}
	return nil
}

// within returns the nearest ancestor of n, below top, that has one of these names.
func within(n, top *html.Node, names ...string) *html.Node {
	for p := n.Parent; p != nil && p != top; p = p.Parent {
		if is(p, names...) {
			return p
		}
	}
	return nil
}

// contains reports whether n is top or under it.
func contains(top, n *html.Node) bool {
	for ; n != nil; n = n.Parent {
		if n == top {
			return true
		}
	}
	return false
}

// rawTextOf returns all text under n, unchanged.
func rawTextOf(n *html.Node) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	var b strings.Builder
	walk(n, func(n *html.Node) bool {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		return true
	})
	return b.String()
}

// lineOf returns the text under n on one line.
func lineOf(n *html.Node) string { return oneLine(rawTextOf(n)) }

// oneLine replaces every run of white space with one space.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// length counts the letters of text under n, without white space and without elements that
// never show.
func length(n *html.Node) int {
	total := 0
	walk(n, func(n *html.Node) bool {
		if n.Type == html.TextNode {
			total += letters(n.Data)
		}
		return !is(n, "script", "style", "template", "noscript")
	})
	return total
}

// maxPart is the largest number of nodes of a part of a page that is looked at as a whole
// for each of its lines. With more nodes, that would take too long.
const maxPart = 2000

// isSmall reports whether there are at most maxPart nodes under n.
func isSmall(n *html.Node) bool {
	left := maxPart
	var count func(*html.Node) bool
	count = func(n *html.Node) bool {
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if left--; left < 0 || !count(c) {
				return false
			}
		}
		return true
	}
	return count(n)
}

// letters measures how much a text says: the number of its characters without white space.
// Characters of East Asia count twice, since each of them says more.
func letters(s string) int {
	total := 0
	for _, r := range s {
		switch {
		case r >= 0x2e80 && r < 0x1f000:
			total += 2
		case !unicode.IsSpace(r):
			total++
		}
	}
	return total
}

// clone returns a copy of n and everything under it.
func clone(n *html.Node) *html.Node {
	c := &html.Node{Type: n.Type, DataAtom: n.DataAtom, Data: n.Data, Namespace: n.Namespace}
	c.Attr = append([]html.Attribute(nil), n.Attr...)
	for k := n.FirstChild; k != nil; k = k.NextSibling {
		c.AppendChild(clone(k))
	}
	return c
}

func atomOf(name string) atom.Atom { return atom.Lookup([]byte(name)) }
