// Package picture makes images fit for an agent: it recognizes formats by their first
// bytes, refuses by the header an image that would not fit into memory, turns an image that
// a camera took on its side, cuts out a region, and scales down to a budget of pixels and
// bytes.
//
// All input is hostile. Nothing is decoded before the whole header was checked, and only a
// few images are decoded at the same time.
package picture

import (
	"context"
	"fmt"
	"image"
)

// The bounds of one image.
const (
	MaxSource     = 20 << 20  // bytes of a file
	MaxMemory     = 256 << 20 // bytes of memory for decoding
	DefaultPixels = 1_500_000 // pixels of the shown image
	MaxPixels     = 8_000_000
	MinPixels     = 64
	MaxBytes      = 3_750_000 // bytes of the shown image: 5 MB as base64
)

// Info is what the header of an image says.
type Info struct {
	Format        string // jpeg, png, gif, webp, bmp or svg
	Width, Height int    // size as it is shown, after Turned; 0 for svg
	Turned        int    // EXIF orientation, 1 to 8; 1 means not turned
	Animated      bool   // whether it is animated; only its first picture is read
	Bytes         int

	memory int64 // bytes of memory for decoding
	lossy  bool  // whether it is a photo, and not a drawing
}

// Error says why an image is not shown. The texts are for the agent.
type Error struct {
	Format  string // format of the image; empty if it is not known
	Message string // what is wrong, without a full stop
	Instead string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Options say what part of an image is shown, and how large.
type Options struct {
	Region    image.Rectangle // in pixels of the image as it is shown; empty for the whole image
	MaxPixels int             // 0 means DefaultPixels
}

// Shown is an image that fits.
type Shown struct {
	Data          []byte
	MIME          string
	Width, Height int
	Region        image.Rectangle // region of the original that it shows
	Info          Info            // header of the original
	Whole         bool            // whether Data is the original file
}

// Maker makes images fit, a few at the same time. Its methods are safe for concurrent use.
type Maker struct{ slots chan struct{} }

// New returns a Maker that decodes up to atOnce images at the same time, at least one. Each
// needs up to MaxMemory, and up to as much again while it is made smaller.
func New(atOnce int) *Maker { return &Maker{slots: make(chan struct{}, max(1, atOnce))} }

// Make makes an image fit. Its error is an *Error, or the cause of ctx. For an SVG, it is
// an *Error with the format "svg": the SVG must be drawn first.
func (m *Maker) Make(ctx context.Context, src []byte, o Options) (*Shown, error) {
	info, err := Examine(src)
	if err != nil {
		return nil, err
	}
	if info.Format == "svg" {
		return nil, &Error{Format: "svg", Message: "the image is an SVG, which has to be drawn by a browser first", Instead: "read its text"}
	}
	if o.MaxPixels == 0 {
		o.MaxPixels = DefaultPixels
	}
	if o.MaxPixels < MinPixels || o.MaxPixels > MaxPixels {
		return nil, &Error{Format: info.Format, Message: fmt.Sprintf("max_pixels: got %d, want %d to %d", o.MaxPixels, MinPixels, MaxPixels)}
	}
	all := image.Rect(0, 0, info.Width, info.Height)
	region := all
	if o.Region != (image.Rectangle{}) {
		if region = o.Region.Intersect(all); region.Empty() {
			return nil, &Error{Format: info.Format, Message: fmt.Sprintf("region: it lies outside the image, which has %d x %d pixels", info.Width, info.Height)}
		}
	}
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	img, err := decode(src, info)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// It is certain only now that the file is not damaged.
	if region == all && info.Turned == 1 && info.Format != "bmp" && info.Width*info.Height <= o.MaxPixels && len(src) <= MaxBytes {
		return &Shown{Data: src, MIME: "image/" + info.Format, Width: info.Width, Height: info.Height, Region: all, Info: info, Whole: true}, nil
	}
	return fit(ctx, img, info, region, o.MaxPixels)
}
