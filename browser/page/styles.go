package page

import (
	"strings"

	"golang.org/x/net/html"
)

// styles contains the rules of a page's own style elements that hide something, if their
// selectors are names, classes and ids. Other rules depend on the state of the page, and
// are left to the browser.
type styles struct {
	rules   map[string]bool   // "tag", ".class", "#id", "tag.class"
	text    map[string]string // colours of text, by the same selectors
	back    map[string]string // backgrounds, by the same selectors
	places  []descent         // selectors with several parts that hide elements
	placed  map[*html.Node]bool
	foreign bool // whether there are style sheets that are not read
}

// maxStyle bounds the style text that is looked at.
const maxStyle = 1 << 20

// stylesOf reads the style elements of a document; it returns nil if none hides anything.
func stylesOf(doc *html.Node) *styles {
	s := &styles{rules: make(map[string]bool), text: make(map[string]string), back: make(map[string]string), placed: make(map[*html.Node]bool)}
	left := maxStyle
	walk(doc, func(n *html.Node) bool {
		if is(n, "noscript") {
			return false
		}
		s.foreign = s.foreign || is(n, "link") && strings.Contains(strings.ToLower(attr(n, "rel")), "stylesheet")
		if is(n, "style") && left > 0 {
			text := rawTextOf(n)
			text = text[:min(len(text), left)]
			left -= len(text)
			if media := attr(n, "media"); media == "" || media == "all" || media == "screen" {
				s.read(text)
			}
		}
		return true
	})
	s.match(doc)
	if len(s.rules)+len(s.text)+len(s.placed) == 0 {
		return nil
	}
	return s
}

// match finds the elements that selectors with several parts hide.
func (s *styles) match(doc *html.Node) {
	const elements = 20_000 // with more elements it would take too long
	found := all(doc, func(*html.Node) bool { return true })
	if len(s.places) == 0 || len(found) > elements {
		return
	}
	for _, sel := range s.places {
		for _, n := range found {
			if sel.matches(n) {
				s.placed[n] = true
			}
		}
	}
}

// descent is a selector whose parts are inside each other, the outermost first.
type descent []compound

// compound is a part of a selector: a name, an id and classes. An element matches it
// only if it has them all.
type compound struct {
	tag, id string
	classes []string
}

// descentOf reads a selector with at most five parts. It returns nil if the selector
// contains any other sign.
func descentOf(sel string) descent {
	var p descent
	for part := range strings.FieldsSeq(sel) {
		if len(p) == 5 || strings.ContainsAny(part, ">+~:[*\\") {
			return nil
		}
		var c compound
		for i := strings.LastIndexAny(part, ".#"); i >= 0; i = strings.LastIndexAny(part, ".#") {
			if part[i] == '#' {
				c.id = part[i+1:]
			} else {
				c.classes = append(c.classes, part[i+1:])
			}
			part = part[:i]
		}
		c.tag = strings.ToLower(part)
		p = append(p, c)
	}
	return p
}

// matches uses the nearest ancestor for each part, which is correct because the parts are
// only inside each other.
func (p descent) matches(n *html.Node) bool {
	i := len(p) - 1
	if !p[i].matches(n) {
		return false
	}
	for a := n.Parent; a != nil && i > 0; a = a.Parent {
		if p[i-1].matches(a) {
			i--
		}
	}
	return i == 0
}

func (c compound) matches(n *html.Node) bool {
	if n.Type != html.ElementNode || c.tag != "" && c.tag != n.Data || c.id != "" && c.id != attr(n, "id") {
		return false
	}
	for _, class := range c.classes {
		if !hasClass(n, class) {
			return false
		}
	}
	return true
}

// read reads the rules at the top of a style sheet. Blocks in other @ rules are only for
// some screens.
func (s *styles) read(text string) {
	text = withoutComments(text)
	for text != "" {
		open := strings.IndexByte(text, '{')
		if open < 0 {
			return
		}
		head := text[:open]
		if i := strings.LastIndexAny(head, ";}"); i >= 0 {
			head = head[i+1:]
		}
		head = strings.TrimSpace(head)
		rest := text[open+1:]
		if head == "@media screen" || head == "@media all" {
			text = rest // the end of the block is skipped like the end of a rule
			continue
		}
		if strings.HasPrefix(head, "@") {
			text = afterBlock(rest)
			continue
		}
		body, after, _ := strings.Cut(rest, "}")
		text = after
		// An element that fades in starts with zero opacity, so opacity alone hides nothing
		// for good.
		if strings.Contains(body, ":") && hidingStyle(strings.ReplaceAll(body, "opacity", "x-opacity"), nil) {
			s.add(head)
			continue
		}
		d := declarations(body)
		for sel := range strings.SplitSeq(head, ",") {
			if sel = strings.TrimSpace(sel); !simple(sel) || len(s.text)+len(s.back) > 4000 {
				continue
			}
			// the colour for a bare name is a default that other rules change
			if c := d["color"]; c != "" && strings.ContainsAny(sel, ".#") {
				s.text[sel] = c
			}
			if c := firstOf(d, "background-color", "background", "background-image"); c != "" {
				s.back[sel] = c
			}
		}
	}
}

// simple reports whether a selector is one name, class or id, or a name with one class or
// id.
func simple(sel string) bool {
	return sel != "" && !strings.ContainsAny(sel, " >+~:[*\\") && strings.Count(sel, ".")+strings.Count(sel, "#") <= 1
}

func (s *styles) add(selectors string) {
	for sel := range strings.SplitSeq(selectors, ",") {
		sel = strings.TrimSpace(sel)
		if len(s.rules) >= 2000 {
			return
		}
		if !simple(sel) {
			if p := descentOf(sel); p != nil && len(s.places) < 100 {
				s.places = append(s.places, p)
			}
			continue
		}
		if sel == "body" || sel == "html" || sel == "noscript" {
			continue
		}
		s.rules[sel] = true
	}
}

// hides reports whether a rule hides an element and the element's own style does not show
// it again.
func (s *styles) hides(n *html.Node) bool {
	match := s.placed[n]
	for _, sel := range selectors(n) {
		match = match || s.rules[sel]
	}
	if !match && !s.blends(n) {
		return false
	}
	style := attr(n, "style")
	return !strings.Contains(style, "display") && !strings.Contains(style, "visibility") && !strings.Contains(style, "color") && !ofMath(n)
}

// selectors returns the selectors with one part that match an element, the most specific
// last.
func selectors(n *html.Node) []string {
	sels := []string{n.Data}
	for c := range strings.FieldsSeq(attr(n, "class")) {
		sels = append(sels, "."+c, n.Data+"."+c)
	}
	if id := attr(n, "id"); id != "" {
		sels = append(sels, "#"+id, n.Data+"#"+id)
	}
	return sels
}

// blends reports whether a rule gives an element the colour of the nearest background under
// it. It reports false if a sheet that is not read may give another background to an
// element between.
func (s *styles) blends(n *html.Node) bool {
	text := ""
	for _, sel := range selectors(n) {
		text = firstFilled(s.text[sel], text)
	}
	c, ok := colour(text)
	if !ok || c.clear {
		return false
	}
	for p := n; p != nil && p.Type == html.ElementNode; p = p.Parent {
		back := firstFilled(attr(p, "bgcolor"), firstOf(declarations(attr(p, "style")), "background-color", "background", "background-image"))
		if back == "" {
			for _, sel := range selectors(p) {
				back = firstFilled(s.back[sel], back)
			}
		}
		if back != "" {
			b, ok := colour(back)
			return ok && c.near(b)
		}
		if p != n && s.foreign && (attr(p, "class") != "" || attr(p, "id") != "") {
			return false
		}
	}
	return c.near(white) && !s.foreign
}

func withoutComments(s string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "/*")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		if _, s, ok = strings.Cut(rest, "*/"); !ok {
			return b.String()
		}
	}
}

// afterBlock returns what follows the block that was just opened.
func afterBlock(s string) string {
	depth := 1
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return s[i+1:]
			}
		}
	}
	return ""
}
