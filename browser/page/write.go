package page

import (
	"bytes"
	"context"
	"fmt"
	"net/url"

	"golang.org/x/net/html"
)

// write writes the chosen part of a page as the content of p.
func write(ctx context.Context, p *Page, n *html.Node, base *url.URL, o Options) error {
	links(n, base, o.OmitLinks)
	if o.OmitImages {
		for _, img := range named(n, "img") {
			remove(img)
		}
	}
	collect(p, n)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.Headings = heads(n)
	switch o.Format {
	case Text:
		for _, a := range named(n, "a") {
			if hasAttr(a, embedAttr) {
				remove(a)
			}
		}
		p.Content = plainText(n)
	case HTML:
		var b bytes.Buffer
		plain(n)
		if err := html.Render(&b, n); err != nil {
			return fmt.Errorf("write the page as HTML: %w", err)
		}
		p.Content = b.String() + "\n"
	case Markdown:
		apartLinks(n)
		localLinks(n, o.URL)
		if o.ShortLinks {
			p.References = shortLinks(n, o.URL)
		}
		content, err := markdownOf(ctx, n)
		if err != nil {
			return fmt.Errorf("write the page as markdown: %w", err)
		}
		p.Content = content
	}
	place(p.Headings, p.Content, o.Format)
	return nil
}

// collect lists the links and images of the content.
func collect(p *Page, n *html.Node) {
	seen := make(map[string]bool)
	walk(n, func(n *html.Node) bool {
		switch {
		case is(n, "a") && attr(n, "href") != "" && len(p.Links) < MaxLinks:
			if href := attr(n, "href"); !seen[href] {
				seen[href] = true
				p.Links = append(p.Links, Link{Text: shorten(lineOf(n), 200), URL: href})
			}
		case is(n, "img") && attr(n, "src") != "" && len(p.Images) < MaxLinks:
			if src := attr(n, "src"); !seen["!"+src] {
				seen["!"+src] = true
				p.Images = append(p.Images, Image{Alt: shorten(oneLine(attr(n, "alt")), 300), URL: src})
			}
		}
		return true
	})
}
