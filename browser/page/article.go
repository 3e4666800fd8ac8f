package page

import (
	"math"
	"net/url"
	"path"
	"strconv"
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
	enumerate(doc)
	whole := clone(doc)
	dropFurniture(doc, mass)
	left, cleaned := paragraphs(doc), clone(doc)
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
	lead(cleaned, found)
	top := 0
	if h1 := named(cleaned, "h1"); len(h1) == 1 {
		top = numberOf(h1[0])
	}
	trim(found, base, top)
	return found
}

// numberAttr numbers the elements of a page, so that those which readability
// took can be found among those which it left.
const numberAttr = "belljar-number"

func enumerate(doc *html.Node) {
	for i, n := range all(doc, func(n *html.Node) bool { return blocks[n.Data] }) {
		setAttr(n, numberAttr, strconv.Itoa(i))
	}
}

// numberOf is the number of an element or the nearest around it, or one beyond all.
func numberOf(n *html.Node) int {
	for ; n != nil; n = n.Parent {
		if i, err := strconv.Atoi(attr(n, numberAttr)); err == nil {
			return i
		}
	}
	return math.MaxInt
}

// lead puts the first paragraph under the heading of the page before what was
// found, with what stands between them, if it was left out: the question of a
// page whose answers are longer.
func lead(doc, found *html.Node) {
	h1 := named(doc, "h1")
	if len(h1) != 1 {
		return
	}
	took := make(map[string]bool)
	for _, n := range all(found, isParagraph) {
		took[attr(n, numberAttr)] = true
	}
	var missing, taken *html.Node // paragraphs: the first under the heading, and the first that was found
	passed := false
	walk(doc, func(n *html.Node) bool {
		passed = passed || n == h1[0]
		if passed && taken == nil && isParagraph(n) {
			if took[attr(n, numberAttr)] {
				taken = n
			} else if missing == nil {
				missing = n
			}
		}
		return taken == nil
	})
	if missing == nil || taken == nil {
		return
	}
	top := missing.Parent
	for top != nil && !contains(top, taken) {
		missing, top = top, top.Parent
	}
	if top == nil || !contains(top, h1[0]) || contains(missing, h1[0]) {
		return
	}
	before := found.FirstChild
	if first(found, func(n *html.Node) bool { return is(n, "h1") }) == nil {
		found.InsertBefore(clone(h1[0]), before)
	}
	for n := missing; n != nil && !contains(n, taken); {
		next := n.NextSibling
		remove(n)
		found.InsertBefore(n, before)
		n = next
	}
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
	unmask(a.Node)
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

// dropFurniture removes the elements that are named as furniture and are built
// like it, but for those that hold a good part of the page's paragraphs: there
// the name says something else. A name alone decides nothing: "related" is also
// the work of others, and "tools" are what a cook needs.
func dropFurniture(doc *html.Node, mass int) {
	last := len(all(doc, isParagraph))
	seen := 0                     // paragraphs before n
	kept := make(map[string]bool) // by look
	repeats := make(map[string]int)
	walk(doc, func(n *html.Node) bool {
		repeats[lookOf(n)]++
		return true
	})
	walk(doc, func(n *html.Node) bool {
		if n.Type != html.ElementNode {
			return true
		}
		if isParagraph(n) {
			seen++
		}
		if isHeading(n) || repeats[lookOf(n)] > 2 && attr(n, "class") != "" && length(n) < 40 {
			mask(n) // what repeats is not the byline of the page
		}
		if is(n, "html", "body", "main", "article", "head") || isHeading(n) {
			return true
		}
		role := attr(n, "role")
		named := is(n, "nav", "aside", "footer") || role == "navigation" || role == "complementary" || role == "contentinfo"
		caption := is(n, "figcaption") || captionOf(n)
		if !named && !caption && !isFurniture(n) || is(n, "td", "th", "tr", "tbody", "code", "pre", "figure", "math", "img", "picture") {
			return true
		}
		if is(n, "a", "span", "em", "strong", "b", "i") && within(n, nil, "p") != nil && !is(n.Parent, "figure") && length(n) > 40 {
			return true // a word of the text that bears a class
		}
		if p := paragraphs(n); p*5 > mass && p > 200 || is(n, "p") && p > 150 && !caption {
			return true
		}
		switch {
		case caption:
			if !keepCaption(n) {
				mask(n)
				return true
			}
		case is(n, "aside") && role == "" && seen > 0 && seen < last && isNote(n):
			n.Data, n.DataAtom = "div", atomOf("div") // readability takes every aside away
			return true
		case !named && (seen > 0 && seen < last || last == 0 || kept[lookOf(n)]) && !looksBeside(n):
			kept[lookOf(n)] = true
			mask(n)
			return true
		}
		remove(n)
		return false
	})
}

// isNote reports whether an element that HTML says is beside the text is a note on
// it: text that leads nowhere, and is not what editors repeat of the text itself.
func isNote(n *html.Node) bool {
	text := within(n, nil, "article", "main")
	if text == nil || !isSmall(n) || looksBeside(n) || isFurniture(n) || first(n, func(c *html.Node) bool { return is(c, "img") || isHeading(c) }) != nil {
		return false
	}
	return !isSmall(text) || strings.Count(lineOf(text), lineOf(n)) < 2
}

// looksBeside reports whether an element is built like what stands beside an
// article: links, controls, nothing to read, or a line that says so.
func looksBeside(n *html.Node) bool {
	total, linked := measure(n)
	if total == 0 {
		return first(n, func(c *html.Node) bool { return is(c, "img", "video", "audio") }) == nil
	}
	if linked*2 >= total || first(n, func(c *html.Node) bool { return is(c, "input", "button", "form", "select", "textarea", "iframe") }) != nil {
		return true
	}
	return total < 200 && aboutPage(&line{n: n, text: lineOf(n), size: total, linked: linked})
}

// isParagraph reports whether an element is a block of a sentence or more that
// is not named as furniture, and in no element that is.
func isParagraph(n *html.Node) bool {
	if !is(n, "p", "div", "li", "blockquote", "td", "section") || first(n, func(c *html.Node) bool { return blocks[c.Data] }) != nil {
		return false
	}
	total, linked := measure(n)
	if total < 80 || linked*2 >= total {
		return false
	}
	for p := n; p != nil; p = p.Parent {
		if is(p, "nav", "aside", "footer") || !is(p, "html", "body", "main", "article") && isFurniture(p) {
			return false
		}
	}
	return true
}

// captionOf reports whether an element is named as a caption, and holds nothing
// that could have one.
func captionOf(n *html.Node) bool {
	return wordsOf(n, func(w string) bool { return strings.Contains(w, "caption") || strings.Contains(w, "credit") }) && length(n) > 0 && first(n, isShown) == nil
}

// isShown reports whether an element is what captions are about.
func isShown(n *html.Node) bool {
	return is(n, "img", "picture", "video", "audio", "iframe", "table", "pre", "blockquote", "math", "svg") || hasAttr(n, embedAttr)
}

// keepCaption gives the text of a caption to its image, where it stands as the
// image's title: it is about the image and not part of the text. It reports
// whether the caption has no place in the text: that of a table, of code, or of
// several images at once has one; that of an image that the page leaves to a
// script to load has none.
func keepCaption(n *html.Node) bool {
	for p, up := n.Parent, 0; p != nil && up < 4 && !is(p, "body", "main", "article"); p, up = p.Parent, up+1 {
		if !isSmall(p) {
			return false
		}
		var img *html.Node // the last before the caption, else the first after it
		imgs, captions, passed := 0, 0, false
		others := first(p, func(c *html.Node) bool {
			switch {
			case contains(n, c) || is(c, "a") && hasAttr(c, embedAttr) && length(n) == 0:
			case is(c, "img"):
				imgs++
				if !passed || img == nil {
					img = c
				}
			case is(c, "figcaption") || captionOf(c):
				captions++
			default:
				return isShown(c) && !is(c, "picture", "svg")
			}
			passed = passed || c == n
			return false
		}) != nil
		switch {
		case others, imgs > 1 && captions == 0 && is(p, "figure"):
			return false
		case img != nil:
			title(img, lineOf(n))
			return true
		case length(p) > length(n)+200:
			return false
		case is(p, "figure") || first(p, func(c *html.Node) bool { return !contains(n, c) && !contains(c, n) && length(c) == 0 }) != nil:
			return true
		}
	}
	return false
}

// title gives an image the text of its caption.
func title(img *html.Node, text string) {
	switch alt := oneLine(attr(img, "alt")); {
	case alt == "":
		setAttr(img, "alt", text)
	case alt != text:
		setAttr(img, "title", text)
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

// trim takes out lines that are not part of the text. What a line says is never
// enough: each is dropped for its words and for where it stands, what is beside
// it or where it leads. Top is the number of the page's heading.
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
	later := make(map[string]bool) // what stands between the first paragraph and the last, by element and class
	for _, l := range lines[begin : end+1] {
		later[lookOf(l.n)] = true
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
		case i < begin && (aboutPage(l) || solid >= 5 && leading(l, top) && !later[lookOf(l.n)]):
			drop(l)
		case i > end && (aboutPage(l) || trailing(l)):
			drop(l)
		case i*10 >= len(lines)*7 && l.size < 200 && (made(l) || alone(l, 1) || (l.head || l.linked > 0) && pointsOn().MatchString(l.text)) && !(i < end && introduces(l, lines[i+1])):
			drop(l)
		case between(l, i < end && introduces(l, lines[i+1])):
			drop(l)
		}
	}
	dropEmptyHeads(root)
}

// lookOf is what an element looks like: those of one look are of one kind.
func lookOf(n *html.Node) string {
	if n.Type != html.ElementNode || n.Parent == nil {
		return ""
	}
	name := func(n *html.Node) string { return n.Data + "." + attr(n, "class") + attr(n, maskPrefix+"class") }
	return name(n.Parent) + " " + name(n)
}

// introduces reports whether a line is the heading of the next.
func introduces(l, next *line) bool { return l.head && next.solid() }

// aboutPage reports whether a line tells of the page: who made it, when, and
// what else could be done with it.
func aboutPage(l *line) bool {
	return made(l) || l.size < 200 && pointsOn().MatchString(l.text) || l.size < 150 && creditLine().MatchString(l.text)
}

// made reports whether a line says who made the page, or when.
func made(l *line) bool {
	return strings.ContainsAny(l.text, "0123456789") && dateLine().MatchString(l.text) || madeBy().MatchString(l.text)
}

// leading reports whether a line before the first paragraph leads to another page,
// or is a word over the heading of this one.
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

// trailing reports whether a line after the last paragraph leads away.
func trailing(l *line) bool {
	return l.size > 0 && l.linked*10 >= l.size*7 && !ends(l.text) || l.head
}

// between reports whether a line among paragraphs only points elsewhere. Heads
// says that it is the heading of what follows.
func between(l *line, heads bool) bool {
	if l.head {
		return pointsOn().MatchString(l.text) && l.linked*2 >= l.size || alone(l, 0) || alone(l, 1) && !heads
	}
	switch {
	case l.quote:
		return false
	case l.size < 200 && pointsOn().MatchString(l.text):
		return l.linked*2 >= l.size && !(l.list && prose(l.n)) || alone(l, 1)
	case l.size < 120 && !ends(l.text) && creditLine().MatchString(l.text):
		return besideMedia(l.n) || strings.HasSuffix(l.text, ":")
	case !l.list && l.size > 12 && l.inner*10 >= l.size*9 && !ends(l.text):
		return toArticle(l.n) // a paragraph that is one link to another page like this
	}
	return false
}

// alone reports whether a line is the words that point elsewhere and at most this
// many more, as "Advertisement" is, or "Share this story".
func alone(l *line, more int) bool {
	said := strings.Fields(pointsOn().FindString(l.text))
	return len(said) > 0 && l.size < 30 && len(strings.Fields(l.text)) <= len(said)+more && !l.list
}

// prose reports whether a line stands in a list that is not one of links.
func prose(n *html.Node) bool {
	list := within(n, nil, "ul", "ol", "dl")
	if list == nil || !isSmall(list) {
		return false
	}
	total, linked := measure(list)
	return linked*3 < total*2
}

// besideMedia reports whether an image, a film or a table stands right before or
// after a line.
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

// toArticle reports whether the links under n lead to articles: their paths end
// in a title in words, or in a number that nobody chose.
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
