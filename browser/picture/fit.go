package picture

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"

	"golang.org/x/image/bmp"
	"golang.org/x/image/draw"
	"golang.org/x/image/webp"
)

// decode decodes an image that Examine has accepted.
func decode(src []byte, info Info) (image.Image, error) {
	var img image.Image
	var err error
	switch r := bytes.NewReader(src); info.Format {
	case "jpeg":
		img, err = jpeg.Decode(r)
	case "png":
		img, err = png.Decode(r)
	case "gif":
		img, err = gif.Decode(r) // only the first picture
	case "webp":
		img, err = webp.Decode(r)
	default:
		img, err = bmp.Decode(r)
	}
	if err != nil {
		return nil, &Error{Format: info.Format, Message: fmt.Sprintf("the %s cannot be decoded: %v", info.Format, err), Instead: "make it again; the file is damaged or truncated"}
	}
	return img, nil
}

// fit cuts out the region, scales it down to the budget and turns it. If the result has too
// many bytes, it is made even smaller.
func fit(ctx context.Context, img image.Image, info Info, region image.Rectangle, pixels int) (*Shown, error) {
	lossy := info.lossy
	raw := unturn(region, info).Add(img.Bounds().Min).Intersect(img.Bounds())
	if raw.Empty() { // the header of the gif has another size than its first picture
		return nil, &Error{Format: info.Format, Message: "region: the first picture of the image has no pixels there"}
	}
	for {
		w, h := scaled(raw.Dx(), raw.Dy(), pixels)
		small := turn(scale(img, raw, w, h), info.Turned)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		data, mime, err := encode(small, lossy)
		if err != nil {
			return nil, &Error{Format: info.Format, Message: "the image cannot be written: " + err.Error()}
		}
		if len(data) <= MaxBytes {
			return &Shown{Data: data, MIME: mime, Width: small.Rect.Dx(), Height: small.Rect.Dy(), Region: region, Info: info}, nil
		}
		if pixels = min(pixels, w*h) / 2; pixels < MinPixels {
			return nil, &Error{Format: info.Format, Message: "the image has more bytes than may be shown"}
		}
	}
}

// scaled returns the largest size of the same proportion with at most this many pixels.
func scaled(w, h, pixels int) (int, int) {
	if w*h <= pixels {
		return w, h
	}
	f := math.Sqrt(float64(pixels) / (float64(w) * float64(h)))
	sw, sh := max(1, int(float64(w)*f)), max(1, int(float64(h)*f))
	// If an image is one pixel thin, its other side gets all pixels.
	return min(sw, max(1, pixels/sh)), min(sh, max(1, pixels/sw))
}

// scale makes a part of an image smaller, in two steps: in the first, each pixel is the
// mean of a block of whole pixels; the second shrinks the result by less than a half. In
// one step, it would take several times the memory of the image.
func scale(img image.Image, part image.Rectangle, w, h int) *image.RGBA {
	kx, ky := max(1, part.Dx()/w), max(1, part.Dy()/h)
	mean := image.NewRGBA(image.Rect(0, 0, max(1, part.Dx()/kx), max(1, part.Dy()/ky)))
	strip := image.NewRGBA(image.Rect(0, 0, part.Dx(), ky))
	for y := range mean.Rect.Dy() {
		draw.Draw(strip, strip.Rect, img, image.Pt(part.Min.X, part.Min.Y+y*ky), draw.Src)
		row := mean.Pix[y*mean.Stride:][:mean.Stride]
		for x := range mean.Rect.Dx() {
			var sum [4]int
			for sy := range ky {
				block := strip.Pix[sy*strip.Stride+4*x*kx:][:4*kx]
				for i, v := range block {
					sum[i%4] += int(v)
				}
			}
			for i := range sum {
				row[4*x+i] = uint8(sum[i] / (kx * ky))
			}
		}
	}
	if mean.Rect.Dx() == w && mean.Rect.Dy() == h {
		return mean
	}
	small := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.ApproxBiLinear.Scale(small, small.Rect, mean, mean.Rect, draw.Src, nil)
	return small
}

// encode writes a drawing as a PNG. It writes a photo as a JPEG, and also a drawing that is
// too large as a PNG.
func encode(img *image.RGBA, lossy bool) ([]byte, string, error) {
	var b bytes.Buffer
	if !lossy {
		if err := png.Encode(&b, img); err != nil {
			return nil, "", err
		}
		if b.Len() <= MaxBytes {
			return b.Bytes(), "image/png", nil
		}
		b.Reset()
	}
	flat := image.NewRGBA(img.Bounds()) // a JPEG has no transparent pixels
	draw.Draw(flat, flat.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(flat, flat.Bounds(), img, image.Point{}, draw.Over)
	if err := jpeg.Encode(&b, flat, &jpeg.Options{Quality: 85}); err != nil {
		return nil, "", err
	}
	return b.Bytes(), "image/jpeg", nil
}

// turn turns an image as EXIF says.
func turn(img *image.RGBA, how int) *image.RGBA {
	if how <= 1 || how > 8 {
		return img
	}
	w, h := img.Rect.Dx(), img.Rect.Dy()
	tw, th := w, h
	if how >= 5 {
		tw, th = h, w
	}
	out := image.NewRGBA(image.Rect(0, 0, tw, th))
	for y := range th {
		for x := range tw {
			sx, sy := source(x, y, w, h, how)
			copy(out.Pix[out.PixOffset(x, y):], img.Pix[img.PixOffset(sx, sy):][:4])
		}
	}
	return out
}

// source returns the place, in an image of w x h, of a pixel of the turned image.
func source(x, y, w, h, how int) (int, int) {
	switch how {
	case 2:
		return w - 1 - x, y
	case 3:
		return w - 1 - x, h - 1 - y
	case 4:
		return x, h - 1 - y
	case 5:
		return y, x
	case 6:
		return y, h - 1 - x
	case 7:
		return w - 1 - y, h - 1 - x
	case 8:
		return w - 1 - y, x
	}
	return x, y
}

// unturn returns the place in the file of a region of the image as it is shown.
func unturn(r image.Rectangle, info Info) image.Rectangle {
	w, h := info.Width, info.Height
	if info.Turned >= 5 {
		w, h = h, w
	}
	ax, ay := source(r.Min.X, r.Min.Y, w, h, info.Turned)
	bx, by := source(r.Max.X-1, r.Max.Y-1, w, h, info.Turned)
	return image.Rect(min(ax, bx), min(ay, by), max(ax, bx)+1, max(ay, by)+1)
}
