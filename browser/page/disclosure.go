package page

import (
	"strings"

	"golang.org/x/net/html"
)

// disclosures turns buttons that open the part under them into text (a FAQ has one for each
// question), and returns the parts that buttons and tabs open. A reader who clicks sees
// these parts, so they are not hidden text, just as the content of a details element is
// not. hidden reports whether an element itself is not visible.
func disclosures(root *html.Node, hidden func(*html.Node) bool) map[*html.Node]bool {
	opened := make(map[*html.Node]bool)
	for _, n := range all(root, func(n *html.Node) bool { return isPanel(n, hidden) }) {
		opened[n] = true
	}
	for _, b := range named(root, "button") {
		if b.Parent == nil || length(b) == 0 || hidden(b) || hasAttr(b, "aria-haspopup") || within(b, nil, "nav", "footer", "form") != nil {
			continue
		}
		panel := panelOf(b)
		if panel != nil {
			opened[panel] = true
		}
		if h := within(b, nil, "h1", "h2", "h3", "h4", "h5", "h6", "summary", "dt"); h != nil {
			if isSmall(h) && length(b) == length(h) {
				unwrap(b)
			}
			continue
		}
		if panel == nil {
			continue
		}
		if first(b, isHeading) != nil {
			unwrap(b)
			continue
		}
		b.Data, b.DataAtom, b.Attr = "strong", atomOf("strong"), nil
		p := element("p")
		replace(b, p)
		p.AppendChild(b)
	}
	return opened
}

// panelOf returns the part right after a button that the button opens, or nil: the part
// that the button says it controls, or the next part if the button only says that it can
// expand.
func panelOf(b *html.Node) *html.Node {
	id := firstFilled(attr(b, "aria-controls"), strings.TrimPrefix(firstFilled(attr(b, "data-bs-target"), attr(b, "data-target")), "#"))
	if id == "" && !hasAttr(b, "aria-expanded") {
		return nil
	}
	n := b
	for up := 0; n != nil && up < 3; n, up = n.Parent, up+1 {
		panel := after(n)
		if panel == nil {
			continue
		}
		controlled := panel
		if id != "" && attr(panel, "id") != id && isSmall(panel) {
			controlled = first(panel, func(c *html.Node) bool { return attr(c, "id") == id })
		}
		if controlled == nil || !isSmall(controlled) {
			return nil
		}
		switch attr(controlled, "role") {
		case "dialog", "alertdialog", "menu", "listbox", "tooltip", "navigation":
			return nil
		}
		if total, linked := measure(controlled); total == 0 || linked*2 >= total || is(controlled, "button", "nav", "form", "dialog") {
			return nil
		}
		return controlled
	}
	return nil
}
