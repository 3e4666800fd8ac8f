package act

import (
	"bytes"
	"context"
	"io"

	cdpio "github.com/chromedp/cdproto/io"
	"github.com/chromedp/cdproto/page"
)

// pdf prints the page into a PDF file.
func (t eye) pdf(ctx context.Context) (*File, error) {
	ctx, cancel := context.WithTimeout(ctx, OpenTime)
	defer cancel()
	if t.secretive() || t.e.masks.any() {
		return nil, &Refusal{Reason: ReasonSecret, Message: "a secret was typed in this session, and a PDF would contain it", Next: "take a picture"}
	}
	s := t.session()
	r, err := begin(t.e.g, s, page.PrintToPDF, page.PrintToPDFParams{TransferMode: page.PrintToPDFTransferModeReturnAsStream, PrintBackground: new(true)}).waitOr(ctx, t.stop())
	if err != nil {
		return nil, t.fault(err, false)
	}
	defer func() { begin(t.e.g, s, cdpio.Close, cdpio.CloseParams{Handle: r.Stream}).drop() }()
	var b bytes.Buffer
	for {
		part, err := call(ctx, t.e.g, s, cdpio.Read, cdpio.ReadParams{Handle: r.Stream, Size: 128 << 10})
		if err != nil {
			return nil, t.fault(err, false)
		}
		if b.Len()+len(part.Data) > MaxPDF {
			return nil, &Refusal{Reason: ReasonLimit, Message: "the PDF has more than " + bytesOf(MaxPDF), Next: "take a picture"}
		}
		b.Write(part.Data)
		if part.EOF {
			return &File{Name: fileName(t.e.masks.hide(t.title()) + ".pdf"), Type: "application/pdf", Size: int64(b.Len()), Content: io.NopCloser(&b)}, nil
		}
	}
}

// title returns the title that the last look saw, or "page".
func (t eye) title() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.looks.kept != nil && t.looks.kept.title != "" {
		return t.looks.kept.title
	}
	return "page"
}
