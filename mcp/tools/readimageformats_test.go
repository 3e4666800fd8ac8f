package tools

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/image/bmp"

	"belljar.dev/browser"
	"belljar.dev/browser/picture"
	"belljar.dev/internal/testenv"
)

const drawingPolicy = `
version: 1
defaults: {profile: box}
profiles:
  box: {fs: {system: true, workspace: rw}%MORE%}
rules:
  - {id: shell, match: {tool: Bash}, decision: allow}
  - {id: images, match: {tool: ReadImage, path: "/workspace/**"}, decision: allow}
`

// halves returns an image that is red on the left and blue on the right.
func halves(w, h int) *image.Paletted {
	img := image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.RGBA{255, 0, 0, 255}, color.RGBA{0, 0, 255, 255}})
	draw.Draw(img, image.Rect(w/2, 0, w, h), image.NewUniform(color.RGBA{0, 0, 255, 255}), image.Point{}, draw.Src)
	return img
}

func encoded(t testing.TB, encode func(w io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// onItsSide returns a JPEG whose EXIF says that the camera was turned.
func onItsSide(t testing.TB) []byte {
	t.Helper()
	b := encoded(t, func(w io.Writer) error { return jpeg.Encode(w, halves(80, 40), &jpeg.Options{Quality: 95}) })
	app1 := "\xff\xe1\x00\x22Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"
	return []byte(string(b[:2]) + app1 + string(b[2:]))
}

// claims returns a PNG that states its size, and has no pixels.
func claims(w, h uint32) []byte {
	b := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, w), h)
	b = append(b, 8, 6, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[12:]))
}

func fromBase64(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// imageFiles returns files of each kind by name. The SVG leaks.svg refers to the URL leak.
func imageFiles(t testing.TB, leak string) map[string][]byte {
	t.Helper()
	const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="60" height="30"><rect width="30" height="30" fill="red"/><rect x="30" width="30" height="30" fill="blue"/>`
	img := halves(60, 30)
	return map[string][]byte{
		"a.png":      encoded(t, func(w io.Writer) error { return png.Encode(w, img) }),
		"a.jpg":      encoded(t, func(w io.Writer) error { return jpeg.Encode(w, img, nil) }),
		"turned.jpg": onItsSide(t),
		"a.gif":      encoded(t, func(w io.Writer) error { return gif.Encode(w, img, nil) }),
		"moves.gif": encoded(t, func(w io.Writer) error {
			return gif.EncodeAll(w, &gif.GIF{Image: []*image.Paletted{img, img}, Delay: []int{1, 1}})
		}),
		"a.bmp":         encoded(t, func(w io.Writer) error { return bmp.Encode(w, img) }),
		"lossless.webp": fromBase64(t, "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="),
		"lossy.webp":    fromBase64(t, "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA"),
		"a.svg":         []byte(svg + "</svg>"),
		"leaks.svg":     []byte(svg + `<image href="` + leak + `/a.png" width="9" height="9"/><style>@import url(` + leak + `/b.css);</style><script>fetch("` + leak + `/c")</script></svg>`),
		"broken.svg":    []byte(svg),
		"a.tiff":        []byte("II*\x00xxxxxxxx"),
		"a.heic":        []byte("\x00\x00\x00\x18ftypheic\x00\x00\x00\x00"),
		"bomb.png":      claims(60_000, 60_000),
		"named.png":     encoded(t, func(w io.Writer) error { return jpeg.Encode(w, img, nil) }),
	}
}

// Each kind of image is shown or refused, and the text names the kind. A browser without a
// network draws an SVG, if the profile has a browser.
func TestReadImageFormats(t *testing.T) {
	testenv.Need(t, testenv.Chromium)
	var leaks atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaks.Add(1) }))
	defer web.Close()
	b := boxes(t, strings.Replace(drawingPolicy, "%MORE%", ", browser: sandboxed", 1))
	pool, err := browser.New(browser.Config{Supervisor: b.supervisor})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	addImages(b.server, &images{shells: b.shells, maker: picture.New(1), drawer: pool})
	files := imageFiles(t, web.URL)
	for name, src := range files {
		if err := os.WriteFile(filepath.Join(b.workspace, name), src, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.run("true") // opens the box, so that its user can read the files
	for _, tt := range []struct {
		file   string
		args   map[string]any
		format string // empty if the image is refused
		w, h   int    // shown size in pixels
		want   string // expected in the text
	}{
		{"a.png", nil, "png", 60, 30, "mime=image/png"},
		{"a.jpg", nil, "jpeg", 60, 30, "mime=image/jpeg"},
		{"turned.jpg", nil, "jpeg", 40, 80, "size=40x80"},
		{"a.gif", nil, "gif", 60, 30, "mime=image/gif"},
		{"moves.gif", nil, "gif", 60, 30, "animated: the first picture is shown"},
		{"a.bmp", nil, "bmp", 60, 30, "mime=image/png"},
		{"lossless.webp", nil, "webp", 1, 1, "mime=image/webp"},
		{"lossy.webp", nil, "webp", 1, 1, "mime=image/webp"},
		{"named.png", nil, "jpeg", 60, 30, "mime=image/jpeg"},
		{"a.svg", nil, "svg", 60, 30, "mime=image/png"},
		{"a.svg", map[string]any{"region": "30,0,10,10"}, "svg", 10, 10, "a part of the image"},
		{"a.svg", map[string]any{"max_pixels": 1000}, "svg", 44, 22, "made smaller"},
		{"leaks.svg", nil, "svg", 60, 30, "mime=image/png"},
		{"broken.svg", nil, "", 0, 0, "not well-formed"},
		{"a.tiff", nil, "", 0, 0, "tiff images are not supported"},
		{"a.heic", nil, "", 0, 0, "heic images are not supported"},
		{"bomb.png", nil, "", 0, 0, "60000 x 60000"},
	} {
		args := map[string]any{"file_path": "/workspace/" + tt.file}
		maps.Copy(args, tt.args)
		r := b.call("ReadImage", args)
		out := structure[imageInfo](t, r)
		if r.IsError != (tt.format == "") || out.Format != tt.format || out.ShownWidth != tt.w || out.ShownHeight != tt.h || !strings.Contains(words(r), tt.want) {
			t.Errorf("%v: got %q, %+v", args, words(r), out)
			continue
		}
		if r.IsError {
			continue
		}
		if tt.file == "turned.jpg" && out.Orientation != 6 {
			t.Errorf("%v: got orientation %d", args, out.Orientation)
		}
		if strings.HasSuffix(tt.file, ".webp") {
			continue // the image has one pixel only
		}
		shown, _, err := image.Decode(bytes.NewReader(r.Content[1].Data))
		if err != nil {
			t.Errorf("%v: %v", args, err)
			continue
		}
		x := tt.w - 2 // the corner on the right, or at the bottom of a turned image, is blue
		y := tt.h - 2
		if red, _, blue, _ := shown.At(x, y).RGBA(); blue < 0xc000 || red > 0x4000 {
			t.Errorf("%v: the corner is %v", args, shown.At(x, y))
		}
	}
	if n := leaks.Load(); n > 0 {
		t.Errorf("the drawings asked the network %d times", n)
	}

	client := clientOf(t, b.server, silently)
	for name, want := range map[string]string{"a.svg": "image/png", "turned.jpg": "image/jpeg", "a.gif": "image/gif"} {
		got, err := client.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "image:///workspace/" + name})
		if err != nil || len(got.Contents) != 1 || got.Contents[0].MIMEType != want || len(got.Contents[0].Blob) == 0 {
			t.Errorf("%s: got %v, %+v", name, err, got)
		}
	}
	for _, name := range []string{"a.tiff", "bomb.png", "broken.svg"} {
		if got, err := client.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "image:///workspace/" + name}); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// Without a browser in the profile, SVG images are refused, and the text says why.
func TestReadImageWithoutBrowser(t *testing.T) {
	b := boxes(t, strings.Replace(drawingPolicy, "%MORE%", "", 1))
	pool, err := browser.New(browser.Config{Supervisor: b.supervisor})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	addImages(b.server, &images{shells: b.shells, maker: picture.New(1), drawer: pool})
	b.run(`echo '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"/>' > a.svg`)
	const want = `"/workspace/a.svg": the image is an SVG, which a browser has to draw, and profile "box" has no browser. Nothing is shown. Instead: read its text, or convert it to png in the sandbox.`
	if r := b.call("ReadImage", map[string]any{"file_path": "/workspace/a.svg"}); !r.IsError || words(r) != want {
		t.Errorf("got %q, want %q", words(r), want)
	}
}
