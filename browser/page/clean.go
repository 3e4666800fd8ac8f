package page

import (
	"strings"

	"golang.org/x/net/html"
)

// never contains the elements that have nothing to read, or nothing without a script.
var never = set(`script style template link meta base noscript object embed applet canvas map area dialog frameset frame noembed noframes plaintext
	select datalist option optgroup input textarea progress meter`)

// flatten moves the parts of a page that are written elsewhere to the place where they
// show: shadow roots with their slots filled, and frames whose document is in srcdoc, which
// is also how a browser delivers the frames that it could read.
func flatten(t *tree, parseFrame func(src string) *html.Node) {
	frames := 0
	walk(t.doc, func(n *html.Node) bool {
		switch {
		case is(n, "template") && (hasAttr(n, "shadowrootmode") || hasAttr(n, "shadowroot")):
			if n.Parent != nil {
				shadow(n)
			}
			return false
		case is(n, "iframe") && hasAttr(n, "srcdoc") && frames < 100:
			frames++
			if body := parseFrame(attr(n, "srcdoc")); body != nil {
				replace(n, body)
			}
			return false
		}
		return true
	})
}

// shadow replaces the children of a host with the content of its shadow root. The children
// go into the slots of that content.
func shadow(root *html.Node) {
	host := root.Parent
	host.RemoveChild(root)
	light := make(map[string][]*html.Node)
	for c := host.FirstChild; c != nil; c = host.FirstChild {
		host.RemoveChild(c)
		name := ""
		if c.Type == html.ElementNode {
			name = attr(c, "slot")
		}
		light[name] = append(light[name], c)
	}
	for c := root.FirstChild; c != nil; c = root.FirstChild {
		root.RemoveChild(c)
		host.AppendChild(c)
	}
	for _, slot := range named(host, "slot") {
		name := attr(slot, "name")
		if given := light[name]; len(given) > 0 {
			empty(slot)
			for _, c := range given {
				slot.AppendChild(c)
			}
			delete(light, name)
		}
		unwrap(slot)
	}
}

// sweep removes everything that is never read. Images and frames stay for media.
func sweep(root *html.Node) {
	walk(root, func(n *html.Node) bool {
		switch {
		case n.Type == html.CommentNode || n.Type == html.DoctypeNode:
			remove(n)
		case n.Type != html.ElementNode:
		case is(n, "head"):
			remove(n)
			return false
		case is(n, "script") && strings.HasPrefix(attr(n, "type"), "math/"):
		case never.has(n.Data), is(n, "svg"), is(n, "button") && !holdsText(n):
			remove(n)
			return false
		}
		return true
	})
}

// checkbox reports whether an input is the box of a task in a list.
func checkbox(n *html.Node) bool {
	return strings.EqualFold(attr(n, "type"), "checkbox") && within(n, nil, "li") != nil
}

// holdsText reports whether a button contains something to read, for example the heading of
// a section that folds.
func holdsText(n *html.Node) bool {
	return within(n, nil, "h1", "h2", "h3", "h4", "h5", "h6", "summary", "dt") != nil || first(n, isHeading) != nil
}
