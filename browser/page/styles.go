package page

import (
	"strings"

	"golang.org/x/net/html"
)

// styles are the rules of a page's own style elements that hide something, as
// far as their selectors are one name, class or id. Others depend on state or
// place, and are left to the browser.
type styles struct {
	rules map[string]bool // "tag", ".class", "#id", "tag.class"
}

// maxStyle bounds the style text that is looked at.
const maxStyle = 1 << 20

// stylesOf reads the style elements of a document; nil if none hides anything.
func stylesOf(doc *html.Node) *styles {
	s := &styles{rules: make(map[string]bool)}
	left := maxStyle
	walk(doc, func(n *html.Node) bool {
		if is(n, "noscript") {
			return false
		}
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
	if len(s.rules) == 0 {
		return nil
	}
	return s
}

// read takes the rules at the top of a style sheet; blocks in @ rules hold for
// some screens only.
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
		if strings.HasPrefix(head, "@") {
			text = afterBlock(rest)
			continue
		}
		body, after, _ := strings.Cut(rest, "}")
		text = after
		// Fading in starts from zero opacity, so that hides nothing for good.
		if strings.Contains(body, ":") && hidingStyle(strings.ReplaceAll(body, "opacity", "x-opacity"), nil) {
			s.add(head)
		}
	}
}

func (s *styles) add(selectors string) {
	for sel := range strings.SplitSeq(selectors, ",") {
		sel = strings.TrimSpace(sel)
		if sel == "" || strings.ContainsAny(sel, " >+~:[*\\") || strings.Count(sel, ".")+strings.Count(sel, "#") > 1 || len(s.rules) >= 2000 {
			continue
		}
		if sel == "body" || sel == "html" || sel == "noscript" {
			continue
		}
		s.rules[sel] = true
	}
}

// hides reports whether a rule hides an element, and its own style does not
// show it again.
func (s *styles) hides(n *html.Node) bool {
	match := s.rules[n.Data]
	if id := attr(n, "id"); id != "" && (s.rules["#"+id] || s.rules[n.Data+"#"+id]) {
		match = true
	}
	if !match {
		for c := range strings.FieldsSeq(attr(n, "class")) {
			if s.rules["."+c] || s.rules[n.Data+"."+c] {
				match = true
				break
			}
		}
	}
	if !match {
		return false
	}
	style := attr(n, "style")
	return !strings.Contains(style, "display") && !strings.Contains(style, "visibility") && !ofMath(n)
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

// afterBlock is what follows the block that was just opened.
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
