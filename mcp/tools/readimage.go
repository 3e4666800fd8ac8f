package tools

import (
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strconv"
	"strings"
	"syscall"

	"belljar.dev/browser"
	"belljar.dev/browser/picture"
	"belljar.dev/browser/reader"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// imagesAtOnce bounds how many images of all sessions are decoded at the same time.
const imagesAtOnce = 2

// imageInput is the arguments of ReadImage.
type imageInput struct {
	FilePath  string `json:"file_path" jsonschema:"absolute path, such as /workspace/plot.png"`
	Region    string `json:"region,omitempty" jsonschema:"part to show: x,y,width,height"`
	MaxPixels *int64 `json:"max_pixels,omitempty" jsonschema:"pixels to show (default 1500000, at most 8000000)"`
}

// Facts returns the file.
func (in imageInput) Facts() policies.Facts { return policies.Facts{Paths: []string{in.FilePath}} }

// options returns which part of the image to show, and how.
func (in imageInput) options() (o picture.Options, err error) {
	if in.MaxPixels != nil {
		if *in.MaxPixels < picture.MinPixels || *in.MaxPixels > picture.MaxPixels {
			return o, fmt.Errorf("max_pixels: got %d, want %d to %d", *in.MaxPixels, picture.MinPixels, picture.MaxPixels)
		}
		o.MaxPixels = int(*in.MaxPixels)
	}
	if in.Region == "" {
		return o, nil
	}
	bad := fmt.Errorf("region: got %q, want x,y,width,height in pixels, for example 0,0,400,300", policies.Clip(in.Region, 60))
	parts := strings.Split(in.Region, ",")
	if len(parts) != 4 {
		return o, bad
	}
	var n [4]int
	for i, s := range parts {
		v, err := strconv.ParseUint(strings.TrimSpace(s), 10, 24)
		if err != nil || i > 1 && v == 0 {
			return o, bad
		}
		n[i] = int(v)
	}
	o.Region = image.Rect(n[0], n[1], n[0]+n[2], n[1]+n[3])
	return o, nil
}

// imageInfo describes an image.
type imageInfo struct {
	Path          string `json:"path,omitempty"`
	Format        string `json:"format" jsonschema:"format of the file: jpeg, png, gif, webp, bmp or svg"`
	Bytes         int    `json:"bytes" jsonschema:"size of the file"`
	Width         int    `json:"width" jsonschema:"width of the original, in pixels"`
	Height        int    `json:"height"`
	ShownWidth    int    `json:"shown_width" jsonschema:"width of what is shown, in pixels"`
	ShownHeight   int    `json:"shown_height"`
	ShownBytes    int    `json:"shown_bytes"`
	ShownMIME     string `json:"shown_mime"`
	Region        string `json:"region,omitempty" jsonschema:"part of the original that is shown: x,y,width,height"`
	Orientation   int    `json:"orientation,omitempty" jsonschema:"EXIF orientation that was undone"`
	FirstOfSeries bool   `json:"animated,omitempty" jsonschema:"true if the image is animated; only its first picture is shown"`
}

// drawer draws SVG images. *browser.Pool implements it.
type drawer interface {
	Draw(ctx context.Context, g policies.Grant, d browser.Drawing) (*browser.Drawn, error)
}

// images implements the tool ReadImage, which shows images of the box. ReadDocs uses it for
// images of the web.
type images struct {
	shells *shells
	maker  *picture.Maker
	drawer drawer // nil: SVG images are refused
}

// addImages registers ReadImage and its resource.
func addImages(s *mcp.Server, t *images) {
	mcp.AddTool(s, mcp.Tool{
		Name:        "ReadImage",
		Brief:       "shows an image file of the sandbox, scaled down where necessary",
		Title:       "Look at an image",
		Description: "Shows an image file of this session's sandbox: jpeg, png, gif, webp, bmp or svg. Large images are made smaller; region shows a part at its full size.",
		ReadOnly:    true,
		Output:      imageInfo{},
	}, t.read)
	s.AddResource(mcp.Resource{
		Template: imageScheme + "{+path}", Name: "image", Title: "Image of the sandbox", MIME: "image/png",
		Description: "An image file of this session's sandbox, in the form that ReadImage shows: " + imageScheme + "/workspace/plot.png",
		Facts: func(uri string) (policies.Facts, error) {
			file, err := imagePath(uri)
			if err != nil {
				return policies.Facts{}, err
			}
			return policies.Facts{Tool: "ReadImage", Paths: []string{file}, Args: map[string]any{"file_path": file}}, nil
		},
		ReadGranted: t.resource,
	})
}

// imageScheme is the beginning of the URIs of images in the box.
const imageScheme = "image://"

// imagePath returns the file that a URI names.
func imagePath(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "image" || u.Host != "" || u.RawQuery != "" || u.Fragment != "" || !path.IsAbs(u.Path) {
		return "", fmt.Errorf("%w: want %s/workspace/PATH", mcp.ErrNotFound, imageScheme)
	}
	return u.Path, nil
}

const nothingShown = "Nothing was read."

func (t *images) read(ctx context.Context, call mcp.Call, in imageInput) (*mcp.Result, error) {
	o, err := in.options()
	if err != nil {
		return mcp.Failed("%s. %s", err, nothingShown), nil
	}
	src, refused, err := t.file(ctx, call, in.FilePath)
	if err != nil || refused != nil {
		return refused, err
	}
	shown, err := t.make(ctx, call.Grant, src, o)
	if err != nil {
		return unshown(ctx, strconv.Quote(in.FilePath), err)
	}
	info := infoOf(shown)
	info.Path = in.FilePath
	return &mcp.Result{
		Content:    []mcp.Content{{Text: info.line()}, {Data: shown.Data, MIME: shown.MIME}},
		Structured: info,
	}, nil
}

// resource reads an image as a resource.
func (t *images) resource(ctx context.Context, call mcp.Call, uri string) ([]byte, string, error) {
	name, err := imagePath(uri)
	if err != nil {
		return nil, "", err
	}
	src, refused, err := t.file(ctx, call, name)
	switch {
	case err != nil:
		return nil, "", err
	case refused != nil:
		return nil, "", fmt.Errorf("%s: %w", firstText(refused), mcp.ErrNotFound)
	}
	shown, err := t.make(ctx, call.Grant, src, picture.Options{})
	if err != nil {
		return nil, "", err
	}
	return shown.Data, shown.MIME, nil
}

// firstText returns the first text of a result.
func firstText(r *mcp.Result) string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// file reads a file of the session's box. It returns a result with the reason if that is
// not possible.
func (t *images) file(ctx context.Context, call mcp.Call, name string) ([]byte, *mcp.Result, error) {
	if !path.IsAbs(name) {
		return nil, mcp.Failed("file_path: got %q, want an absolute path as the sandbox sees it, for example /workspace/plot.png. %s", policies.Clip(name, 200), nothingShown), nil
	}
	_, box, _, err := t.shells.enter(ctx, call.Session, call.Grant)
	if err != nil {
		r, err := t.shells.blocked(ctx, call.Session.ID(), err)
		return nil, r, err
	}
	if !box.Grant().Covers(call.Grant) { // the box was opened meanwhile for another call
		return nil, mcp.Refused(policies.Block{
			Reason: fmt.Sprintf("the box of this session has profile %q, and this call may only read from a box of profile %q", box.Grant().Profile(), call.Grant.Profile()),
			Ran:    nothingShown, Instead: "Instead: repeat the call.",
		}.Refusal()), nil
	}
	f, err := box.OpenFile(ctx, name)
	if err != nil {
		return nil, unopened(name, err), nil
	}
	defer f.Close()
	src, err := readBounded(f, picture.MaxSource+1)
	if err != nil {
		return nil, unopened(name, err), nil
	}
	return src, nil, nil
}

// unopened returns a result with the reason why a file cannot be read.
func unopened(name string, err error) *mcp.Result {
	why, instead := "it cannot be read: "+err.Error(), "look at it with Bash (ls -l)"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why, instead = "this file does not exist in the sandbox", "list the directory with Bash (ls)"
	case errors.Is(err, sandbox.ErrLink):
		why, instead = "it is, or lies behind, a symbolic link, and links are not followed", "name the file that the link leads to (realpath in Bash shows it)"
	case errors.Is(err, sandbox.ErrNotPlain):
		why = "it is not a regular file"
	case errors.Is(err, fs.ErrPermission):
		why = "the user of the sandbox may not read it"
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENAMETOOLONG):
		why, instead = "the path is not in its plain form", "write an absolute path without .."
	case errors.Is(err, sandbox.ErrClosed):
		why, instead = "the box of this session was closed while the call ran", "call again"
	}
	return mcp.Failed("%s: %s. %s Instead: %s.", strconv.Quote(policies.Clip(name, 300)), why, nothingShown, instead)
}

// readBounded returns the contents of r; most is the largest number of bytes that it reads.
func readBounded(r io.Reader, most int) ([]byte, error) {
	var b strings.Builder
	if _, err := io.Copy(&b, io.LimitReader(r, int64(most))); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

// make scales an image to fit. An SVG is drawn first.
func (t *images) make(ctx context.Context, g policies.Grant, src []byte, o picture.Options) (*picture.Shown, error) {
	shown, err := t.maker.Make(ctx, src, o)
	bad, ok := errors.AsType[*picture.Error](err)
	if !ok || bad.Format != "svg" {
		return shown, err
	}
	if t.drawer == nil {
		return nil, bad
	}
	drawn, err := t.drawer.Draw(ctx, g, browser.Drawing{SVG: src})
	if err != nil {
		e, ok := errors.AsType[*browser.Error](err)
		if !ok {
			return nil, err
		}
		why := "the image is an SVG, which a browser has to draw: " + e.Message
		if e.Kind == browser.KindForbidden {
			why = fmt.Sprintf("the image is an SVG, which a browser has to draw, and profile %q has no browser", g.Profile())
		}
		return nil, &picture.Error{Format: "svg", Message: why, Instead: "read its text, or convert it to png in the sandbox"}
	}
	if shown, err = t.maker.Make(ctx, drawn.PNG, o); err != nil {
		return nil, err
	}
	shown.Info.Format, shown.Info.Bytes = "svg", len(src)
	return shown, nil
}

// unshown returns a result with the reason why an image is not shown.
func unshown(ctx context.Context, what string, err error) (*mcp.Result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	bad, ok := errors.AsType[*picture.Error](err)
	if !ok {
		return mcp.Failed("%s: %s. Nothing is shown.", policies.Clip(what, 500), policies.Clip(err.Error(), 300)), nil
	}
	if bad.Instead == "" {
		return mcp.Failed("%s: %s. Nothing is shown.", policies.Clip(what, 500), bad.Message), nil
	}
	return mcp.Failed("%s: %s. Nothing is shown. Instead: %s.", policies.Clip(what, 500), bad.Message, bad.Instead), nil
}

// infoOf describes a shown image.
func infoOf(s *picture.Shown) imageInfo {
	i := imageInfo{
		Format: s.Info.Format, Bytes: s.Info.Bytes, Width: s.Info.Width, Height: s.Info.Height,
		ShownWidth: s.Width, ShownHeight: s.Height, ShownBytes: len(s.Data), ShownMIME: s.MIME, FirstOfSeries: s.Info.Animated,
	}
	if s.Info.Turned > 1 {
		i.Orientation = s.Info.Turned
	}
	if r := s.Region; r != image.Rect(0, 0, s.Info.Width, s.Info.Height) {
		i.Region = fmt.Sprintf("%d,%d,%d,%d", r.Min.X, r.Min.Y, r.Dx(), r.Dy())
	}
	return i
}

// line returns a text that describes what is shown.
func (i imageInfo) line() string {
	var t text
	switch {
	case i.Region != "":
		t.line("[a part of the image, %s (x,y,width,height) of %d x %d pixels]", i.Region, i.Width, i.Height)
	case i.ShownWidth != i.Width || i.ShownHeight != i.Height:
		t.line("[made smaller: a pixel here is %.2f pixels of the image; region shows a part at its full size]", float64(i.Width)/float64(max(1, i.ShownWidth)))
	}
	if i.FirstOfSeries {
		t.line("[animated: the first picture is shown]")
	}
	return t.status("format", i.Format, "bytes", strconv.Itoa(i.Bytes), "size", fmt.Sprintf("%dx%d", i.Width, i.Height),
		"shown", fmt.Sprintf("%dx%d", i.ShownWidth, i.ShownHeight), "mime", i.ShownMIME)
}

// image returns the result of ReadDocs for an image of the web.
func (t *docs) image(ctx context.Context, call mcp.Call, res *reader.Result) (*mcp.Result, error) {
	shown, err := t.images.make(ctx, call.Grant, res.Image, picture.Options{})
	if err != nil {
		return unshown(ctx, strconv.Quote(policies.Clip(res.URL, 300)), err)
	}
	info := infoOf(shown)
	var x text
	tellWay(&x, res)
	x.line("%s", info.line())
	return &mcp.Result{
		Content: []mcp.Content{{Text: strings.TrimSuffix(x.b.String(), "\n")}, {Data: shown.Data, MIME: shown.MIME}},
		Structured: docsOutput{
			docsPage: docsPage{URL: res.URL, Status: res.Status, Type: "image", Rendered: res.Rendered},
			Bytes:    len(res.Image), Redirects: res.Redirects, Image: &info,
		},
	}, nil
}
