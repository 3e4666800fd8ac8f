package page

import (
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// promptClasses are classes of the counters that notebooks write next to their cells.
// backClasses are classes of the links from footnotes back to the place where they are
// cited.
var (
	promptClasses = []string{"jp-InputPrompt", "jp-OutputPrompt", "input_prompt", "output_prompt"}
	backClasses   = []string{"mw-cite-backlink", "data-footnote-backref", "footnote-backref", "footnote-back", "reversefootnote"}
)

// copyWords matches the words on buttons over blocks of code.
var copyWords = pattern(`(?i)^(code\W*)?\[?\s*(select all|copy( code| to clipboard)?|copied!?|expand|view raw|show all|wrap)\s*\]?$`)

// dropNoise removes what is to be clicked and not to be read, and puts the name of a quoted
// person on a line of its own. It must run before blocks of code lose their classes.
func dropNoise(root *html.Node) {
	walk(root, func(n *html.Node) bool {
		switch {
		case n.Type != html.ElementNode:
		case hasClass(n, promptClasses...), is(n, "a", "span") && hasClass(n, backClasses...):
			remove(n)
			return false
		case is(n, "a") && strings.HasPrefix(attr(n, "href"), "#") && backSign().MatchString(lineOf(n)):
			remove(n)
			return false
		case is(n, "input") && checkbox(n):
			box(n)
		case is(n, "ol"):
			renumber(n)
		case is(n, "pre"):
			if b := before(n); b != nil && length(b) < 40 && copyWords().MatchString(lineOf(b)) {
				remove(b)
			}
			return false
		case is(n, "cite") && within(n, nil, "blockquote") != nil && strings.HasSuffix(lineOf(n), ":"):
			n.Parent.InsertBefore(element("br"), n.NextSibling)
		}
		return true
	})
}

// backSign matches the text of a link from a footnote back to the place where it is cited.
var backSign = pattern(`^[\s\x{fe0e}\x{fe0f}]*[↩↑⤴⏎↵][\s\x{fe0e}\x{fe0f}]*$`)

// boxAttr marks the box of a task; its value is what markdown writes for the box. In the
// text, the box is a sign, because readability removes every control.
const boxAttr = "belljar-box"

func box(input *html.Node) {
	sign, mark := "☐", "[ ]"
	if hasAttr(input, "checked") {
		sign, mark = "☑", "[x]"
	}
	n := element("span", textNode(sign))
	setAttr(n, boxAttr, mark)
	replace(input, n)
}

// renumber starts a new list at each item whose number is not one more than the number
// before, since markdown only counts up by one.
func renumber(ol *html.Node) {
	items := all(ol, func(n *html.Node) bool { return is(n, "li") && n.Parent == ol })
	if len(items) > 1000 || ol.Parent == nil {
		return
	}
	at, step := 1, 1
	if hasAttr(ol, "reversed") {
		at, step = len(items), -1
	}
	if n, err := strconv.Atoi(attr(ol, "start")); err == nil {
		at = n
	}
	list := ol // list that contains the item before
	for i, li := range items {
		value, err := strconv.Atoi(attr(li, "value"))
		leaps := err == nil && value != at
		if leaps {
			at = value
		}
		if i > 0 && (leaps || step < 0) {
			next := element("ol")
			list.Parent.InsertBefore(next, list.NextSibling)
			list = next
		}
		if list != ol {
			remove(li)
			list.AppendChild(li)
		}
		if at != 1 && (i == 0 || leaps || step < 0) {
			setAttr(list, "start", strconv.Itoa(at))
		}
		at += step
	}
}

// isPanel reports whether an element is one of the panels of a row of tabs, which are shown
// one at a time: a reader who clicks sees all of them. There must be a tab for each panel.
// A panel with code may have a class instead of a role.
func isPanel(n *html.Node, hidden func(*html.Node) bool) bool {
	if attr(n, "role") != "tabpanel" && attr(n, "class") == "" {
		return false
	}
	code := first(n, func(c *html.Node) bool { return is(c, "pre") }) != nil
	if named := code && hasClass(n, "tab-panel", "tab-pane", "tabpanel", "tabcontent", "tabbed-block"); !named && attr(n, "role") != "tabpanel" {
		return false
	}
	p := n.Parent
	for range 3 {
		if p == nil || is(p, "body", "main", "article") || !isSmall(p) {
			return false
		}
		tabs := len(all(p, func(c *html.Node) bool {
			return attr(c, "role") == "tab" && length(c) > 0 && !contains(n, c) && !hidden(c)
		}))
		if code && tabs > 0 || tabs > 1 && tabs >= len(all(p, func(c *html.Node) bool { return attr(c, "role") == "tabpanel" })) {
			return true
		}
		p = p.Parent
	}
	return false
}

// isEcho reports whether an element is a heading for screen readers whose words also stand
// next to it for everybody, for example the name of a release.
func isEcho(n *html.Node, hidden func(*html.Node) bool) bool {
	if !isHeading(n) || n.Parent == nil {
		return false
	}
	text := lineOf(n)
	if text == "" || len(text) > 100 {
		return false
	}
	var b strings.Builder
	walk(n.Parent, func(c *html.Node) bool {
		switch {
		case c.Type == html.TextNode:
			b.WriteString(c.Data)
		case c != n.Parent && c.Type == html.ElementNode && hidden(c):
			return false
		}
		return b.Len() < 10_000
	})
	return strings.Contains(oneLine(b.String()), text)
}

// memoParts splits the text of a memo: an RFC is served as one pre for each page of paper,
// with its headings marked in it. Headings become headings, and the lines at the top and
// the foot of the pages are removed. It reports whether pre was a memo, and not a block of
// code.
func memoParts(pre *html.Node) bool {
	isHead := func(n *html.Node) bool {
		return is(n, "span") && len(attr(n, "class")) == 2 && isHeadingName(attr(n, "class"))
	}
	if pre.Parent == nil || !hasClass(pre, "newpage") && first(pre, isHead) == nil {
		return false
	}
	var part *html.Node
	flush := func() {
		if part == nil {
			return
		}
		if text := strings.Trim(footLine().ReplaceAllString(rawTextOf(part), ""), "\n"); strings.TrimSpace(text) != "" {
			pre.Parent.InsertBefore(element("pre", textNode(strings.TrimRight(text, " \n"))), pre)
		}
		part = nil
	}
	for c := pre.FirstChild; c != nil; c = pre.FirstChild {
		pre.RemoveChild(c)
		switch {
		case isHead(c):
			flush()
			h := element(attr(c, "class"), textNode(lineOf(c)))
			if a := first(c, func(n *html.Node) bool { return attr(n, "id") != "" }); a != nil {
				setAttr(h, "id", attr(a, "id"))
			}
			pre.Parent.InsertBefore(h, pre)
		case is(c, "span") && hasClass(c, "grey"): // the line at the top of a page of paper
		default:
			if part == nil {
				part = element("div")
			}
			part.AppendChild(c)
		}
	}
	flush()
	remove(pre)
	return true
}

// footLine matches the line at the foot of a page of a memo.
var footLine = pattern(`(?m)^\S.*\[Page \d+\][ \t]*$`)
