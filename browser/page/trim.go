package page

import (
	"net/url"
	"path"
	"strings"

	"golang.org/x/net/html"
)

// line is a block of text that contains no other block, with what distinguishes furniture
// from paragraphs.
type line struct {
	n      *html.Node
	text   string
	size   int // letters
	linked int // letters in links
	inner  int // letters in links to the same site
	list   bool
	quote  bool
	head   bool
	keep   bool // whether it is code, a table or the like, which is never removed
}

// solid reports whether a line is certainly a paragraph of the article.
func (l *line) solid() bool {
	return l.keep || l.size >= 80 && l.linked*2 < l.size || l.size >= 40 && l.linked*3 < l.size && ends(l.text)
}

// linesOf returns the lines under root, in order.
func linesOf(root *html.Node, base *url.URL) []*line {
	var lines []*line
	var visit func(n *html.Node, list, quote bool)
	visit = func(n *html.Node, list, quote bool) {
		if n.Type != html.ElementNode {
			return
		}
		if is(n, "pre", "table", "math") {
			if !is(n, "table") || len(named(n, "p", "div", "ul")) < 3 {
				lines = append(lines, &line{n: n, text: lineOf(n), size: length(n), keep: true})
				return
			}
		}
		list = list || is(n, "li", "dd", "dt")
		quote = quote || is(n, "blockquote")
		if first(n, func(c *html.Node) bool { return blocks.has(c.Data) }) != nil {
			for c := n.FirstChild; c != nil; c = c.NextSibling {
				if c.Type == html.TextNode && letters(c.Data) > 0 || c.Type == html.ElementNode && !blocks.has(c.Data) && c.FirstChild != nil && first(c, func(k *html.Node) bool { return blocks.has(k.Data) }) == nil {
					// Text next to blocks is a line of its own that cannot be removed
					// alone.
					lines = append(lines, &line{n: c, text: lineOf(c), size: length(c), list: list, quote: quote, keep: c.Type == html.TextNode && letters(c.Data) > 60})
					if l := lines[len(lines)-1]; is(c, "a") {
						l.linked = l.size
					}
					continue
				}
				visit(c, list, quote)
			}
			return
		}
		l := &line{n: n, text: lineOf(n), list: list, quote: quote, head: isHeading(n)}
		l.size, l.linked = measure(n)
		if l.size == 0 {
			return
		}
		for _, a := range named(n, "a") {
			if sameSite(attr(a, "href"), base) {
				l.inner += length(a)
			}
		}
		lines = append(lines, l)
	}
	visit(root, false, false)
	return lines
}

// sameSite reports whether a link leads to the site of the page.
func sameSite(href string, base *url.URL) bool {
	u, err := url.Parse(strings.TrimSpace(href))
	if err != nil {
		return false
	}
	if u.Host == "" {
		return u.Path != "" || u.Fragment == ""
	}
	return base != nil && siteOf(u.Hostname()) == siteOf(base.Hostname())
}

// siteOf returns the last two names of a host, or the last three if the second last is
// short, as in example.co.uk.
func siteOf(host string) string {
	parts := strings.Split(strings.ToLower(host), ".")
	n := 2
	if k := len(parts); k > 2 && len(parts[k-2]) <= 3 && len(parts[k-1]) == 2 {
		n = 3
	}
	return strings.Join(parts[max(0, len(parts)-n):], ".")
}

// trim removes lines that are not part of the text. The words of a line alone are never
// enough: a line is removed because of its words together with its place, the text next to
// it or the target of its link. top is the number of the page's heading.
func trim(root *html.Node, base *url.URL, top int) {
	lines := linesOf(root, base)
	begin, end := 0, len(lines)-1
	for begin < len(lines) && !lines[begin].solid() {
		begin++
	}
	for end >= 0 && !lines[end].solid() {
		end--
	}
	if begin > end {
		return
	}
	solid := 0
	for _, l := range lines {
		if l.solid() {
			solid++
		}
	}
	later := make(map[string]bool) // looks of the elements between the first paragraph and the last
	for _, l := range lines[begin : end+1] {
		later[lookOf(l.n)] = true
	}
	list := false // whether the line before announces links to other pages
	for i, l := range lines {
		switch {
		case l.keep, l.solid() && !l.list:
			list = false
		case !l.list:
			list = l.size < 40 && pointsOn().MatchString(l.text)
		case list && l.inner*10 >= l.size*6:
			drop(l)
			continue
		}
		if l.keep {
			continue
		}
		heads := i < end && introduces(l, lines[i+1])
		switch {
		case i < begin && (aboutPage(l) || solid >= 5 && leading(l, top) && !later[lookOf(l.n)]):
			drop(l)
		case i > end && (aboutPage(l) || trailing(l)):
			drop(l)
		case i*10 >= len(lines)*7 && !heads && l.size < 200 && (made(l) || alone(l, 1) || (l.head || l.linked > 0) && pointsOn().MatchString(l.text)):
			drop(l)
		case between(l, heads):
			drop(l)
		}
	}
	dropEmptyHeads(root)
}

// lookOf returns the look of an element: its name and classes, and those of its parent.
// Elements with the same look are of the same kind.
func lookOf(n *html.Node) string {
	if n.Type != html.ElementNode || n.Parent == nil {
		return ""
	}
	name := func(n *html.Node) string { return n.Data + "." + attr(n, "class") + attr(n, maskPrefix+"class") }
	return name(n.Parent) + " " + name(n)
}

// introduces reports whether a line is the heading of the next line.
func introduces(l, next *line) bool { return l.head && next.solid() }

// aboutPage reports whether a line is about the page: its author, its date, and what a
// reader can do with it.
func aboutPage(l *line) bool {
	return made(l) || l.size < 200 && pointsOn().MatchString(l.text) || l.size < 150 && creditLine().MatchString(l.text)
}

// made reports whether a line says who made the page, or when it was made.
func made(l *line) bool {
	return strings.ContainsAny(l.text, "0123456789") && dateLine().MatchString(l.text) || madeBy().MatchString(l.text)
}

// leading reports whether a line before the first paragraph leads to another page, or is a
// word above the heading of this page.
func leading(l *line, top int) bool {
	if l.head || l.list || l.size >= 60 {
		return false
	}
	if i := numberOf(l.n); i < top && l.size < 30 {
		return true
	}
	here := func(n *html.Node) bool {
		href := strings.TrimSpace(attr(n, "href"))
		return is(n, "a") && (strings.HasPrefix(href, "#") || strings.HasPrefix(href, "mailto:"))
	}
	return l.linked*2 >= l.size && !here(l.n) && first(l.n, here) == nil
}

// trailing reports whether a line after the last paragraph leads to another page, or is a
// heading.
func trailing(l *line) bool {
	return l.size > 0 && l.linked*10 >= l.size*7 && !ends(l.text) || l.head
}

// between reports whether a line among paragraphs only leads to another page. heads says
// that it is the heading of what follows.
func between(l *line, heads bool) bool {
	if l.head {
		return pointsOn().MatchString(l.text) && l.linked*2 >= l.size || alone(l, 0) || alone(l, 1) && !heads
	}
	switch {
	case l.quote:
		return false
	case l.size < 200 && pointsOn().MatchString(l.text):
		return l.linked*2 >= l.size && (!l.list || !prose(l.n)) || alone(l, 1)
	case l.size < 120 && !ends(l.text) && creditLine().MatchString(l.text):
		return besideMedia(l.n) || strings.HasSuffix(l.text, ":")
	case !l.list && l.size > 12 && l.inner*10 >= l.size*9 && !ends(l.text):
		return toArticle(l.n) // a paragraph that is only a link to another page of this kind
	}
	return false
}

// alone reports whether a line has the words that lead to another page and at most more
// other words, such as "Advertisement" or "Share this story".
func alone(l *line, more int) bool {
	said := strings.Fields(pointsOn().FindString(l.text))
	return len(said) > 0 && l.size < 30 && len(strings.Fields(l.text)) <= len(said)+more && !l.list
}

// prose reports whether a line is in a list that is not a list of links.
func prose(n *html.Node) bool {
	list := within(n, nil, "ul", "ol", "dl")
	if list == nil || !isSmall(list) {
		return false
	}
	total, linked := measure(list)
	return linked*3 < total*2
}

// besideMedia reports whether an image, a film or a table is directly before or after a
// line.
func besideMedia(n *html.Node) bool {
	isMedia := func(n *html.Node) bool { return is(n, "img", "figure", "video", "audio", "iframe", "table") }
	for up := 0; n != nil && n.Parent != nil && up < 3; n, up = n.Parent, up+1 {
		if !isSmall(n) {
			return false
		}
		for _, s := range []*html.Node{before(n), after(n)} {
			if s != nil && (isMedia(s) || isSmall(s) && length(s) < 200 && first(s, isMedia) != nil) {
				return true
			}
		}
		if is(n, "figure") {
			return true
		}
		if !isSmall(n.Parent) || length(n.Parent) > 3*length(n)+200 {
			return false
		}
	}
	return false
}

// toArticle reports whether the links under n lead to articles: their paths end in a title
// in words, or contain a long number.
func toArticle(n *html.Node) bool {
	links := named(n, "a")
	if is(n, "a") {
		links = append(links, n)
	}
	for _, a := range links {
		u, err := url.Parse(strings.TrimSpace(attr(a, "href")))
		if err != nil {
			return false
		}
		last := path.Base(strings.TrimSuffix(u.Path, "/"))
		if strings.Count(last, "-")+strings.Count(last, "_") < 3 && !longNumber().MatchString(u.RequestURI()) {
			return false
		}
	}
	return true
}

var longNumber = pattern(`\d{5}`)

func drop(l *line) {
	p := l.n.Parent
	remove(l.n)
	for p != nil && p.Parent != nil && is(p, "li", "ul", "ol", "p", "div", "section") && !hasText(p) && first(p, func(n *html.Node) bool { return is(n, "img", "video", "iframe", "math") }) == nil {
		up := p.Parent
		remove(p)
		p = up
	}
}

// hasText reports whether there is any text under n.
func hasText(n *html.Node) bool {
	if n.Type == html.TextNode {
		return strings.TrimSpace(n.Data) != ""
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if hasText(c) {
			return true
		}
	}
	return false
}

// dropEmptyHeads removes headings at the end that have nothing under them any more.
func dropEmptyHeads(root *html.Node) {
	var last *html.Node
	walk(root, func(n *html.Node) bool {
		switch {
		case isHeading(n):
			last = n
			return false
		case n.Type == html.TextNode && letters(n.Data) > 0, is(n, "img", "pre", "table"):
			last = nil
		}
		return true
	})
	if last != nil {
		remove(last)
	}
}
