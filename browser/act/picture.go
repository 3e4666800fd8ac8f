package act

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"

	"github.com/chromedp/cdproto/page"
)

// taken is the place of the page that the last picture of a tab shows. Points of that
// picture refer to it.
type taken struct {
	loader string
	x, y   int
}

// picture returns a picture of the window as it is now. Steps may name points of it.
func (t eye) picture(ctx context.Context) (*Look, error) {
	out, of, err := t.shot(ctx)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.last = of
	t.mu.Unlock()
	return out, nil
}

// shot returns a picture of the window as it is now, and the place of the page that it
// shows.
func (t eye) shot(ctx context.Context) (*Look, *taken, error) {
	ctx, cancel := context.WithTimeout(ctx, LookPatience)
	defer cancel()
	f, ok := t.frameOf(t.target)
	if !ok {
		return nil, nil, t.fault(errLeft, false)
	}
	at, err := t.scrolled(ctx, f)
	if err != nil {
		return nil, nil, t.fault(err, false)
	}
	secret := t.e.masks.any()
	params := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatJpeg, Quality: new(int64(70)), OptimizeForSpeed: new(true)}
	var before []image.Rectangle
	if secret {
		// A secret is painted over before the picture is compressed, because in a JPEG it
		// would show at the edges of the paint.
		params.Format, params.Quality = page.CaptureScreenshotFormatPng, nil
		if before, err = t.secretSpots(ctx); err != nil {
			return nil, nil, t.fault(err, false)
		}
	}
	r, err := begin(t.e.g, t.session(), page.CaptureScreenshot, params).waitOr(ctx, t.stop())
	if err != nil {
		return nil, nil, t.fault(err, false)
	}
	out := &Look{Tab: t.name, URL: shownURL(t.e.masks.hide(t.url()))}
	data, err := pixels(r.Data)
	if err != nil {
		return nil, nil, t.fault(err, false)
	}
	size, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || size.Width*size.Height > MaxPicture {
		return nil, nil, &Refusal{Reason: ReasonLimit, Message: "the picture is too large", Next: "look at the page", Err: err}
	}
	if secret {
		// A secret that moved while the picture was taken is painted over at both
		// places.
		after, err := t.secretSpots(ctx)
		if err != nil {
			return nil, nil, t.fault(err, false)
		}
		if data, err = painted(data, append(before, after...)); err != nil {
			return nil, nil, t.fault(err, false)
		}
	}
	out.Picture, out.Width, out.Height = data, size.Width, size.Height
	return out, &taken{f.loader, at[0], at[1]}, nil
}

// pixels returns the bytes of a picture.
func pixels[T ~[]byte | ~string](data T) ([]byte, error) {
	b := []byte(data)
	if len(b) > 3 && (b[0] == 0xff || b[0] == 0x89) {
		return b, nil
	}
	return base64.StdEncoding.AppendDecode(nil, b)
}

// painted paints over places of a PNG and returns the result as a JPEG.
func painted(data []byte, spots []image.Rectangle) ([]byte, error) {
	src, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read picture: %w", err)
	}
	img := image.NewRGBA(src.Bounds())
	draw.Draw(img, img.Bounds(), src, src.Bounds().Min, draw.Src)
	for _, r := range spots {
		draw.Draw(img, r.Inset(-3).Intersect(img.Bounds()), image.NewUniform(color.Gray{Y: 40}), image.Point{}, draw.Src)
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 70}); err != nil {
		return nil, fmt.Errorf("write picture: %w", err)
	}
	return b.Bytes(), nil
}

// scrolled returns how far the page is scrolled.
func (t eye) scrolled(ctx context.Context, f frame) (at [2]int, err error) {
	err = t.run(ctx, f, "[Math.round(scrollX), Math.round(scrollY)]", &at)
	return at, err
}

// freshPicture refuses points of the last picture if it does not show the page as it is
// now.
func (t eye) freshPicture(ctx context.Context) error {
	old := func(what string) error {
		return &Refusal{Reason: ReasonStale, Message: what, Next: "take a picture with: at picture"}
	}
	t.mu.Lock()
	last := t.last
	t.mu.Unlock()
	f, ok := t.frameOf(t.target)
	if last == nil || !ok {
		return old("no picture of this tab was taken")
	}
	at, err := t.scrolled(ctx, f)
	switch {
	case err != nil:
		return t.fault(err, false)
	case last.loader != f.loader:
		return old("the last picture shows a page that the tab has left")
	case last.x != at[0] || last.y != at[1]:
		return old("the page was scrolled since the last picture")
	}
	return nil
}

// textRun is a piece of text of a page. The page knows it by its index.
type textRun struct {
	Text string     `json:"t"`
	Box  [4]float64 `json:"b"` // place of an input (left, top, width, height); zero for other text
}

// The bounds of the texts of a frame in which secrets are looked for.
const (
	maxRuns     = 50_000
	maxRunChars = 2 << 20
)

// errUnsearched is the refusal of a picture of a page that is larger than these bounds, or
// has more frames than are looked at.
func errUnsearched() error {
	return &Refusal{
		Reason: ReasonLimit, Message: "a secret was typed in this session, and the page has too much text or too many frames to find each place that shows the secret, so no picture is taken",
		Next: "look at the page",
	}
}

// secretSpots returns the places in the window where a secret is shown. No secret is sent
// to a page for that: the page returns its texts, and they are searched here. A frame whose
// texts cannot all be read is covered as a whole.
func (t eye) secretSpots(ctx context.Context) ([]image.Rectangle, error) {
	var out []image.Rectangle
	frames := t.tree()
	if len(frames) >= MaxFrames { // there may be more
		return nil, errUnsearched()
	}
	origin := map[string][2]float64{}
	if len(frames) > 0 {
		origin[frames[0].id] = [2]float64{}
	}
	for i, f := range frames {
		off, known := origin[f.id]
		var box [4]float64
		if i > 0 {
			// If the frame still exists, it may show a secret, so the picture needs
			// its place.
			unplaced := func(err error) error {
				if _, there := t.frameOf(f.id); !there {
					return nil
				}
				return fmt.Errorf("find the place of a frame: %w", cmp.Or(err, errLeft))
			}
			parent, ok := t.frameOf(f.parent)
			if !ok {
				if err := unplaced(nil); err != nil {
					return nil, err
				}
				continue
			}
			p, pk := origin[f.parent]
			n := t.owner(ctx, f, parent)
			if err := t.run(ctx, parent, fmt.Sprintf(`((e) => { const r = belljar.dom.rect(e); return [r.left + e.clientLeft, r.top + e.clientTop, r.width, r.height] })(belljar.element(%d))`, n), &box); err != nil || !pk {
				if err := unplaced(err); err != nil {
					return nil, err
				}
				continue
			}
			off, known = [2]float64{p[0] + box[0], p[1] + box[1]}, true
			origin[f.id] = off
		}
		var is struct {
			Runs  []textRun `json:"runs"`
			Whole bool      `json:"whole"`
		}
		err := t.run(ctx, f, fmt.Sprintf("belljar.runs(%d, %d)", maxRuns, maxRunChars), &is)
		if err == nil && !is.Whole {
			err = errUnsearched()
		}
		runs := is.Runs
		if err != nil {
			if i == 0 || !known || errors.Is(err, errBlocked) || errors.Is(err, errGone) {
				return nil, err
			}
			out = append(out, rectangle(off[0], off[1], box[2], box[3]))
			continue
		}
		var ask [][3]int
		for k, r := range runs {
			if r.Box != [4]float64{} {
				if len(t.e.masks.spots(r.Text)) > 0 {
					out = append(out, rectangle(off[0]+r.Box[0], off[1]+r.Box[1], r.Box[2], r.Box[3]))
				}
				continue
			}
			for _, s := range t.e.masks.spots(r.Text) {
				ask = append(ask, [3]int{k, utf16Len(r.Text[:s[0]]), utf16Len(r.Text[:s[1]])})
			}
		}
		// A secret may be spread over runs that stand beside each other.
		ask = append(ask, t.spread(runs)...)
		if len(ask) == 0 {
			continue
		}
		var boxes [][4]float64
		if err := t.run(ctx, f, "belljar.boxes("+argument(ask)+")", &boxes); err != nil {
			return nil, err
		}
		for _, b := range boxes {
			out = append(out, rectangle(off[0]+b[0], off[1]+b[1], b[2], b[3]))
		}
	}
	return out, nil
}

// spread finds secrets that are spread over several runs, regardless of the space between
// the runs.
func (t eye) spread(runs []textRun) (ask [][3]int) {
	var all []byte
	var from []int // index of the run of each byte
	for k, r := range runs {
		if r.Box != [4]float64{} {
			continue
		}
		for i := range len(r.Text) {
			all = append(all, r.Text[i])
			from = append(from, k)
		}
	}
	for _, s := range t.e.masks.spots(string(all)) {
		last := -1
		for _, k := range from[s[0]:s[1]] {
			if k != last {
				ask = append(ask, [3]int{k, 0, utf16Len(runs[k].Text)})
				last = k
			}
		}
	}
	return ask
}

func utf16Len(s string) (n int) {
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

func rectangle(x, y, w, h float64) image.Rectangle {
	clamp := func(v float64) int { return int(max(-1e6, min(1e6, v))) }
	return image.Rect(clamp(x), clamp(y), clamp(x+w)+1, clamp(y+h)+1)
}
