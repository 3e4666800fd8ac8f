package act

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"

	cdpio "github.com/chromedp/cdproto/io"
	"github.com/chromedp/cdproto/page"
)

// upload hands a file to a field. It goes through our world in pieces: Chrome is given
// no path.
func (t hand) upload(ctx context.Context, p *plan, s Step) error {
	if s.File == nil || s.File.Content == nil {
		return &Refusal{Reason: ReasonArgument, Message: "the file of the upload is not there", Next: "name a file that exists"}
	}
	most := min(t.e.opts.Uploads, MaxUploadParts)
	data, err := io.ReadAll(io.LimitReader(s.File.Content, most+1)) //nolint:forbidigo // it is bounded
	if err != nil {
		return &Refusal{Reason: ReasonFailed, Message: "the file cannot be read", Next: "name another file", Err: err}
	}
	if int64(len(data)) > most {
		return &Refusal{Reason: ReasonLimit, Message: "the file has more than " + bytesOf(most), Next: "upload a smaller file"}
	}
	const piece = 512 << 10
	f := p.aim.frame
	if err := t.run(ctx, f, "belljar.parts = []", nil); err != nil {
		return t.fault(err, false)
	}
	for len(data) > 0 {
		n := min(len(data), piece)
		script := `belljar.parts.push(Uint8Array.from(atob("` + base64.StdEncoding.EncodeToString(data[:n]) + `"), (c) => c.charCodeAt(0))); 0`
		if err := t.run(ctx, f, script, nil); err != nil {
			return t.fault(err, false)
		}
		data = data[n:]
	}
	var ok bool
	script := fmt.Sprintf(`((e, name) => {
  const parts = belljar.parts;
  delete belljar.parts;
  if (!belljar.is(e, "input") || e.type !== "file" || !belljar.dom.connected(e) || belljar.off(e)) return false;
  const t = new DataTransfer();
  if (e.multiple) for (const f of e.files) t.items.add(f);
  t.items.add(new File(parts, name));
  e.files = t.files;
  e.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
  e.dispatchEvent(new Event("change", { bubbles: true }));
  return true;
})(belljar.element(%d), %s)`, p.aim.local, argument(fileName(s.File.Name)))
	if err := t.run(ctx, f, script, &ok); err != nil {
		return t.fault(err, true)
	}
	if !ok {
		return &Refusal{Reason: ReasonStale, Message: t.nameOf(p.aim) + " takes no file any more", Next: "look again"}
	}
	return nil
}

// pdf prints the page.
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
		part, err := call(ctx, t.e.g, s, cdpio.Read, cdpio.ReadParams{Handle: r.Stream, Size: 1 << 20})
		if err != nil {
			return nil, t.fault(err, false)
		}
		text := part.Data
		if part.Base64encoded {
			if text, err = base64.StdEncoding.DecodeString(string(part.Data)); err != nil {
				return nil, t.fault(err, false)
			}
		}
		if b.Len()+len(text) > MaxPDF {
			return nil, &Refusal{Reason: ReasonLimit, Message: "the PDF has more than " + bytesOf(MaxPDF), Next: "take a picture"}
		}
		b.Write(text)
		if part.EOF {
			return &File{Name: fileName(t.e.masks.hide(t.title()) + ".pdf"), Type: "application/pdf", Size: int64(b.Len()), Content: io.NopCloser(&b)}, nil
		}
	}
}

// title is that of the last look.
func (t eye) title() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.looks.kept != nil && t.looks.kept.title != "" {
		return t.looks.kept.title
	}
	return "page"
}
