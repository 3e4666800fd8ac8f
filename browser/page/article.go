package page

import (
	"net/url"
	"strings"

	"codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
)

// articleOf is the article of a page, or nil. Readability finds where it is;
// before that goes what pages themselves name as furniture, and after it what
// stands at the ends of an article and between its paragraphs without a name.
// An article that is a small part of the text that is no furniture is none: the
// page is a list of many, unless it calls itself an article. The document is
// changed.
func articleOf(doc *html.Node, base *url.URL, declared bool) *html.Node {
	mass := paragraphs(doc)
	whole := clone(doc)
	dropFurniture(doc, mass)
	left := paragraphs(doc)
	found := readable(doc, base)
	if found == nil || paragraphs(found)*3 < mass {
		// Some name of furniture was no such thing, or there is little but
		// furniture. What readability finds in all of it tells.
		if more := readable(whole, base); more != nil && (found == nil || paragraphs(more) > 2*paragraphs(found)) {
			found = more
		}
	}
	if found == nil {
		return nil
	}
	if size := paragraphs(found); size*5 < left && (!declared || size < 800) {
		return nil
	}
	trim(found, base)
	return found
}

func readable(doc *html.Node, base *url.URL) *html.Node {
	p := readability.NewParser()
	p.KeepClasses = true
	p.DisableJSONLD = true
	p.MaxElemsToParse = 200_000
	const level = "data-belljar-h1" // it makes h2 of every h1
	for _, h := range named(doc, "h1") {
		setAttr(h, level, "")
	}
	a, err := p.ParseAndMutate(doc, base)
	if err != nil || a.Node == nil {
		return nil
	}
	for _, h := range named(a.Node, "h2") {
		if hasAttr(h, level) {
			h.Data, h.DataAtom = "h1", atomOf("h1")
		}
	}
	return a.Node
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
			case blocks[c.Data]:
				visit(c)
			default:
				o, l := visit(c)
				own, linked = own+o, linked+l
			}
		}
		if blocks[n.Data] || n.Type == html.DocumentNode {
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

// dropFurniture removes the elements that are named as furniture, but for
// those that hold a good part of the page's paragraphs: there the name says
// something else.
func dropFurniture(doc *html.Node, mass int) {
	walk(doc, func(n *html.Node) bool {
		if n.Type != html.ElementNode || is(n, "html", "body", "main", "article", "h1", "head") {
			return true
		}
		role := attr(n, "role")
		named := is(n, "figcaption", "nav", "aside", "footer") || role == "navigation" || role == "complementary" || role == "contentinfo" || isFurniture(n)
		if !named || is(n, "td", "th", "tr", "tbody", "code", "pre", "figure", "math", "img", "picture") {
			return true
		}
		if is(n, "a", "span", "em", "strong", "b", "i") && within(n, nil, "p") != nil && !is(n.Parent, "figure") && length(n) > 40 {
			return true // a word of the text that bears a class
		}
		if p := paragraphs(n); p*5 > mass && p > 200 || is(n, "p") && p > 150 && !captionOf(n) {
			return true
		}
		if is(n, "figcaption") || captionOf(n) {
			keepCaption(n)
		}
		remove(n)
		return false
	})
}

func captionOf(n *html.Node) bool {
	return wordsOf(n, func(w string) bool { return strings.Contains(w, "caption") })
}

// keepCaption gives the text of a caption to its image, where it stands as the
// image's title: it is about the image and no part of the text.
func keepCaption(n *html.Node) {
	text := lineOf(n)
	if text == "" || len(text) > 600 {
		return
	}
	for p, up := n.Parent, 0; p != nil && up < 3; p, up = p.Parent, up+1 {
		imgs := named(p, "img")
		if len(imgs) > 1 {
			return
		}
		if len(imgs) == 1 {
			switch alt := oneLine(attr(imgs[0], "alt")); {
			case alt == "":
				setAttr(imgs[0], "alt", text)
			case alt != text:
				setAttr(imgs[0], "title", text)
			}
			return
		}
	}
}

// line is a block of text that holds no other, with what tells furniture from
// paragraphs.
type line struct {
	n      *html.Node
	text   string
	size   int // letters
	linked int // of them in links
	inner  int // of them in links to the same site
	list   bool
	quote  bool
	head   bool
	keep   bool // code, tables and the like: never looked at
}

// solid reports whether a line is a paragraph of the article for certain.
func (l *line) solid() bool {
	return l.keep || l.size >= 80 && l.linked*2 < l.size || l.size >= 40 && l.linked*3 < l.size && ends(l.text)
}

// linesOf are the lines under root, in order.
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
		if first(n, func(c *html.Node) bool { return blocks[c.Data] }) != nil {
			for c := n.FirstChild; c != nil; c = c.NextSibling {
				if c.Type == html.TextNode && letters(c.Data) > 0 || c.Type == html.ElementNode && !blocks[c.Data] && c.FirstChild != nil && first(c, func(k *html.Node) bool { return blocks[k.Data] }) == nil {
					// Text beside blocks is a line of its own that cannot be taken out alone.
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

// siteOf is the last two names of a host, or three where the second is short
// as in co.uk.
func siteOf(host string) string {
	parts := strings.Split(strings.ToLower(host), ".")
	n := 2
	if k := len(parts); k > 2 && len(parts[k-2]) <= 3 && len(parts[k-1]) == 2 {
		n = 3
	}
	return strings.Join(parts[max(0, len(parts)-n):], ".")
}

// trim takes out lines that are no part of the text.
func trim(root *html.Node, base *url.URL) {
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
	list := false // after a line that announces links to other pages
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
		switch {
		case i < begin && (aboutPage(l) || solid >= 5 && !l.head && (l.size < 30 || l.size < 60 && l.linked*2 >= l.size)), i > end && (aboutPage(l) || trailing(l)), i*10 >= len(lines)*7 && l.size < 200 && aboutPage(l):
			drop(l)
		case between(l):
			drop(l)
		}
	}
	dropEmptyHeads(root)
}

// aboutPage reports whether a line tells of the page: who made it, when, and
// what else could be done with it.
func aboutPage(l *line) bool {
	dated := strings.ContainsAny(l.text, "0123456789") && dateLine().MatchString(l.text)
	return dated || madeBy().MatchString(l.text) || l.size < 200 && pointsOn().MatchString(l.text) || l.size < 150 && creditLine().MatchString(l.text)
}

// trailing reports whether a line after the last paragraph leads away.
func trailing(l *line) bool {
	return l.size > 0 && l.linked*10 >= l.size*7 && !ends(l.text) || l.head
}

// between reports whether a line among paragraphs only points elsewhere.
func between(l *line) bool {
	if l.head && l.linked < l.size {
		return l.size < 60 && pointsOn().MatchString(l.text)
	}
	switch {
	case l.quote:
		return false
	case l.size < 200 && (l.linked*2 >= l.size || l.size < 30) && pointsOn().MatchString(l.text):
		return true
	case l.size < 120 && !ends(l.text) && creditLine().MatchString(l.text):
		return true
	case !l.list && l.size > 12 && l.inner*10 >= l.size*9 && !ends(l.text):
		return true // a paragraph that is one link to the same site
	}
	return false
}

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

// dropEmptyHeads removes headings at the end, which nothing is under any more.
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
