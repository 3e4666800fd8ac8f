package page

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/net/html"
)

// maxEntries bounds the entries of a feed that are shown.
const maxEntries = 500

// entry is one entry of a feed.
type entry struct {
	title, link, date, author string
	body                      string // HTML or text
}

// feed contains what RSS, Atom and JSON Feed have in common.
type feed struct {
	title, link, about, language string
	entries                      []entry
	more                         int // number of entries that were left out
}

// convertFeed writes a feed as a page: a heading and a section for each entry.
func convertFeed(ctx context.Context, p *Page, text []byte, o Options) error {
	var f feed
	if head := strings.TrimSpace(string(text[:min(len(text), 200)])); strings.HasPrefix(head, "{") {
		var ok bool
		if f, ok = jsonFeed(text); !ok {
			convertJSON(p, text)
			return nil
		}
	} else {
		root := parseXML(text)
		f = xmlFeed(ctx, root)
	}
	body := element("body")
	line := func(to *html.Node, name string, kids ...*html.Node) {
		to.AppendChild(element(name, kids...))
	}
	line(body, "h1", textNode(firstFilled(f.title, o.URL)))
	if f.about != "" {
		line(body, "p", textNode(f.about))
	}
	nodes := 0
	for i, e := range f.entries {
		if nodes > maxNodes {
			f.more += len(f.entries) - i
			break
		}
		title := textNode(firstFilled(oneLine(e.title), e.date, "Untitled"))
		if e.link != "" {
			a := element("a", title)
			setAttr(a, "href", e.link)
			line(body, "h2", a)
		} else {
			line(body, "h2", title)
		}
		if by := strings.Join(filled(e.date, e.author), " · "); by != "" {
			line(body, "p", textNode(by))
		}
		if e.body == "" {
			continue
		}
		t, err := parse(ctx, []byte(e.body))
		if err != nil {
			return err
		}
		nodes += t.nodes
		div := element("div")
		for c := t.body.FirstChild; c != nil; c = t.body.FirstChild {
			t.body.RemoveChild(c)
			div.AppendChild(c)
		}
		p.Hidden += dropHidden(div, nil)
		body.AppendChild(div)
	}
	if f.more > 0 {
		p.Truncated = true
		p.Notes = append(p.Notes, fmt.Sprintf("The feed has %d more entries; they were left out.", f.more))
	}
	doc := &html.Node{Type: html.DocumentNode}
	doc.AppendChild(body)
	base := baseOf(doc, firstFilled(absolute(baseOf(doc, o.URL), f.link), o.URL))
	p.Hidden += dropSigns(doc)
	codeBlocks(body)
	formulas(body)
	media(body, base)
	sweep(body)
	shallow(body)
	p.Title, p.Language = shorten(oneLine(f.title), 300), f.language
	return write(ctx, p, body, base, o)
}

func filled(values ...string) []string {
	var out []string
	for _, v := range values {
		if v = oneLine(v); v != "" {
			out = append(out, v)
		}
	}
	return out
}

// local returns the name of an element without its prefix.
func local(n *html.Node) string {
	if i := strings.IndexByte(n.Data, ':'); i >= 0 {
		return n.Data[i+1:]
	}
	return n.Data
}

// child returns the first child of this name, or nil.
func child(n *html.Node, name string) *html.Node {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode && c.Data == name {
			return c
		}
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode && local(c) == name {
			return c
		}
	}
	return nil
}

// value returns the text of the first child with one of these names that has text.
func value(n *html.Node, names ...string) string {
	for _, name := range names {
		if c := child(n, name); c != nil {
			if s := strings.TrimSpace(rawTextOf(c)); s != "" {
				return s
			}
		}
	}
	return ""
}

// xmlFeed reads RSS 0.9 to 2.0 and Atom.
func xmlFeed(ctx context.Context, root *html.Node) feed {
	var f feed
	channel := first(root, func(n *html.Node) bool { return local(n) == "channel" || local(n) == "feed" })
	if channel == nil {
		channel = root
	}
	f.title, f.about = oneLine(value(channel, "title")), oneLine(plainOf(ctx, value(channel, "description", "subtitle")))
	f.link, f.language = linkOf(channel), firstFilled(value(channel, "language"), attr(channel, "xml:lang"))
	for _, it := range all(root, func(n *html.Node) bool { return local(n) == "item" || local(n) == "entry" }) {
		if len(f.entries) >= maxEntries {
			f.more++
			continue
		}
		e := entry{
			title: plainOf(ctx, value(it, "title")), link: linkOf(it),
			date:   firstFilled(value(it, "pubDate"), value(it, "published"), value(it, "updated"), value(it, "date")),
			author: value(it, "creator", "author"),
			body:   value(it, "content:encoded", "encoded"),
		}
		for _, name := range []string{"content", "description", "summary"} {
			if e.body == "" {
				if c := child(it, name); c != nil {
					e.body = contentOf(c)
				}
			}
		}
		f.entries = append(f.entries, e)
	}
	return f
}

// contentOf returns the HTML of an entry, which is written as text or as elements.
func contentOf(n *html.Node) string {
	if attr(n, "type") == "xhtml" || first(n, func(n *html.Node) bool { return is(n, "div", "p") }) != nil {
		var b strings.Builder
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if html.Render(&b, c) != nil {
				return lineOf(n)
			}
		}
		return b.String()
	}
	s := strings.TrimSpace(rawTextOf(n))
	if attr(n, "type") == "text" || !strings.ContainsAny(s, "<&") {
		return html.EscapeString(s)
	}
	return s
}

// plainOf returns the text of a title that may contain HTML.
func plainOf(ctx context.Context, s string) string {
	if !strings.ContainsAny(s, "<&") {
		return s
	}
	t, err := parse(ctx, []byte(s))
	if err != nil {
		return s
	}
	return lineOf(t.body)
}

// linkOf returns the URL to which a feed or an entry leads.
func linkOf(n *html.Node) string {
	best := ""
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type != html.ElementNode || local(c) != "link" {
			continue
		}
		href := firstFilled(attr(c, "href"), strings.TrimSpace(rawTextOf(c)))
		if rel := attr(c, "rel"); href != "" && (best == "" || rel == "alternate") && rel != "self" && rel != "enclosure" {
			best = href
		}
	}
	if best == "" {
		if g := child(n, "guid"); g != nil && attr(g, "isPermaLink") != "false" {
			best = strings.TrimSpace(rawTextOf(g))
		}
	}
	return best
}

// jsonFeed reads a JSON Feed.
func jsonFeed(text []byte) (feed, bool) {
	var v struct {
		Version  string `json:"version"`
		Title    string `json:"title"`
		Home     string `json:"home_page_url"`
		About    string `json:"description"`
		Language string `json:"language"`
		Items    []struct {
			URL       string `json:"url"`
			Title     string `json:"title"`
			HTML      string `json:"content_html"`
			Text      string `json:"content_text"`
			Summary   string `json:"summary"`
			Published string `json:"date_published"`
			Authors   []struct {
				Name string `json:"name"`
			} `json:"authors"`
		} `json:"items"`
	}
	if json.Unmarshal(text, &v) != nil || !strings.Contains(v.Version, "jsonfeed.org") {
		return feed{}, false
	}
	f := feed{title: v.Title, link: v.Home, about: v.About, language: v.Language}
	for i, it := range v.Items {
		if i >= maxEntries {
			f.more = len(v.Items) - i
			break
		}
		e := entry{title: it.Title, link: it.URL, date: it.Published, body: it.HTML}
		if e.body == "" {
			e.body = html.EscapeString(firstFilled(it.Text, it.Summary))
		}
		if len(it.Authors) > 0 {
			e.author = it.Authors[0].Name
		}
		f.entries = append(f.entries, e)
	}
	return f, true
}
