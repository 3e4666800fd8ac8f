package engine

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Bounds of a tree. Elements beyond them are left out: selectors walk a tree
// with a call per level, and a page of results is far from either.
const (
	maxDepth = 256
	maxNodes = 60_000
)

// slab is how many nodes and attributes are made at once. Making a tree is
// nine tenths of the work of reading a page, and most of that was allocation.
const slab = 256

// page is a body as a tree.
type page struct {
	top       *html.Node
	ends      map[*html.Node]bool // elements that are open where the text ends
	open      int                 // how many
	counted   bool                // links has counted
	elsewhere int                 // what it counted

	unended bool // the body ends in a tag, or neither <body> nor the page is closed
}

// grower makes a tree of a body. It does not follow the specification
// of HTML: it closes what the end tags of real pages leave open, and does not
// move nodes about as browsers do, for selectors ask only what contains what.
type grower struct {
	scan   scanner
	stack  []*html.Node // the document, and all that is open below
	nodes  []html.Node
	attrs  []html.Attribute
	made   int
	ignore string // the element whose content is passed over
	depth  int    // how often ignore is open
	over   int    // elements that are open beyond maxDepth
	begun  bool   // there is a <body>
	ended  bool   // and its end, or that of the page
}

// grow makes a tree of HTML, or of XML with its names in small letters.
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

// node makes a node in a slab.
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

// add puts n below the innermost open element.
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

// takeText takes a text. Space between two tags becomes one space at most.
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

// open takes a start tag.
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
		g.over++ // too deep to go on down: what follows becomes siblings
	}
}

// attributes gives n those of the tag that anybody selects by.
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

// unselected reports whether an attribute is for browsers only: these are long
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

// close takes an end tag: it closes the innermost open element of the name,
// with all in it. One that closes nothing is passed over.
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

// imply closes the elements that a start tag ends without saying so.
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
	// void elements have no content.
	void = set(atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input,
		atom.Link, atom.Meta, atom.Param, atom.Source, atom.Track, atom.Wbr)
	// passed are elements whose content nobody selects.
	passed = set(atom.Script, atom.Style, atom.Svg, atom.Template, atom.Iframe, atom.Object)
	// walls are what an end tag inside does not reach over.
	walls = set(atom.Td, atom.Th, atom.Table)
	// frames are the elements that may end what is in a cell.
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
	// A link in a link ends the outer one, but not over a block: the end tag
	// of that block would then close one further out.
	inA = set(atom.Div, atom.Li, atom.P, atom.Section, atom.Article, atom.Ul, atom.H1, atom.H2, atom.H3, atom.H4)
)

// ending is what a start tag ends without saying so: which open element, and
// which elements hide it.
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

// foreign reports whether a tag may close itself in HTML.
func foreign(kind atom.Atom) bool { return kind == atom.Svg || kind == atom.Math }
