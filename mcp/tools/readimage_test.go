package tools

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/browser/picture"
)

var _ = addCase("ReadImage", toolCase{
	hints:   "ReadOnly",
	refuses: []string{`{}`, `{"file_path":""}`, `{"file_path":"plot.png"}`, `{"file_path":"/workspace/none.png"}`, `{"file_path":"/workspace/text.png"}`, `{"file_path":"/workspace"}`, `{"file_path":"/workspace/text.png","region":"1,2,3"}`, `{"file_path":"/workspace/text.png","max_pixels":0}`},
	unseen:  reasons{fewWords: {"region"}},
})

const imagesPolicy = `
version: 1
defaults: {profile: %PROFILE%}
profiles:
  rw: {fs: {system: true, workspace: rw}}
  overlay: {fs: {system: true, workspace: overlay}}
rules:
  - {id: shell, match: {tool: Bash}, decision: allow}
  - {id: images, match: {tool: ReadImage, path: ["/workspace/**", "/tmp/**", "/proc/**"]}, decision: allow}
`

func gradient(t testing.TB, w, h int) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		img.SetRGBA(i%w, i/w, color.RGBA{uint8(i % w), uint8(i / w), 9, 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// ReadImage shows the file that the box has at a path, wherever the file is on the host,
// and never a file that a link leads to.
func TestReadImage(t *testing.T) {
	for _, profile := range []string{"rw", "overlay"} {
		t.Run(profile, func(t *testing.T) {
			b := boxes(t, strings.Replace(imagesPolicy, "%PROFILE%", profile, 1))
			addImages(b.server, &images{shells: b.shells, maker: picture.New(1)})
			src := gradient(t, 200, 100)
			if err := os.WriteFile(filepath.Join(b.workspace, "a b.png"), src, 0o644); err != nil {
				t.Fatal(err)
			}
			r := b.call("ReadImage", map[string]any{"file_path": "/workspace/a b.png"})
			out := structure[imageInfo](t, r)
			if r.IsError || len(r.Content) != 2 || !bytes.Equal(r.Content[1].Data, src) || r.Content[1].MIME != "image/png" ||
				out.Width != 200 || out.Height != 100 || out.ShownWidth != 200 || out.Format != "png" || out.Bytes != len(src) {
				t.Errorf("got %v, %+v", words(r), out)
			}
			outside := filepath.Join(t.TempDir(), "secret.png")
			if err := os.WriteFile(outside, src, 0o644); err != nil {
				t.Fatal(err)
			}
			b.run("cp 'a b.png' /tmp/in.png; cp 'a b.png' other.png; ln -s " + outside + " out.png; ln -s other.png in.png; head -c 100 other.png > cut.png; " +
				"echo plain > text.png; printf 'II*\\0xxxx' > x.tiff; echo '<svg xmlns=\"http://www.w3.org/2000/svg\"/>' > d.svg; truncate -s 30M large.png; rm 'a b.png'")
			for file, want := range map[string]string{
				"/workspace/a b.png":   "this file does not exist in the sandbox",
				"/workspace/out.png":   "links are not followed",
				"/workspace/in.png":    "links are not followed",
				"/workspace/cut.png":   "the png cannot be decoded",
				"/workspace/text.png":  "its first bytes are not those of",
				"/workspace/x.tiff":    "tiff images are not supported",
				"/workspace/d.svg":     "has to be drawn by a browser",
				"/workspace/large.png": "the file has more than",
				"/workspace":           "it is not a regular file",
				"/proc/1/environ":      "it is not a regular file",
				"other.png":            "DENIED by policy",
				outside:                "this file does not exist in the sandbox",
				"/workspace/../x.png":  "DENIED by policy",
			} {
				if r := b.call("ReadImage", map[string]any{"file_path": file}); !r.IsError || !strings.Contains(words(r), want) {
					t.Errorf("%s: got %q, want %q", file, words(r), want)
				}
			}
			r = b.call("ReadImage", map[string]any{"file_path": "/tmp/in.png", "region": "10,20,30,40"})
			out = structure[imageInfo](t, r)
			if r.IsError || out.ShownWidth != 30 || out.ShownHeight != 40 || out.Region != "10,20,30,40" || out.Width != 200 || !strings.Contains(words(r), "a part of the image") {
				t.Fatalf("got %v, %+v", words(r), out)
			}
			part, err := png.Decode(bytes.NewReader(r.Content[1].Data))
			if err != nil || part.At(0, 0) != (color.RGBA{10, 20, 9, 255}) {
				t.Errorf("the part begins with %v, %v", part.At(0, 0), err)
			}
			r = b.call("ReadImage", map[string]any{"file_path": "/workspace/other.png", "max_pixels": 5000})
			if out = structure[imageInfo](t, r); out.ShownWidth != 100 || out.ShownHeight != 50 || !strings.Contains(words(r), "made smaller: a pixel here is 2.00 pixels of the image") {
				t.Errorf("got %q, %+v", words(r), out)
			}
			for _, args := range []map[string]any{
				{"region": "1,2,3"}, {"region": "a,b,c,d"}, {"region": "0,0,0,5"}, {"region": "-1,0,5,5"}, {"region": "500,500,5,5"}, {"max_pixels": 1}, {"max_pixels": 99999999},
			} {
				args["file_path"] = "/workspace/other.png"
				if r := b.call("ReadImage", args); !r.IsError {
					t.Errorf("%v: no error", args)
				}
			}
		})
	}
}

// A client gets an image in the form of its SDK, and as a resource.
func TestReadImageOverMCP(t *testing.T) {
	b := boxes(t, strings.Replace(imagesPolicy, "%PROFILE%", "rw", 1))
	addImages(b.server, &images{shells: b.shells, maker: picture.New(1)})
	src := gradient(t, 20, 10)
	if err := os.WriteFile(filepath.Join(b.workspace, "a b.png"), src, 0o644); err != nil {
		t.Fatal(err)
	}
	client := clientOf(t, b.server, func(*sdk.ProgressNotificationParams) {})
	r, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "ReadImage", Arguments: map[string]any{"file_path": "/workspace/a b.png"}})
	if err != nil || r.IsError || len(r.Content) != 2 {
		t.Fatalf("got %v, %+v", err, r)
	}
	if img, ok := r.Content[1].(*sdk.ImageContent); !ok || img.MIMEType != "image/png" || !bytes.Equal(img.Data, src) {
		t.Errorf("got %+v", r.Content[1])
	}
	if r.StructuredContent != nil { // some clients show their model the structured content in place of the image
		t.Errorf("got %v beside the image", r.StructuredContent)
	}
	got, err := client.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "image:///workspace/a%20b.png"})
	if err != nil || len(got.Contents) != 1 || got.Contents[0].MIMEType != "image/png" || !bytes.Equal(got.Contents[0].Blob, src) {
		t.Errorf("got %v, %+v", err, got)
	}
	for _, uri := range []string{"image:///etc/passwd", "image://host/workspace/a.png", "image:///workspace/none.png", "image:///workspace/../etc/x.png"} {
		if got, err := client.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: got %+v", uri, got)
		}
	}
}
