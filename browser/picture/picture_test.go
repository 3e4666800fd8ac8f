package picture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/image/bmp"
)

// quarters returns an image with a colour in each quarter: red, green, blue, white.
func quarters(w, h int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := []color.RGBA{{255, 0, 0, 255}, {0, 255, 0, 255}, {0, 0, 255, 255}, {255, 255, 255, 255}}[x*2/w+2*(y*2/h)]
			img.SetRGBA(x, y, c)
		}
	}
	return img
}

func encodeAs(t testing.TB, format string, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch format {
	case "png":
		err = png.Encode(&b, img)
	case "jpeg":
		err = jpeg.Encode(&b, img, &jpeg.Options{Quality: 95})
	case "gif":
		err = gif.Encode(&b, img, nil)
	case "bmp":
		err = bmp.Encode(&b, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// exif returns an APP1 segment with an orientation.
func exif(order binary.ByteOrder, how uint16) []byte {
	b := []byte("Exif\x00\x00")
	mark := "II*\x00"
	if order == binary.ByteOrder(binary.BigEndian) {
		mark = "MM\x00*"
	}
	tiff := append([]byte(mark), make([]byte, 4+2+12+4)...)
	order.PutUint32(tiff[4:], 8)
	order.PutUint16(tiff[8:], 1)
	order.PutUint16(tiff[10:], 0x0112)
	order.PutUint16(tiff[12:], 3)
	order.PutUint32(tiff[14:], 1)
	order.PutUint16(tiff[18:], how)
	b = append(b, tiff...)
	head := []byte{0xff, 0xe1, 0, 0}
	binary.BigEndian.PutUint16(head[2:], uint16(len(b)+2))
	return append(head, b...)
}

func withEXIF(src []byte, order binary.ByteOrder, how uint16) []byte {
	return append(append(bytes.Clone(src[:2]), exif(order, how)...), src[2:]...)
}

func TestFormats(t *testing.T) {
	m := New(1)
	img := quarters(40, 20)
	for _, format := range []string{"png", "jpeg", "gif", "bmp"} {
		src := encodeAs(t, format, img)
		s, err := m.Make(t.Context(), src, Options{})
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if s.Info.Format != format || s.Width != 40 || s.Height != 20 || s.Info.Width != 40 || s.Whole != (format != "bmp") {
			t.Errorf("%s: got %+v", format, s.Info)
		}
		if s.Whole && (!bytes.Equal(s.Data, src) || s.MIME != "image/"+format) {
			t.Errorf("%s: it is not the file as it was", format)
		}
	}
	for format, src := range map[string]string{
		"tiff": "II*\x00xxxx", "heic": "\x00\x00\x00\x18ftypheic", "avif": "\x00\x00\x00\x18ftypavif", "psd": "8BPS", "ico": "\x00\x00\x01\x00", "jpeg xl": "\xff\x0a",
	} {
		_, err := m.Make(t.Context(), []byte(src), Options{})
		if e, ok := errors.AsType[*Error](err); !ok || e.Format != format || !strings.Contains(e.Message, format+" images are not supported") {
			t.Errorf("%s: got %v", format, err)
		}
	}
	for src, svg := range map[string]bool{
		"<svg>": true, "\xef\xbb\xbf<?xml version='1.0'?>\n<!-- x --><!DOCTYPE svg PUBLIC 'x'>\n<svg xmlns='x'>": true,
		"<svgx>": false, "<html><svg>": false, "": false, "GIF88a": false, "plain": false, "<!-- ": false,
	} {
		_, err := m.Make(t.Context(), []byte(src), Options{})
		if e, ok := errors.AsType[*Error](err); !ok || (e.Format == "svg") != svg {
			t.Errorf("%q: got %v", src, err)
		}
	}
}

// TestOrientation checks that a picture that a camera took on its side is shown upright,
// and that a region is a region of the image as it is shown.
func TestOrientation(t *testing.T) {
	m := New(1)
	src := encodeAs(t, "jpeg", quarters(64, 32))
	near := func(a, b color.Color) bool {
		ar, ag, ab, _ := a.RGBA()
		br, bg, bb, _ := b.RGBA()
		d := func(x, y uint32) bool { return max(x, y)-min(x, y) < 0x3000 }
		return d(ar, br) && d(ag, bg) && d(ab, bb)
	}
	red, green, blue, white := color.RGBA{255, 0, 0, 255}, color.RGBA{0, 255, 0, 255}, color.RGBA{0, 0, 255, 255}, color.RGBA{255, 255, 255, 255}
	for how, corners := range map[uint16][4]color.RGBA{
		2: {green, red, white, blue}, 3: {white, blue, green, red}, 4: {blue, white, red, green},
		5: {red, blue, green, white}, 6: {blue, red, white, green}, 7: {white, green, blue, red}, 8: {green, white, red, blue},
	} {
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			s, err := m.Make(t.Context(), withEXIF(src, order, how), Options{})
			if err != nil {
				t.Fatal(err)
			}
			w, h := 64, 32
			if how >= 5 {
				w, h = h, w
			}
			if s.Width != w || s.Height != h || s.Info.Turned != int(how) {
				t.Fatalf("%d: got %d x %d, %+v", how, s.Width, s.Height, s.Info)
			}
			img, _, err := image.Decode(bytes.NewReader(s.Data))
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range corners {
				x, y := w/4+(i%2)*w/2, h/4+(i/2)*h/2
				if !near(img.At(x, y), want) {
					t.Errorf("%d: corner %d is %v, want %v", how, i, img.At(x, y), want)
				}
				part, err := m.Make(t.Context(), withEXIF(src, order, how), Options{Region: image.Rect(x-2, y-2, x+2, y+2)})
				if err != nil || part.Width != 4 || part.Height != 4 {
					t.Fatalf("%d: region: %v, %+v", how, err, part)
				}
				small, _, err := image.Decode(bytes.NewReader(part.Data))
				if err != nil || !near(small.At(1, 1), want) {
					t.Errorf("%d: region at corner %d: %v, want %v", how, i, small.At(1, 1), want)
				}
			}
		}
	}
	if s, err := m.Make(t.Context(), withEXIF(src, binary.LittleEndian, 99), Options{}); err != nil || s.Info.Turned != 1 {
		t.Errorf("an orientation that is none: %v, %+v", err, s)
	}
}

func TestBudget(t *testing.T) {
	m := New(1)
	src := encodeAs(t, "png", quarters(3000, 2000))
	s, err := m.Make(t.Context(), src, Options{MaxPixels: 10_000})
	if err != nil || s.Width*s.Height > 10_000 || s.Width*s.Height < 9_000 || s.Info.Width != 3000 || s.Whole || s.MIME != "image/png" {
		t.Fatalf("got %v, %+v", err, s)
	}
	img, err := png.Decode(bytes.NewReader(s.Data))
	if err != nil {
		t.Fatal(err)
	}
	if got := color.RGBAModel.Convert(img.At(s.Width-3, 3)); got != (color.RGBA{0, 255, 0, 255}) {
		t.Errorf("the corner is %v", got)
	}
	// Noise, which no PNG makes smaller, is written as a JPEG.
	noise := image.NewRGBA(image.Rect(0, 0, 2000, 2000))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise.Pix {
		noise.Pix[i] = byte(r.Uint32()) | 0x80
	}
	s, err = m.Make(t.Context(), encodeAs(t, "png", noise), Options{MaxPixels: MaxPixels})
	if err != nil || len(s.Data) > MaxBytes || s.MIME != "image/jpeg" {
		t.Errorf("got %v, %+v", err, s.Info)
	}
	line, err := m.Make(t.Context(), encodeAs(t, "png", quarters(60_000, 1)), Options{MaxPixels: 1000})
	if err != nil || line.Width*line.Height > 1000 || line.Height != 1 {
		t.Errorf("a line: got %v, %+v", err, line)
	}
	for _, o := range []Options{{MaxPixels: 1}, {MaxPixels: MaxPixels + 1}, {Region: image.Rect(5000, 0, 5001, 1)}} {
		if _, err := m.Make(t.Context(), src, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	if _, err := m.Make(t.Context(), make([]byte, MaxSource+1), Options{}); err == nil {
		t.Error("a file that is too large: no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.slots <- struct{}{} // another call is decoding
	if _, err := m.Make(ctx, src, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// pngHeader returns a PNG that claims a size and has no pixels.
func pngHeader(w, h uint32, depth byte) []byte {
	b := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	b = binary.BigEndian.AppendUint32(b, w)
	b = binary.BigEndian.AppendUint32(b, h)
	b = append(b, depth, 6, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[12:]))
}

// sof returns the frame header of a JPEG.
func sof(marker byte, w, h uint16, parts ...byte) []byte {
	b := []byte{0xff, 0xd8, 0xff, marker, 0, byte(8 + 3*len(parts)), 8, byte(h >> 8), byte(h), byte(w >> 8), byte(w), byte(len(parts))}
	for i, s := range parts {
		b = append(b, byte(i+1), s, 0)
	}
	return b
}

func webpOf(chunks ...string) []byte {
	body := "WEBP" + strings.Join(chunks, "")
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

func chunk(name, data string) string {
	return string(append(binary.LittleEndian.AppendUint32([]byte(name), uint32(len(data))), data...))
}

// TestBombs checks that images with few bytes and many pixels are refused because of their
// headers, before anything is decoded.
func TestBombs(t *testing.T) {
	huge := "\x00\x00\x00\x9d\x01\x2a\xff\x3f\xff\x3f" // a VP8 frame of 16383 x 16383
	many := sof(0xc2, 100, 100, 0x11)
	for range 200 {
		many = append(many, 0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0)
	}
	for name, src := range map[string][]byte{
		"png":               pngHeader(30000, 30000, 8),
		"png of 16 bits":    pngHeader(7000, 7000, 16),
		"png, int overflow": pngHeader(1<<31-1, 1<<31-1, 8),
		"jpeg":              sof(0xc0, 65535, 65535, 0x11, 0x11, 0x11),
		"progressive jpeg":  sof(0xc2, 8000, 6000, 0x11, 0x11, 0x11),
		"two sizes":         append(sof(0xc0, 10, 10, 0x11), sof(0xc0, 60000, 60000, 0x11)[2:]...),
		"scans":             many,
		"gif":               append([]byte("GIF89a\xff\xff\xff\xff\x00\x00\x00"), ';'),
		"webp":              webpOf(chunk("VP8 ", huge)),
		"webp, small claim": webpOf(chunk("VP8X", "\x00\x00\x00\x00\x09\x00\x00\x09\x00\x00"), chunk("VP8 ", huge)), //nolint:dupword // bytes
		"webp, lossless":    webpOf(chunk("VP8L", "\x2f\xff\xff\xff\x0f")),
		"webp, animated":    webpOf(chunk("VP8X", "\x02\x00\x00\x00\x09\x00\x00\x09\x00\x00")), //nolint:dupword // bytes
		"bmp":               append([]byte("BM\x00\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00\x60\xea\x00\x00\x60\xea\x00\x00\x01\x00\x18\x00"), make([]byte, 24)...),
	} {
		info, err := Examine(src)
		if e, ok := errors.AsType[*Error](err); !ok || e.Instead == "" {
			t.Errorf("%s: got %v, %+v", name, err, info)
		} else if name == "webp, animated" && (!strings.Contains(e.Message, "animated") || strings.Contains(e.Instead, "damaged")) {
			t.Errorf("%s: got %q and %q", name, e.Message, e.Instead)
		}
	}
	// A photo of 48 million pixels is not a bomb.
	if _, err := Examine(sof(0xc0, 8000, 6000, 0x22, 0x11, 0x11)); err != nil {
		t.Errorf("a large photo: %v", err)
	}
}

// FuzzExamine checks that a header of any bytes is read without a panic, and that an
// accepted image is decoded within the memory that the header needs.
func FuzzExamine(f *testing.F) {
	for _, format := range []string{"png", "jpeg", "gif", "bmp"} {
		f.Add(encodeAs(f, format, quarters(8, 8)))
	}
	f.Add(withEXIF(encodeAs(f, "jpeg", quarters(8, 8)), binary.LittleEndian, 6))
	f.Add(pngHeader(30000, 30000, 8))
	f.Add(webpOf(chunk("VP8X", "\x00\x00\x00\x00\x09\x00\x00\x09\x00\x00"), chunk("EXIF", "II*\x00"))) //nolint:dupword // bytes
	m := New(1)
	f.Fuzz(func(t *testing.T, src []byte) {
		info, err := Examine(src)
		if err != nil {
			return
		}
		if info.memory > MaxMemory || info.Turned < 1 || info.Turned > 8 {
			t.Fatalf("got %+v", info)
		}
		if info.memory > 4<<20 {
			return // decoding it would take too long
		}
		if s, err := m.Make(t.Context(), src, Options{MaxPixels: 1000}); err == nil && (s.Width*s.Height > 1000 || s.Width < 1 || s.Height < 1) {
			t.Fatalf("got %d x %d", s.Width, s.Height)
		}
	})
}

func BenchmarkMake(b *testing.B) {
	src := encodeAs(b, "jpeg", quarters(4000, 3000))
	m := New(1)
	for b.Loop() {
		if _, err := m.Make(b.Context(), src, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
