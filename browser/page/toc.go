package page

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// heads returns the headings of a tree in order, with the ids by which they can be cited.
func heads(root *html.Node) []Heading {
	var found []Heading
	walk(root, func(n *html.Node) bool {
		if !isHeading(n) || len(found) >= MaxLinks {
			return true
		}
		if text := lineOf(n); text != "" {
			found = append(found, Heading{Level: int(n.Data[1] - '0'), Text: shorten(text, 300), Anchor: anchorOf(n)})
		}
		return false
	})
	return found
}

// anchorOf returns the id by which a heading can be linked to: its own id, or that of an
// element in it, or that of the section that it begins.
func anchorOf(n *html.Node) string {
	if id := attr(n, "id"); id != "" {
		return id
	}
	if a := first(n, func(n *html.Node) bool { return attr(n, "id") != "" || is(n, "a") && attr(n, "name") != "" }); a != nil {
		return firstFilled(attr(a, "id"), attr(a, "name"))
	}
	if prev := before(n); is(prev, "a", "span") && length(prev) == 0 {
		if id := firstFilled(attr(prev, "id"), attr(prev, "name")); id != "" {
			return id
		}
	}
	p := n.Parent
	for range 2 {
		if p == nil || is(p, "body", "main", "article") {
			return ""
		}
		if id := attr(p, "id"); id != "" && first(p, isHeading) == n {
			return id
		}
		p = p.Parent
	}
	return ""
}

// permalinks removes the links to themselves, which show as signs, from headings and terms,
// and keeps their targets as anchors.
func permalinks(root *html.Node) {
	for _, a := range named(root, "a") {
		href := attr(a, "href")
		i := strings.IndexByte(href, '#')
		if i < 0 && !hasClass(a, "anchor", "headerlink") {
			continue
		}
		h := within(a, root, "h1", "h2", "h3", "h4", "h5", "h6")
		sign := false
		switch strings.TrimSpace(lineOf(a)) {
		case "", "¶", "#", "§", "🔗", "¤", "[#]", "Permalink", "link", "⚓", "∞", "\uf0c1", "@", "Anchor", "Direct link", "Link":
			sign = true
		}
		link := hasClass(a, "headerlink", "header-link", "anchor", "anchorjs-link", "hash-link", "permalink", "heading-anchor", "toc-anchor", "anchor-link", "header-anchor", "heading-link", "mark", "direct-link", "sl-anchor-link")
		if i == 0 && sign && (link || h != nil) || link && sign && (h != nil || is(a.Parent, "dt", "p", "caption", "span", "div", "figcaption")) {
			if first(a, func(n *html.Node) bool { return is(n, "img") && attr(n, "alt") != "" }) != nil && h == nil {
				continue
			}
			if h != nil && attr(h, "id") == "" && i >= 0 && anchorOf(h) == "" {
				setAttr(h, "id", href[i+1:])
			}
			if id := firstFilled(attr(a, "id"), attr(a, "name")); id != "" && h != nil && attr(h, "id") == "" {
				setAttr(h, "id", id)
			}
			remove(a)
		}
	}
}

// place finds the offsets of headings in the content, in characters.
func place(found []Heading, content string, f Format) {
	at, chars, from := 0, 0, 0
	plain := func(s string) string { return oneLine(unmarked.Replace(s)) }
	for i := range found {
		h := &found[i]
		mark := ""
		if f == Markdown {
			mark = strings.Repeat("#", h.Level) + " "
		}
		want := plain(h.Text)
		first := ""
		if k := strings.Fields(want); len(k) > 0 {
			first = k[0]
		}
		for pos := at; pos < len(content); {
			end := strings.IndexByte(content[pos:], '\n')
			if end < 0 {
				end = len(content) - pos
			}
			line := content[pos : pos+end]
			body := strings.TrimLeft(line, "> -0123456789.:")
			if f == HTML {
				body = line
			}
			rest, ok := strings.CutPrefix(body, mark)
			if ok && f != Markdown {
				ok = strings.Contains(body, first)
			}
			if ok && (f == HTML || similar(plain(rest), want)) {
				chars += utf8.RuneCountInString(content[from:pos])
				from, at = pos, pos+end
				h.Offset = chars
				break
			}
			pos += end + 1
		}
		if h.Offset == 0 && i > 0 && found[i-1].Offset > 0 {
			h.Offset = found[i-1].Offset
		}
	}
}

// unmarked removes what markdown adds to the text of a heading.
var unmarked = strings.NewReplacer(`\`, "", "*", "", "`", "", "_", "")

// similar reports whether a line is the text of a heading, with or without the targets of
// its links.
func similar(line, want string) bool {
	if strings.HasPrefix(line, want) || strings.HasPrefix(want, line) && len(line)*2 > len(want) {
		return true
	}
	return strings.Contains(line, "](") && strings.HasPrefix(strings.TrimLeft(line, "["), want[:min(len(want), 8)])
}
