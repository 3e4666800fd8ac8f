package page

import (
	"strings"

	"golang.org/x/net/html"
)

// blocks are elements that begin and end a line.
var blocks = set(`address article aside blockquote body center dd details dialog dir div dl dt fieldset figcaption figure footer
	form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li listing main menu nav ol optgroup option p pre search section
	summary table tbody tfoot thead tr ul caption xmp`)

// apart are blocks with an empty line before and after, except in list items and cells.
var apart = set("p h1 h2 h3 h4 h5 h6 blockquote pre ul ol dl table figure hr listing xmp")

// textWriter writes a tree as plain text, like innerText: without Markdown syntax and
// without the text of images.
type textWriter struct {
	b     strings.Builder
	lines int  // number of line ends that are due before the next text
	space bool // whether a space is due
	pre   int
}

// plainText returns the text under n, without that of scripts, styles, templates, noscript
// and head. It ends with a line feed, unless it is empty.
func plainText(n *html.Node) string {
	var w textWriter
	w.node(n)
	if w.b.Len() == 0 {
		return ""
	}
	return w.b.String() + "\n"
}

func (w *textWriter) need(lines int) {
	if lines == 0 {
		return
	}
	w.lines = max(w.lines, lines)
	w.space = false
}

func (w *textWriter) flush() {
	if w.b.Len() > 0 {
		for range w.lines {
			w.b.WriteByte('\n')
		}
		if w.lines == 0 && w.space {
			w.b.WriteByte(' ')
		}
	}
	w.lines, w.space = 0, false
}

func (w *textWriter) text(s string) {
	if w.pre > 0 {
		w.flush()
		w.b.WriteString(s)
		return
	}
	for s != "" {
		i := strings.IndexFunc(s, isBlank)
		if i == 0 {
			s = strings.TrimLeftFunc(s, isBlank)
			w.space = w.space || w.lines == 0
			continue
		}
		if i < 0 {
			i = len(s)
		}
		w.flush()
		w.b.WriteString(s[:i])
		s = s[i:]
	}
}

// isBlank reports whether r is white space of HTML. A no-break space is text in HTML, but a
// space here.
func isBlank(r rune) bool {
	return r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '\f' || r == '\u00a0'
}

func (w *textWriter) node(n *html.Node) {
	if n.Type == html.TextNode {
		w.text(n.Data)
		return
	}
	if n.Type != html.ElementNode && n.Type != html.DocumentNode {
		return
	}
	switch n.Data {
	case "br":
		w.lines = min(max(w.lines+1, 1), 2)
		w.space = false
		return
	case "img", "script", "style", "template", "noscript", "head":
		return
	case "td", "th":
		if n.PrevSibling != nil && w.lines == 0 && w.b.Len() > 0 {
			w.b.WriteByte('\t')
			w.space = false
		}
	}
	due := 0
	if blocks.has(n.Data) {
		due = 1
		if apart.has(n.Data) && within(n, nil, "li", "td", "th") == nil {
			due = 2
		}
	}
	w.need(due)
	pre := is(n, "pre", "listing", "xmp", "textarea")
	if pre {
		w.pre++
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		w.node(c)
	}
	if pre {
		w.pre--
	}
	w.need(due)
}
