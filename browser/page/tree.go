package page

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Bounds of a tree. The parser of x/net/html has no bounds that are useful here: it refuses
// a document with more than 512 elements inside each other, and makes hundreds of nodes for
// three bytes of a page that is written for that (each <p> opens all unclosed formatting
// again).
const (
	maxDepth = 200
	maxNodes = 1_000_000
	maxAttrs = 64
	// maxToken bounds one tag or comment; a text always comes in pieces.
	maxToken = 8 << 20
)

// tree builds a document from the tokens of x/net/html. It follows section 13.2.6 of the
// HTML standard where that decides which text is in which element. It differs for markup
// that overlaps: if formatting is closed inside of a block that it was opened outside of,
// it ends there and is not opened again. No input makes more nodes than it has tags, texts
// and implied parts of tables.
type tree struct {
	doc, root, head, body *html.Node

	open  []*html.Node   // open elements, the body first
	over  map[string]int // number of elements that are too deep to have a node, by name
	nodes int
	inner bool // whether the head has ended
	raw   bool // whether the open element is inside svg or math
	cut   bool // whether there were too many nodes
	deep  bool // whether elements were too deep
}

// parse returns the tree of a document in UTF-8.
func parse(ctx context.Context, src []byte) (*tree, error) {
	t := &tree{
		doc: &html.Node{Type: html.DocumentNode}, root: element("html"), head: element("head"), body: element("body"),
		over: make(map[string]int),
	}
	t.doc.AppendChild(t.root)
	t.root.AppendChild(t.head)
	t.root.AppendChild(t.body)
	t.open = append(t.open, t.body)
	z := html.NewTokenizer(bytes.NewReader(src))
	z.SetMaxBuf(maxToken)
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		switch z.Next() {
		case html.ErrorToken:
			err := z.Err()
			if errors.Is(err, io.EOF) {
				return t, nil
			}
			if !errors.Is(err, html.ErrBufferExceeded) {
				return nil, err
			}
			t.cut = true
			return t, nil
		case html.TextToken:
			t.text(z.Text())
		case html.StartTagToken:
			t.start(z, false)
		case html.SelfClosingTagToken:
			t.start(z, true)
		case html.EndTagToken:
			name, _ := z.TagName()
			t.end(tagName(name))
		case html.CommentToken, html.DoctypeToken:
		}
		if t.nodes > maxNodes {
			t.cut = true
			return t, nil
		}
	}
}

// nameOf returns a name as a string, without a copy if it is a name of the standard.
func nameOf(b []byte) string { return atom.String(b) }

// tagName returns the name of a tag. A name that no element can have becomes span.
func tagName(b []byte) string {
	for _, c := range b {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != ':' && c != '_' && c != '.' {
			return "span"
		}
	}
	if len(b) > 100 {
		return "span"
	}
	return nameOf(b)
}

func (t *tree) top() *html.Node { return t.open[len(t.open)-1] }

func (t *tree) text(data []byte) {
	if len(data) == 0 {
		return
	}
	blank := len(bytes.TrimSpace(data)) == 0
	if !t.inner && t.top() == t.body {
		if blank {
			return
		}
		t.inner = true
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		data = bytes.ReplaceAll(data, []byte{0}, nil)
	}
	last := t.top().LastChild
	if last != nil && last.Type == html.TextNode && !isTablePart(t.top()) && len(last.Data) < 512 {
		last.Data += string(data) // a comment or a stray < was between them
		return
	}
	n := &html.Node{Type: html.TextNode, Data: string(data)}
	t.nodes++
	if blank {
		t.top().AppendChild(n)
		return
	}
	t.insert(n)
}

// isTablePart reports whether n is a part of a table that must not directly contain text
// and most elements: they go before its table.
func isTablePart(n *html.Node) bool { return is(n, "table", "tbody", "thead", "tfoot", "tr") }

// insert puts a node where it belongs: into the open element, or before the table if the
// open element cannot contain the node.
func (t *tree) insert(n *html.Node) {
	top := t.top()
	if isTablePart(top) && !inTable.has(n.Data) && !t.raw {
		for _, p := range slices.Backward(t.open) {
			if p.Data == "table" && p.Parent != nil {
				p.Parent.InsertBefore(n, p)
				return
			}
		}
	}
	top.AppendChild(n)
}

// start handles a start tag.
func (t *tree) start(z *html.Tokenizer, closed bool) {
	raw, more := z.TagName()
	name := tagName(raw)
	if name == "image" && !t.raw {
		name = "img"
	}
	var attrs []html.Attribute
	for more && len(attrs) < maxAttrs {
		var k, v []byte
		k, v, more = z.TagAttr()
		attrs = addAttr(attrs, nameOf(k), string(v))
	}
	switch {
	case t.raw:
		z.NextIsNotRawText()
	case name == "noscript":
		z.NextIsNotRawText() // a browser without scripts reads noscript in this way
	case name == "html" || name == "body":
		n := t.root
		if name == "body" {
			n, t.inner = t.body, true
		}
		for _, a := range attrs {
			if !hasAttr(n, a.Key) {
				n.Attr = append(n.Attr, a)
			}
		}
		return
	case name == "head":
		return
	}
	n := &html.Node{Type: html.ElementNode, Data: name, DataAtom: atomOf(name), Attr: attrs}
	t.nodes++
	if !t.inner && t.top() == t.body {
		if ofHead.has(name) {
			t.startInHead(n)
			return
		}
		t.inner = true
	}
	if !t.raw {
		t.implied(name)
	}
	if len(t.open) >= maxDepth && !voidElements.has(name) && (!closed || !t.raw) {
		t.over[name]++
		t.deep = true
		return
	}
	t.insert(n)
	if voidElements.has(name) && !t.raw || closed && (t.raw || name == "svg" || name == "math") {
		return
	}
	t.open = append(t.open, n)
	t.raw = t.raw || name == "svg" || name == "math"
}

// startInHead puts an element into the head. An element with content is open until its end
// tag.
func (t *tree) startInHead(n *html.Node) {
	t.head.AppendChild(n)
	if !voidElements.has(n.Data) {
		t.open = append(t.open, n)
	}
}

func addAttr(attrs []html.Attribute, key, val string) []html.Attribute {
	for i := range attrs {
		if attrs[i].Key == key {
			return attrs
		}
	}
	return append(attrs, html.Attribute{Key: key, Val: val})
}

// implied closes the elements that a start tag closes, and opens the parts of a table that
// the tag implies.
func (t *tree) implied(name string) {
	if closesP.has(name) {
		t.closeUpTo("p", stopP)
	}
	switch name {
	case "h1", "h2", "h3", "h4", "h5", "h6":
		if isHeading(t.top()) {
			t.pop(len(t.open) - 1)
		}
	case "li":
		t.closeUpTo("li", stopLi)
	case "dt", "dd":
		t.closeUpTo("dt", stopDd)
		t.closeUpTo("dd", stopDd)
	case "option", "optgroup":
		if is(t.top(), "option") {
			t.pop(len(t.open) - 1)
		}
	case "a", "button", "nobr":
		t.endFormatting(name)
	case "tr":
		t.backTo("tbody", "thead", "tfoot", "table")
		if is(t.top(), "table") {
			t.push("tbody")
		}
	case "td", "th":
		t.backTo("tr", "tbody", "thead", "tfoot", "table")
		if is(t.top(), "table") {
			t.push("tbody")
		}
		if is(t.top(), "tbody", "thead", "tfoot") {
			t.push("tr")
		}
	case "tbody", "thead", "tfoot", "caption", "colgroup":
		t.backTo("table")
	}
}

func (t *tree) push(name string) {
	if len(t.open) >= maxDepth {
		return
	}
	n := element(name)
	t.nodes++
	t.top().AppendChild(n)
	t.open = append(t.open, n)
}

// pop closes the open elements from index i on.
func (t *tree) pop(i int) {
	if i < 1 {
		return
	}
	clear(t.open[i:])
	t.open = t.open[:i]
	if t.raw {
		t.raw = false
		for _, n := range t.open {
			t.raw = t.raw || is(n, "svg", "math")
		}
	}
}

// closeUpTo closes the nearest open element of a name, unless an element of stop is
// between.
func (t *tree) closeUpTo(name string, stop *wordSet) {
	for i := len(t.open) - 1; i > 0; i-- {
		if t.open[i].Data == name {
			t.pop(i)
			return
		}
		if stop.has(t.open[i].Data) {
			return
		}
	}
}

// backTo makes the nearest element with one of these names the open element, if there is
// one inside the current table.
func (t *tree) backTo(names ...string) {
	for i := len(t.open) - 1; i > 0; i-- {
		if is(t.open[i], names...) {
			t.pop(i + 1)
			return
		}
		if is(t.open[i], "table", "template") {
			return
		}
	}
}

// end handles an end tag. It ignores an end tag without a start tag.
func (t *tree) end(name string) {
	switch {
	case t.over[name] > 0:
		t.over[name]--
		return
	case name == "br":
		t.insert(element("br"))
		t.nodes++
		return
	case name == "head" || name == "html" || name == "body":
		t.inner = t.inner || name == "head"
		return
	case isHeadingName(name):
		t.endHeading()
		return
	case formatting.has(name):
		t.endFormatting(name)
		return
	}
	part := tableParts.has(name)
	for i := len(t.open) - 1; i > 0; i-- {
		n := t.open[i]
		if n.Data == name {
			t.pop(i)
			return
		}
		if is(n, "template") || !part && is(n, "td", "th", "caption", "table") || part && is(n, "table") {
			return
		}
	}
}

// endHeading closes the open heading, whatever its level, as the standard requires.
func (t *tree) endHeading() {
	for i := len(t.open) - 1; i > 0; i-- {
		if isHeading(t.open[i]) {
			t.pop(i)
			return
		}
		if stopP.has(t.open[i].Data) {
			return
		}
	}
}

// endFormatting closes a formatting element. If blocks were opened inside of it, they stay
// open, and the element gets no further children.
func (t *tree) endFormatting(name string) {
	blocks := false
	for i := len(t.open) - 1; i > 0; i-- {
		n := t.open[i]
		switch {
		case n.Data == name && !blocks:
			t.pop(i)
			return
		case n.Data == name:
			t.open = append(t.open[:i], t.open[i+1:]...)
			return
		case is(n, "td", "th", "caption", "table", "template"):
			return
		case !formatting.has(n.Data) && n.Data != "span":
			blocks = true
		}
	}
}

func isHeadingName(name string) bool {
	return len(name) == 2 && name[0] == 'h' && name[1] >= '1' && name[1] <= '6'
}

func isHeading(n *html.Node) bool { return n.Type == html.ElementNode && isHeadingName(n.Data) }

// set returns a set of words, which is only made when it is first used: few commands of the
// program convert a page.
func set(words string) *wordSet { return &wordSet{words: words} }

type wordSet struct {
	words string
	once  sync.Once
	all   map[string]bool // nil until it is first used
}

func (s *wordSet) has(word string) bool { return s.made()[word] }

func (s *wordSet) made() map[string]bool {
	s.once.Do(func() {
		s.all = make(map[string]bool)
		for w := range strings.FieldsSeq(s.words) {
			s.all[w] = true
		}
	})
	return s.all
}

// Tables of the HTML standard, sections 13.1.2 and 13.2.6.4.
var (
	voidElements = set("area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr")
	ofHead       = set("title meta link base script style noscript template")
	inTable      = set("caption colgroup col tbody thead tfoot tr td th script style template input form")
	tableParts   = set("table tbody thead tfoot tr td th caption colgroup")
	formatting   = set("a b big button code em font i nobr s small strike strong tt u")
	closesP      = set(`address article aside blockquote center details dialog dir div dl dd dt fieldset figcaption figure
		footer form h1 h2 h3 h4 h5 h6 header hgroup hr li listing main menu nav ol p plaintext pre search section summary table ul xmp`)
	stopP  = set("applet caption html table td th marquee object template button svg math")
	stopLi = set(`ul ol menu dir applet caption html table td th marquee object template article aside blockquote
		body details fieldset figure footer header main nav section dl`)
	stopDd = set(`dl applet caption html table td th marquee object template article aside blockquote body details
		fieldset figure footer header main nav section ul ol`)
)
