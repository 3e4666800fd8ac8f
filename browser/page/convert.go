package page

import (
	"context"
	"errors"
	"net/url"
)

func convert(ctx context.Context, src []byte, o Options) (*Page, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.MaxBytes < 0 || o.Timeout < 0 {
		return nil, errors.New("convert a page: a limit below zero")
	}
	t, err := parse(ctx, src)
	if err != nil {
		return nil, err
	}
	p := &Page{Kind: KindHTML, Format: Text, URL: o.URL, Bytes: len(src)}
	dropHidden(t.doc, stylesOf(t.doc))
	base, _ := url.Parse(o.URL)
	n := articleOf(t.doc, base)
	p.Extraction = ByReadability
	if n == nil {
		n = t.body
		p.Extraction = ByWhole
	}
	sweep(n)
	p.Content = plainText(n)
	return p, nil
}
