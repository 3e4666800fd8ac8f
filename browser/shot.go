package browser

import (
	"context"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
)

// Bounds of a picture, in CSS pixels.
const (
	maxWindow  = 4096
	maxPicture = 16384
	shotPixels = 64 << 20
)

// shoot takes a picture of the page.
func (t *tab) shoot(ctx context.Context, s *Shot) ([]byte, error) {
	p := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng}
	if s.JPEG > 0 {
		p.Format, p.Quality = page.CaptureScreenshotFormatJpeg, new(int64(s.JPEG))
	}
	if s.Full {
		m, err := call(ctx, t.ch.conn, t.session, page.GetLayoutMetrics, cdp.Empty{})
		if err != nil {
			return nil, t.cause(err)
		}
		if size := m.CSSContentSize; size != nil {
			width := min(size.Width, maxWindow)
			height := min(size.Height, maxPicture, float64(shotPixels)/max(width, 1))
			p.CaptureBeyondViewport = new(true)
			p.Clip = &page.Viewport{Width: max(width, 1), Height: max(height, 1), Scale: 1}
		}
	}
	shot, err := call(ctx, t.ch.conn, t.session, page.CaptureScreenshot, p)
	if err != nil {
		return nil, t.cause(err)
	}
	return shot.Data, nil
}
