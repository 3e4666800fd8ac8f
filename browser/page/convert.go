package page

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
)

func convert(ctx context.Context, src []byte, o Options) (*Page, error) {
	switch {
	case o.MaxBytes < 0:
		return nil, fmt.Errorf("convert a page: MaxBytes is %d, want 0 or more", o.MaxBytes)
	case o.Timeout < 0:
		return nil, fmt.Errorf("convert a page: Timeout is %s, want 0 or more", o.Timeout)
	}
	switch o.Format {
	case "":
		o.Format = Markdown
	case Markdown, Text, HTML:
	default:
		return nil, fmt.Errorf("convert a page to %q: want text, html or markdown", o.Format)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()

	p := &Page{URL: o.URL, Format: o.Format, Extraction: ByWhole}
	if len(src) > o.MaxBytes {
		src = src[:o.MaxBytes]
		p.Truncated = true
		p.Notes = append(p.Notes, fmt.Sprintf("The document is longer than %d bytes; the rest was not read.", o.MaxBytes))
	}
	p.Bytes = len(src)
	var err error
	if p.Kind, err = kindOf(src, o); err != nil {
		return nil, err
	}
	if p.Kind == KindPDF {
		if err := convertPDF(ctx, p, src); err != nil {
			return nil, err
		}
		p.Title, _ = visible(p.Title)
		return p, nil
	}
	text, name, guessed := decode(src, o.ContentType, o.Decoded)
	p.Charset = name
	if guessed {
		p.Notes = append(p.Notes, "The page names no charset, or a wrong one; it was read as "+name+", which fits its bytes.")
	}
	switch p.Kind {
	case KindHTML:
		err = convertHTML(ctx, p, text, o)
	case KindFeed:
		err = convertFeed(ctx, p, text, o)
	case KindXML:
		convertXML(p, text)
	case KindJSON:
		convertJSON(p, text)
	case KindMarkdown:
		convertMarkdown(p, text, o)
	case KindText, KindPDF:
		convertText(p, text)
	}
	if err != nil {
		return nil, err
	}
	p.Title, _ = visible(p.Title)
	return p, nil
}

// convertText uses plain text as it is, without characters that do not show.
func convertText(p *Page, text []byte) {
	s, hidden := visible(strings.ReplaceAll(string(text), "\r\n", "\n"))
	p.Content, p.Hidden, p.Format = s, hidden, Text
}

// convertHTML does the steps for HTML that the package comment lists.
func convertHTML(ctx context.Context, p *Page, text []byte, o Options) error {
	t, err := parse(ctx, text)
	if err != nil {
		return err
	}
	flatten(t, func(src string) *html.Node {
		frame, err := parse(ctx, []byte(src))
		if err != nil {
			return nil
		}
		t.nodes += frame.nodes
		t.cut = t.cut || frame.cut || t.nodes > maxNodes
		if t.nodes > maxNodes {
			return nil
		}
		frame.root.RemoveChild(frame.body)
		frame.body.Data, frame.body.DataAtom = "div", atomOf("div")
		return frame.body
	})
	if t.cut {
		p.Truncated = true
		p.Notes = append(p.Notes, fmt.Sprintf("The page has more than %d elements; the rest was left out.", maxNodes))
	}
	a := aboutOf(t)
	p.Title, p.Language, p.Published = a.title, a.language, a.published
	p.NeedsScript = needsScript(t)
	base := baseOf(t.doc, o.URL)
	p.Hidden = dropHidden(t.doc, stylesOf(t.doc)) + dropSigns(t.doc)
	dropConsent(t.body)
	documentation := isDocumentation(t.doc)
	dropNoise(t.body)
	codeBlocks(t.body)
	formulas(t.body)
	media(t.body, base)
	permalinks(t.body)
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	next := nextPage(t.body, base)
	n, err := choose(t, p, base, o, documentation, a.article)
	if err != nil {
		return err
	}
	if !documentation && p.Extraction != BySelector {
		turnPage(n, next)
	}
	sweep(n)
	shallow(n)
	return write(ctx, p, n, base, o)
}

// choose returns the part of the page that becomes the content. It is the router of the
// package comment.
func choose(t *tree, p *Page, base *url.URL, o Options, documentation, declared bool) (*html.Node, error) {
	if o.Selector != "" {
		return selected(t, p, o.Selector)
	}
	if o.Whole {
		p.Extraction = ByWhole
		return t.body, nil
	}
	if documentation {
		return mainContent(t, p), nil
	}
	doc := clone(t.doc)
	if found := articleOf(doc, base, declared); found != nil && letters(plainText(found)) >= 200 {
		p.Extraction = ByReadability
		return found, nil
	}
	return mainContent(t, p), nil
}

func selected(t *tree, p *Page, selector string) (*html.Node, error) {
	sel, err := cascadia.ParseGroup(selector)
	if err != nil {
		return nil, fmt.Errorf("selector %q: %w", selector, err)
	}
	top := element("div")
	var found []*html.Node
	walk(t.body, func(n *html.Node) bool {
		if n.Type == html.ElementNode && sel.Match(n) {
			found = append(found, n)
			return false // everything in it comes with it
		}
		return true
	})
	if len(found) == 0 {
		return nil, fmt.Errorf("selector %q %w", selector, ErrNoMatch)
	}
	for _, n := range found {
		if n == t.body {
			p.Extraction = BySelector
			return t.body, nil
		}
		remove(n)
		top.AppendChild(n)
	}
	p.Extraction = BySelector
	return top, nil
}

// mainContent returns the marked content of a page with its title, or the whole page
// without its navigation.
func mainContent(t *tree, p *Page) *html.Node {
	n := mainOf(t.body)
	p.Extraction = ByMain
	if n == t.body {
		p.Extraction = ByWhole
		dropChrome(n)
		return n
	}
	title := titleBlock(t.body, n)
	// This must happen before forms are removed, since a form shows where readers write.
	if dropComments(n) {
		p.Notes = append(p.Notes, "The comments of readers under the page are left out; the whole page contains them.")
	}
	dropChrome(n)
	if title == nil {
		return n
	}
	dropChrome(title)
	remove(title)
	if !is(title, "h1") && first(title, isHeading) == nil {
		h := element("h1")
		for c := title.FirstChild; c != nil; c = title.FirstChild {
			title.RemoveChild(c)
			h.AppendChild(c)
		}
		title = h
	}
	n.InsertBefore(title, n.FirstChild)
	return n
}
