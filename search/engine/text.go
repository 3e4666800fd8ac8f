package engine

import (
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	nethtml "golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Bounds of the texts of one result, in bytes. The merge cuts them further.
const (
	maxTitle   = 1 << 10
	maxSnippet = 4 << 10
	maxURL     = 4 << 10
)

// prose collects words with single spaces between them, up to a bound.
type prose struct {
	b    strings.Builder
	most int
	gap  bool
}

// write adds text. Any sequence of spaces in it counts as one space.
func (p *prose) write(text string) {
	for text != "" && p.b.Len() < p.most {
		end := strings.IndexFunc(text, unicode.IsSpace)
		if end != 0 {
			word := text
			if end > 0 {
				word = text[:end]
			}
			if p.gap && p.b.Len() > 0 {
				p.b.WriteByte(' ')
			}
			p.gap = false
			p.b.WriteString(word)
			text = text[len(word):]
			continue
		}
		p.gap = true
		_, size := utf8.DecodeRuneInString(text)
		text = text[size:]
	}
}

// String returns the collected text as valid UTF-8, without a part of a character at the
// end.
func (p *prose) String() string {
	s := p.b.String()
	if len(s) > p.most {
		s = s[:p.most]
		for s != "" && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		if r, n := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && n <= 1 && s != "" {
			s = s[:len(s)-1]
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// blocks are elements that start a new line, so that the words before and after them are
// separate.
var blocks = set(atom.Address, atom.Article, atom.Blockquote, atom.Br, atom.Dd, atom.Div, atom.Dl, atom.Dt,
	atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Hr, atom.Li, atom.Ol, atom.P, atom.Pre,
	atom.Section, atom.Table, atom.Td, atom.Th, atom.Tr, atom.Ul)

// mute are elements whose text nobody sees. Startpage has style elements in its links.
var mute = set(atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg)

// textOf returns at most `most` bytes of the text that a reader sees in n, without the
// nodes that drop matches.
func textOf(n *nethtml.Node, most int, drop []matcher) string {
	p := prose{most: most}
	readText(&p, n, n, drop)
	return p.String()
}

// matcher is the part of a selector that matches a node.
type matcher interface{ Match(n *nethtml.Node) bool }

// readText adds the text of n. It does not recurse deeper than maxDepth, the depth of a
// tree.
func readText(p *prose, top, n *nethtml.Node, drop []matcher) {
	if n.Type == nethtml.TextNode {
		p.write(n.Data)
		return
	}
	if n != top && n.Type == nethtml.ElementNode {
		if mute[n.DataAtom] || isHidden(n) || slices.ContainsFunc(drop, func(d matcher) bool { return d.Match(n) }) {
			return
		}
	}
	block := blocks[n.DataAtom]
	p.gap = p.gap || block
	for c := n.FirstChild; c != nil && p.b.Len() < p.most; c = c.NextSibling {
		readText(p, top, c, drop)
	}
	p.gap = p.gap || block
}

// isHidden reports whether an element has the attribute hidden.
func isHidden(n *nethtml.Node) bool {
	return slices.ContainsFunc(n.Attr, func(a nethtml.Attribute) bool { return a.Key == "hidden" })
}

// plain returns the text of a field of a structured answer, which may contain markup.
func plain(s string, most int) string {
	if strings.IndexByte(s, '<') >= 0 && looksMarked(s) {
		return textOf(grow(s, false).top, most, nil)
	}
	p := prose{most: most}
	if strings.IndexByte(s, '&') >= 0 {
		s = html.UnescapeString(s)
	}
	p.write(s)
	return p.String()
}

// looksMarked reports whether a text contains tags: "a < b" does not.
func looksMarked(s string) bool {
	for rest := s; ; {
		_, after, found := strings.Cut(rest, "<")
		if !found || after == "" {
			return false
		}
		c := after[0]
		if c == '/' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return strings.IndexByte(after, '>') >= 0
		}
		rest = after
	}
}
