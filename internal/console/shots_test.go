package console

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"
	"strings"
	"testing"
)

// secretText is in the data of a picture in addition to its pixels.
const secretText = "GPS 48.1 11.5 <script>evil()</script>"

// drawn returns a picture with a size in a format.
func drawn(t *testing.T, w, h int, kind string) []byte {
	t.Helper()
	picture := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range picture.Pix {
		picture.Pix[i] = uint8(i*7) | 0x80
	}
	var out bytes.Buffer
	var err error
	switch kind {
	case "jpeg":
		err = jpeg.Encode(&out, picture, nil)
	case "gif":
		err = gif.Encode(&out, picture, nil)
	default:
		err = png.Encode(&out, picture)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// chunk returns a chunk of a PNG.
func chunk(name string, data []byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	out = append(append(out, name...), data...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[4:]))
}

// behindHeader inserts a chunk after the first chunk of a PNG.
func behindHeader(file []byte, c []byte) []byte {
	const header = 8 + 12 + 13
	return append(append(bytes.Clone(file[:header]), c...), file[header:]...)
}

// sized returns the header of a PNG with a size.
func sized(w, h uint32) []byte {
	data := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
	return append([]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", append(data, 8, 6, 0, 0, 0))...)
}

// A picture of a browser is drawn again: its pixels stay, and all other data are removed. A
// picture that is not a PNG or JPEG, or that is too large, is refused after its header was
// read: WC22, WC-A24.
func TestRedrawn(t *testing.T) {
	plain, photo := drawn(t, 40, 30, "png"), drawn(t, 40, 30, "jpeg")
	exif := append([]byte("Exif\x00\x00"), secretText...)
	app1 := append([]byte{0xff, 0xe1, 0, byte(len(exif) + 2)}, exif...)
	for name, file := range map[string][]byte{
		"png": plain, "jpeg": photo,
		"with text":  behindHeader(plain, chunk("tEXt", []byte("Comment\x00"+secretText))),
		"with EXIF":  append(append(bytes.Clone(photo[:2]), app1...), photo[2:]...),
		"animated":   behindHeader(plain, chunk("acTL", []byte{0, 0, 0, 9, 0, 0, 0, 0})),
		"polyglot":   append(bytes.Clone(plain), "<svg onload=alert(1)>PK\x03\x04"+secretText...),
		"two photos": append(bytes.Clone(photo), photo...),
	} {
		out, err := redrawn(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		is, err := png.Decode(bytes.NewReader(out))
		if err != nil || is.Bounds() != image.Rect(0, 0, 40, 30) {
			t.Errorf("%s: %v, %v", name, is.Bounds(), err)
			continue
		}
		if r, _, _, _ := is.At(9, 9).RGBA(); r == 0 {
			t.Errorf("%s: the pixels are gone: %v", name, color.NRGBAModel.Convert(is.At(9, 9)))
		}
		for _, part := range []string{"script", "svg", "Exif", "acTL", "PK\x03\x04"} {
			if bytes.Contains(out, []byte(part)) {
				t.Errorf("%s: %q is still in it", name, part)
			}
		}
	}
	for name, tt := range map[string]struct {
		file []byte
		want string
	}{
		"nothing":         {nil, "read its header"},
		"svg":             {[]byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>evil()</script></svg>`), "read its header"},
		"html":            {[]byte("<!doctype html><script>evil()</script>"), "read its header"},
		"gif":             {drawn(t, 4, 4, "gif"), "read its header"},
		"50,000 x 50,000": {sized(50_000, 50_000), "50000 x 50000 pixels"},
		"one long line":   {sized(2_000_001, 1), "2000001 x 1 pixels"},
		"2^31 x 2^31":     {sized(1<<31-1, 1<<31-1), ""},
		"cut":             {plain[:len(plain)/2], "decode it"},
		"large":           {append(bytes.Clone(plain), make([]byte, maxShot)...), "at most"},
	} {
		if out, err := redrawn(tt.file); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %d bytes, %v; want %q", name, len(out), err, tt.want)
		}
	}
}

// slowShots takes pictures that are finished only when goOn is closed.
type slowShots struct {
	kit
	going, goOn chan struct{}
	file        []byte
}

func (s slowShots) Shot(context.Context, string) ([]byte, error) {
	if s.going != nil {
		s.going <- struct{}{}
		<-s.goOn
	}
	return s.file, nil
}

// A picture is sent as an image, which a browser neither stores nor interprets as another
// type. One picture is made at a time.
func TestShots(t *testing.T) {
	slow := slowShots{going: make(chan struct{}), goOn: make(chan struct{}), file: drawn(t, 40, 30, "jpeg")}
	g := start(t, full, func(_ *rig, v *Views) { v.Tools = slow })
	token := g.login(Viewer)
	first := make(chan answered, 1)
	go func() { first <- g.send("GET", "api/v1/browser/b-1/picture", token, nil) }()
	<-slow.going
	if got := g.send("GET", "api/v1/browser/b-1/picture", token, nil); got.status != http.StatusTooManyRequests {
		t.Errorf("a second picture: got %d %s", got.status, got.body)
	}
	close(slow.goOn)
	got := <-first
	if _, err := png.Decode(bytes.NewReader(got.body)); err != nil || got.status != http.StatusOK {
		t.Errorf("got %d, %v", got.status, err)
	}
	for name, want := range map[string]string{
		"Content-Type": "image/png", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if is := got.header.Get(name); is != want {
			t.Errorf("%s is %q, want %q", name, is, want)
		}
	}
	g = start(t, full, func(_ *rig, v *Views) { v.Tools = slowShots{file: []byte("<svg/>")} })
	if got := g.send("GET", "api/v1/browser/b-1/picture", g.login(Viewer), nil); got.status != http.StatusBadGateway || got.header.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("what is not a picture: got %d %s %s", got.status, got.header.Get("Content-Type"), got.body)
	}
}

// An operator stops the agent of a browser and lets it continue. A viewer may do neither.
func TestSeatsAreHeld(t *testing.T) {
	g := start(t, full, func(_ *rig, v *Views) { v.Tools = kit{} })
	for _, what := range []string{"hold", "release"} {
		for id, want := range map[string]int{"b-1": http.StatusOK, "b-2": http.StatusNotFound} {
			if got := g.send("POST", "api/v1/browser/"+id+"/"+what, g.login(Operator), struct{}{}); got.status != want {
				t.Errorf("%s of %s: got status %d, want %d", what, id, got.status, want)
			}
		}
		if got := g.send("POST", "api/v1/browser/b-1/"+what, g.login(Viewer), struct{}{}); got.status != http.StatusForbidden {
			t.Errorf("%s by a viewer: status %d", what, got.status)
		}
	}
}
