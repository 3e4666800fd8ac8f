package engine

import (
	"net/url"
	"strings"
	"sync"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// driftLinks is the number of links to other sites that make a page a page of results: a
// page that refuses us links only to the engine's own help and terms.
const driftLinks = 4

// tree returns the body as a tree.
func (b *body) tree() *page {
	if b.page == nil {
		b.page = grow(b.text, b.format == formatXML)
	}
	return b.page
}

// readTree takes the results from HTML or XML.
func (b *body) readTree(a *answer) {
	t := b.tree()
	for _, f := range a.items {
		items := f.place.findAll(t.top)
		for i, n := range items {
			if i >= 4*maxHits || len(b.parsed.Hits) >= maxHits {
				break
			}
			if within(n, items[:i]) || skipped(n, a.skip) {
				continue
			}
			b.readItem(t, a, n)
		}
		if len(b.parsed.Hits) > 0 {
			break
		}
	}
	if len(b.parsed.Hits) > 0 {
		b.parsed.Suggestion, _ = fieldOf(t.top, a.suggestion, maxTitle, a.drop)
		b.parsed.Answer, _ = fieldOf(t.top, a.reply, maxSnippet, a.drop)
	}
}

// readItem takes one result from its node.
func (b *body) readItem(t *page, a *answer, n *html.Node) {
	title, at := fieldOf(n, a.title, maxTitle, a.drop)
	if t.ends[at] {
		return // the text ends within the title, so the title is incomplete
	}
	link, from := fieldOf(n, a.url, maxURL, nil)
	snippet, _ := fieldOf(n, a.snippet, maxSnippet, a.drop)
	if b.format == formatXML {
		if t.ends[from] {
			return // in XML the address is a text, so it may be incomplete too
		}
		title, snippet = plain(title, maxTitle), plain(snippet, maxSnippet) // feeds contain markup as text
	}
	date, _ := fieldOf(n, a.date, maxTitle, nil)
	b.hit(title, link, snippet, date)
}

// fieldOf returns the text of the first alternative that has one, and its node.
func fieldOf(n *html.Node, alternatives []finder, most int, drop []matcher) (string, *html.Node) {
	for _, f := range alternatives {
		at := f.place.find(n)
		if at == nil {
			continue
		}
		if s := f.place.value(at, most, drop); s != "" {
			return s, at
		}
	}
	return "", nil
}

// within reports whether n is inside the last of the items before it: a cluster of results
// is one item, and the items in it are not separate.
func within(n *html.Node, before []*html.Node) bool {
	if len(before) == 0 {
		return false
	}
	last := before[len(before)-1]
	for p := n.Parent; p != nil; p = p.Parent {
		if p == last {
			return true
		}
	}
	return false
}

// skipped reports whether an item is left out: n itself or a node in it has one of the
// proofs.
func skipped(n *html.Node, skip []proof) bool {
	for _, p := range skip {
		if p.inTree(n, func(*html.Node) bool { return false }) != nil || p.like == nil && p.at.selector != nil && p.at.selector.Match(n) {
			return true
		}
	}
	return false
}

// anchors matches all links of a page.
var anchors = sync.OnceValue(func() cascadia.Selector { return cascadia.MustCompile("a[href]") })

// links returns how many links may be titles of results: links with a text to other sites,
// only a few for each host, and all links in a heading, wherever they lead.
func (t *page) links(b *body) int {
	if t.counted {
		return t.elsewhere
	}
	t.counted = true
	hosts := make(map[string]int)
	for _, n := range cascadia.QueryAll(t.top, anchors()) {
		host, heading := b.elsewhere(n), headed(n)
		if _, result := b.engine.result(attribute(n, "href"), b.base); !result || host == "" && !heading {
			continue
		}
		if !heading && hosts[host] >= driftLinks/2 || inside(n, atom.Footer) || textOf(n, maxTitle, nil) == "" {
			continue
		}
		hosts[host]++
		t.elsewhere++
	}
	return t.elsewhere
}

// elsewhere returns the host that a link leads to. It returns "" if the host is the
// engine's, or if a result cannot have such an address.
func (b *body) elsewhere(a *html.Node) string {
	address, ok := b.engine.result(attribute(a, "href"), b.base)
	if !ok {
		return ""
	}
	u, err := url.Parse(address)
	if err != nil || b.engine.akin(u.Hostname()) {
		return ""
	}
	return u.Hostname()
}

// headed reports whether a link is in a heading.
func headed(n *html.Node) bool {
	return inside(n, atom.H2) || inside(n, atom.H3) || inside(n, atom.H4)
}

// inside reports whether n is in an element of this kind.
func inside(n *html.Node, kind atom.Atom) bool {
	for p := n.Parent; p != nil; p = p.Parent {
		if p.DataAtom == kind {
			return true
		}
	}
	return false
}

// akin reports whether a host belongs to the engine or to the company that runs it: the
// last two labels are those of one of its hosts.
func (e *Engine) akin(host string) bool {
	host = owner(host)
	for _, own := range e.Hosts {
		if owner(own) == host {
			return true
		}
	}
	for _, own := range e.kin {
		if owner(own) == host {
			return true
		}
	}
	return false
}

// owner returns the last two labels of a host name, which roughly name its owner.
func owner(host string) string {
	labels := strings.Split(strings.ToLower(host), ".")
	return strings.Join(labels[max(0, len(labels)-2):], ".")
}
