package page

import (
	"net/url"

	"codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
)

// articleOf is the article of a page as readability finds it, or nil.
func articleOf(doc *html.Node, base *url.URL) *html.Node {
	p := readability.NewParser()
	p.KeepClasses = true
	p.DisableJSONLD = true
	a, err := p.ParseDocument(doc, base)
	if err != nil || a.Node == nil {
		return nil
	}
	return a.Node
}
