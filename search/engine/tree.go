package engine

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Bounds of a tree. Elements beyond them are left out: selectors walk a tree with a call
// per level, and pages of results are far below both bounds.
const (
	maxDepth = 256
	maxNodes = 60_000
)

// slab is the number of nodes and attributes that are allocated together. Making a tree
// takes nine tenths of the time for reading a page, and most of that was allocation.
const slab = 256

// page is a body as a tree.
type page struct {
	top       *html.Node
	ends      map[*html.Node]bool // elements that are still open at the end of the text
	open      int                 // number of elements in ends
	counted   bool                // reports whether links has counted
	elsewhere int                 // result of links

	unended bool // reports whether the body ends in a tag, or <body> was opened and neither it nor the page was closed
}

// grower makes a tree of a body. It does not follow the HTML specification: it closes the
// elements that real pages leave open, and does not move nodes as browsers do, because
// selectors only ask which element contains which.
type grower struct {
	scan   scanner
	stack  []*html.Node // the document and all open elements, the innermost last
	nodes  []html.Node
	attrs  []html.Attribute
	made   int
	ignore string // name of the element whose content is skipped, or ""
	depth  int    // number of open elements with that name
	over   int    // number of open elements beyond maxDepth
	begun  bool   // reports whether there is a <body>
	ended  bool   // reports whether <body> or <html> was closed
}

// grow makes a tree of HTML, or of XML with its names in lower case.
func grow(text string, xml bool) *page {
	g := &grower{scan: scanner{text: text, xml: xml}}
	top := g.node(html.DocumentNode)
	g.stack = append(make([]*html.Node, 0, 64), top)
	for more := true; more && g.made < maxNodes; {
		switch g.scan.next() {
		case pieceEnd:
			more = false
		case pieceText:
			g.takeText()
		case pieceStart:
			g.open()
		case pieceClose:
			g.close(g.scan.name)
		}
	}
	p := &page{top: top, ends: make(map[*html.Node]bool, len(g.stack)), open: len(g.stack) - 1}
	for _, n := range g.stack[1:] {
		p.ends[n] = true
	}
	p.unended = g.scan.cut || g.made >= maxNodes || g.begun && !g.ended
	return p
}

// node returns a new node of the slab.
func (g *grower) node(kind html.NodeType) *html.Node {
	if len(g.nodes) == 0 {
		g.nodes = make([]html.Node, slab)
	}
	n := &g.nodes[0]
	g.nodes = g.nodes[1:]
	n.Type = kind
	g.made++
	return n
}

// add adds n as the last child of the innermost open element.
func (g *grower) add(n *html.Node) {
	p := g.stack[len(g.stack)-1]
	n.Parent = p
	n.PrevSibling = p.LastChild
	if p.LastChild != nil {
		p.LastChild.NextSibling = n
	} else {
		p.FirstChild = n
	}
	p.LastChild = n
}

// takeText adds a text. Space between two tags becomes at most one space.
func (g *grower) takeText() {
	if g.ignore != "" {
		return
	}
	text := g.scan.value
	if strings.TrimSpace(text) == "" {
		if last := g.stack[len(g.stack)-1].LastChild; last == nil || last.Type == html.TextNode {
			return
		}
		text = " "
	}
	n := g.node(html.TextNode)
	n.Data = text
	g.add(n)
}

// open adds an element for a start tag.
func (g *grower) open() {
	name, closed := g.scan.name, g.scan.closed
	kind := atom.Lookup([]byte(name))
	if g.ignore != "" {
		if name == g.ignore && !closed {
			g.depth++
		}
		return
	}
	if !g.scan.xml {
		g.imply(kind)
		closed = closed && foreign(kind) || void[kind]
		if passed[kind] && !closed {
			g.ignore, g.depth = name, 1
		}
	}
	g.begun = g.begun || kind == atom.Body
	n := g.node(html.ElementNode)
	n.Data, n.DataAtom = name, kind
	g.attributes(n)
	g.add(n)
	switch {
	case closed:
	case len(g.stack) < maxDepth:
		g.stack = append(g.stack, n)
	default:
		g.over++ // too deep: what follows becomes siblings instead of children
	}
}

// attributes gives n the attributes of the tag that selectors may need.
func (g *grower) attributes(n *html.Node) {
	const most = 64
	if len(g.attrs) < most {
		g.attrs = make([]html.Attribute, slab+most)
	}
	count := 0
	for count < most {
		key, value, ok := g.scan.attribute()
		if !ok {
			break
		}
		if key == "style" && undisplayed(value) {
			key, value = "hidden", ""
		}
		if !unselected(key) {
			g.attrs[count] = html.Attribute{Key: key, Val: value}
			count++
		}
	}
	n.Attr = g.attrs[:count:count]
	g.attrs = g.attrs[count:]
}

// unselected reports whether an attribute is for browsers only. Such attributes are long
// and in every tag.
func unselected(key string) bool {
	switch key {
	case "style", "srcset", "sizes", "d", "width", "height", "loading", "decoding", "tabindex", "target":
		return true
	}
	return strings.HasPrefix(key, "on")
}

// undisplayed reports whether a style hides its element from people.
func undisplayed(style string) bool {
	if !strings.Contains(style, ":") {
		return false
	}
	style = strings.ToLower(strings.Join(strings.Fields(style), ""))
	return strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden")
}

// close closes the innermost open element with this name, and all elements in it. An end
// tag that closes nothing is skipped.
func (g *grower) close(name string) {
	if g.ignore != "" {
		if name != g.ignore {
			return
		}
		if g.depth--; g.depth > 0 {
			return
		}
		g.ignore = ""
	}
	kind := atom.Lookup([]byte(name))
	g.ended = g.ended || kind == atom.Body || kind == atom.Html
	if g.over > 0 {
		g.over--
		return
	}
	for i := len(g.stack) - 1; i > 0; i-- {
		if g.stack[i].Data == name {
			g.stack = g.stack[:i]
			return
		}
		// A stray </p> or </div> in a cell closes nothing outside the cell.
		if !g.scan.xml && walls[g.stack[i].DataAtom] && !frames[kind] {
			return
		}
	}
}

// imply closes the element that a start tag ends although its end tag is missing.
func (g *grower) imply(kind atom.Atom) {
	e, some := endings[kind]
	if !some {
		return
	}
	for i := len(g.stack) - 1; i > 0; i-- {
		a := g.stack[i].DataAtom
		if e.ends[a] {
			g.stack = g.stack[:i]
			return
		}
		if e.within[a] || walls[a] && !frames[kind] {
			return
		}
	}
}

type atoms map[atom.Atom]bool

func set(list ...atom.Atom) atoms {
	s := make(atoms, len(list))
	for _, a := range list {
		s[a] = true
	}
	return s
}

var (
	// void are elements without content.
	void = set(atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input,
		atom.Link, atom.Meta, atom.Param, atom.Source, atom.Track, atom.Wbr)
	// passed are elements whose content no selector needs.
	passed = set(atom.Script, atom.Style, atom.Svg, atom.Template, atom.Iframe, atom.Object)
	// walls are elements that protect what is around them: an end tag inside closes nothing
	// outside of them.
	walls = set(atom.Td, atom.Th, atom.Table)
	// frames are elements whose tags are not stopped by walls.
	frames = set(atom.Td, atom.Th, atom.Tr, atom.Tbody, atom.Thead, atom.Tfoot, atom.Table, atom.Body, atom.Html)

	endsLi   = set(atom.Li)
	endsDt   = set(atom.Dt, atom.Dd)
	endsTr   = set(atom.Tr)
	endsTd   = set(atom.Td, atom.Th)
	endsP    = set(atom.P)
	endsA    = set(atom.A)
	endsOpt  = set(atom.Option)
	inList   = set(atom.Ul, atom.Ol, atom.Menu)
	inDl     = set(atom.Dl)
	inTable  = set(atom.Table)
	inP      = set(atom.Button, atom.Li, atom.Div, atom.Section, atom.Article)
	inSelect = set(atom.Select)
	// A link in a link ends the outer link, unless a block is between them: the end tag of
	// that block would then close a block further out.
	inA = set(atom.Div, atom.Li, atom.P, atom.Section, atom.Article, atom.Ul, atom.H1, atom.H2, atom.H3, atom.H4)
)

// ending contains the open elements that a start tag ends although their end tags are
// missing, and the elements within which it ends nothing outside.
type ending struct{ ends, within atoms }

var endings = func() map[atom.Atom]ending {
	all := map[atom.Atom]ending{
		atom.Li: {endsLi, inList}, atom.Dt: {endsDt, inDl}, atom.Dd: {endsDt, inDl}, atom.Option: {endsOpt, inSelect},
		atom.Tr: {endsTr, inTable}, atom.Td: {endsTd, inTable}, atom.Th: {endsTd, inTable}, atom.A: {endsA, inA},
	}
	for _, block := range []atom.Atom{
		atom.P, atom.Div, atom.Ul, atom.Ol, atom.Table, atom.Section, atom.Article, atom.Form, atom.H1, atom.H2, atom.H3,
		atom.H4, atom.Hr, atom.Pre, atom.Blockquote, atom.Header, atom.Footer, atom.Main, atom.Nav,
	} {
		all[block] = ending{endsP, inP}
	}
	return all
}()

// foreign reports whether a tag can close itself in HTML.
func foreign(kind atom.Atom) bool { return kind == atom.Svg || kind == atom.Math }
