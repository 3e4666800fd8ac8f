package page

import (
	"context"
	"errors"
)

func convert(ctx context.Context, src []byte, o Options) (*Page, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.MaxBytes < 0 || o.Timeout < 0 {
		return nil, errors.New("convert a page: a limit below zero")
	}
	return &Page{Kind: KindText, Format: Text, URL: o.URL, Content: string(src), Extraction: ByWhole, Bytes: len(src)}, nil
}
