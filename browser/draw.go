package browser

import (
	"context"
	"encoding/base64"
	"errors"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"

	"belljar.dev/policies"
)

// Bounds of a drawing.
const (
	maxSVG        = 8 << 20 // bytes
	maxDrawSide   = 8192    // pixels of one side
	maxDrawPixels = 32_000_000
	ownSide       = 1024 // pixels of one side, for a drawing without a size
)

// drawScript shows an image and waits until it can be drawn. An SVG that is loaded as an
// image runs no script and fetches nothing.
const drawScript = `(async (source, w, h) => {
  const img = new Image();
  img.src = source;
  try { await img.decode(); } catch { return { width: 0, height: 0 }; }
  if (!w || !h) { w = img.naturalWidth || OWN; h = img.naturalHeight || OWN; }
  const less = Math.min(1, SIDE / w, SIDE / h, Math.sqrt(PIXELS / (w * h)));
  w = Math.max(1, Math.round(w * less)); h = Math.max(1, Math.round(h * less));
  img.style.cssText = "position:fixed;left:0;top:0;margin:0;width:" + w + "px;height:" + h + "px";
  document.documentElement.replaceChildren(img);
  await new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)));
  return { width: w, height: h };
})`

// Draw returns a drawing as a PNG. The Chrome that draws it has no network. Errors are of
// type *Error.
func (p *Pool) Draw(ctx context.Context, g policies.Grant, d Drawing) (*Drawn, error) {
	orElse(&d.Timeout, DefaultTimeout)
	if len(d.SVG) > maxSVG || d.Width < 0 || d.Height < 0 || d.Width > maxDrawSide || d.Height > maxDrawSide ||
		(d.Width == 0) != (d.Height == 0) || d.Width*d.Height > maxDrawPixels || d.Timeout < 0 || d.Timeout > MaxTimeout {
		return nil, &Error{Kind: KindRefused, Message: "the drawing is too large: a browser draws at most 8 MiB of SVG, 8192 pixels on a side and 32 million pixels in all"}
	}
	var drawn *Drawn
	_, err := p.lend(ctx, g, true, d.Timeout, nil, func(ctx context.Context, t *tab, _ int, _ bool) error {
		var err error
		if drawn, err = t.draw(ctx, d); err != nil {
			err = t.explain(ctx, err, Request{})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return drawn, nil
}

func (t *tab) draw(ctx context.Context, d Drawing) (*Drawn, error) {
	script := "(() => { const OWN = " + argument(ownSide) + ", SIDE = " + argument(maxDrawSide) + ", PIXELS = " + argument(maxDrawPixels) + "; return (" + drawScript + ")(" +
		argument("data:image/svg+xml;base64,"+base64.StdEncoding.EncodeToString(d.SVG)) + "," + argument(d.Width) + "," + argument(d.Height) + "); })()"
	var size struct {
		Width  int `json:"width"`
		Height int `json:"height"`
	}
	soon, cancel := t.soon(ctx)
	defer cancel()
	if _, err := t.sign().wait(soon); err != nil {
		return nil, t.cause(err)
	}
	if err := t.evaluate(ctx, script, &size); err != nil {
		return nil, err
	}
	if size.Width == 0 {
		return nil, &Error{Kind: KindRefused, Message: "the browser cannot draw this SVG; it is not well-formed, or not an SVG"}
	}
	clear := begin(t.ch.conn, t.session, emulation.SetDefaultBackgroundColorOverride, emulation.SetDefaultBackgroundColorOverrideParams{Color: &cdp.RGBA{A: 0.001}})
	sized := begin(t.ch.conn, t.session, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: int64(size.Width), Height: int64(size.Height), DeviceScaleFactor: 1,
	})
	_, e1 := clear.wait(ctx)
	_, e2 := sized.wait(ctx)
	if err := errors.Join(e1, e2); err != nil {
		return nil, t.cause(err)
	}
	shot, err := call(ctx, t.ch.conn, t.session, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: page.CaptureScreenshotFormatPng, Clip: &page.Viewport{Width: float64(size.Width), Height: float64(size.Height), Scale: 1},
	})
	if err != nil {
		return nil, t.cause(err)
	}
	return &Drawn{PNG: shot.Data, Width: size.Width, Height: size.Height}, nil
}
