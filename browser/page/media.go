package page

import (
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// baseOf returns the URL to which the links of a document are relative: its own URL, or
// that of its base element, if that is an http or https URL.
func baseOf(doc *html.Node, docURL string) *url.URL {
	base, err := url.Parse(docURL)
	if err != nil {
		base = &url.URL{}
	}
	if b := first(doc, func(n *html.Node) bool { return is(n, "base") && hasAttr(n, "href") }); b != nil {
		if u, err := base.Parse(strings.TrimSpace(attr(b, "href"))); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
			return u
		}
	}
	return base
}

// absolute returns a link as an absolute URL, or "" for a link that leads somewhere only in
// a browser: scripts, data, blobs, files.
func absolute(base *url.URL, href string) string {
	href = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.TrimSpace(href))
	if href == "" || len(href) > 8192 {
		return ""
	}
	u, err := url.Parse(href)
	if err != nil {
		if u, err = url.Parse(strings.ReplaceAll(href, "%", "%25")); err != nil {
			return ""
		}
	}
	if base != nil && (base.Scheme == "http" || base.Scheme == "https") {
		u = base.ResolveReference(u)
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https", "mailto", "tel", "ftp", "":
		return escapeURL.Replace(u.String())
	}
	return ""
}

// escapeURL keeps a target inside of the parentheses of a link.
var escapeURL = strings.NewReplacer(" ", "%20", "(", "%28", ")", "%29", "<", "%3C", ">", "%3E", "[", "%5B", "]", "%5D", "\\", "%5C", `"`, "%22", "|", "%7C", "`", "%60")

// media gives images the source that they would load, and replaces frames, films and sounds
// with links.
func media(root *html.Node, base *url.URL) {
	walk(root, func(n *html.Node) bool {
		switch {
		case is(n, "noscript"):
			unscripted(n)
			return n.Parent != nil && n.Data != "noscript"
		case is(n, "picture"):
			if img := first(n, func(n *html.Node) bool { return is(n, "img") }); img != nil {
				remove(img)
				replace(n, img)
				source(img, n, base)
			}
			return false
		case is(n, "img", "amp-img"):
			n.Data, n.DataAtom = "img", atomOf("img")
			source(n, nil, base)
			return false
		case is(n, "iframe", "video", "audio", "amp-youtube", "object", "embed"):
			plays(n, base)
			return false
		}
		return true
	})
}

// unscripted keeps the image of a noscript element that replaces one that a script
// would load; the rest of the element is for browsers without scripts.
func unscripted(n *html.Node) {
	imgs := named(n, "img")
	if len(imgs) != 1 || length(n) > 0 {
		return
	}
	img := imgs[0]
	remove(img)
	if prev := before(n); prev != nil {
		if !is(prev, "img") {
			prev = first(prev, func(k *html.Node) bool { return is(k, "img") })
		}
		switch {
		case prev == nil:
		case sourceOf(prev) == "":
			remove(prev)
		case sourceOf(prev) == sourceOf(img) || attr(prev, "src") == "" || strings.HasPrefix(attr(prev, "src"), "data:") || strings.Contains(attr(prev, "class"), "lazy"):
			return // the image is there already
		}
	}
	n.Data, n.DataAtom, n.Attr = "span", 0, nil
	empty(n)
	n.AppendChild(img)
}

func before(n *html.Node) *html.Node {
	for s := n.PrevSibling; s != nil; s = s.PrevSibling {
		if s.Type == html.ElementNode {
			return s
		}
	}
	return nil
}

func after(n *html.Node) *html.Node {
	for s := n.NextSibling; s != nil; s = s.NextSibling {
		if s.Type == html.ElementNode {
			return s
		}
	}
	return nil
}

// sourceOf returns the URL from which an image is loaded, also if it is loaded lazily, or
// "".
func sourceOf(img *html.Node) string {
	lazy := []string{"data-src", "data-original", "data-lazy-src", "data-lazy", "data-original-src", "data-hi-res-src", "data-src-medium", "data-full-src", "data-url"}
	for _, key := range append(lazy, "src") {
		if v := strings.TrimSpace(attr(img, key)); v != "" && !strings.HasPrefix(v, "data:") && !strings.HasPrefix(v, "blob:") && !strings.ContainsAny(v, "{}") {
			if key != "src" && strings.Contains(v, " ") && !strings.Contains(v, "%20") {
				continue
			}
			return v
		}
	}
	for _, key := range []string{"srcset", "data-srcset", "data-lazy-srcset"} {
		if v := largest(attr(img, key)); v != "" {
			return v
		}
	}
	return ""
}

// largest returns the widest source of a srcset, up to a width of 2600.
func largest(srcset string) string {
	best, most := "", -1.0
	for part := range strings.SplitSeq(srcset, ", ") {
		f := strings.Fields(strings.Trim(part, ", "))
		if len(f) == 0 || strings.HasPrefix(f[0], "data:") {
			continue
		}
		size := 1.0
		if len(f) > 1 {
			size, _ = strconv.ParseFloat(strings.TrimRight(f[1], "wx"), 64)
		}
		if size > most && size <= 2600 {
			best, most = f[0], size
		}
	}
	return best
}

func source(img, picture *html.Node, base *url.URL) {
	src := sourceOf(img)
	if src == "" && picture != nil {
		for _, s := range named(picture, "source") {
			if src = sourceOf(s); src != "" {
				break
			}
		}
	}
	src = absolute(base, src)
	if src == "" || pixel(img) {
		// An image whose bytes are in the page has no address to cite, but its alternative
		// text may say something.
		if alt := oneLine(attr(img, "alt")); alt != "" && !pixel(img) {
			img.Attr = []html.Attribute{{Key: "alt", Val: alt}}
			return
		}
		remove(img)
		return
	}
	setAttr(img, "src", src)
}

// pixel reports whether an image is only loaded and not seen, such as a tracking pixel.
func pixel(img *html.Node) bool {
	w, h := attr(img, "width"), attr(img, "height")
	thin := func(side string) bool { return side == "0" || side == "1" }
	return thin(w) && (h == "" || thin(h)) || thin(h) && (w == "" || attr(img, "alt") == "")
}

// plays replaces a frame, film or sound with a link.
func plays(n *html.Node, base *url.URL) {
	src := firstOf(map[string]string{"a": attr(n, "src"), "b": attr(n, "data-src"), "c": attr(n, "data"), "d": attr(n, "data-lazy-src")}, "a", "b", "c", "d")
	if id := attr(n, "data-videoid"); id != "" && is(n, "amp-youtube") {
		src = "https://www.youtube.com/watch?v=" + url.QueryEscape(id)
	}
	if src == "" {
		for _, s := range named(n, "source") {
			if src = attr(s, "src"); src != "" {
				break
			}
		}
	}
	src = absolute(base, src)
	if !strings.HasPrefix(src, "http") {
		remove(n)
		return
	}
	what := map[string]string{"video": "Video", "audio": "Audio"}[n.Data]
	if what == "" {
		what = "Embedded"
	}
	if title := oneLine(attr(n, "title")); title != "" && len(title) < 200 {
		what += ": " + title
	} else if u, err := url.Parse(src); err == nil {
		what += ": " + u.Hostname()
	}
	a := element("a", textNode(what))
	a.Attr = []html.Attribute{{Key: "href", Val: src}, {Key: embedAttr, Val: "1"}}
	if n.Parent != nil && blocks.has(n.Parent.Data) && !is(n.Parent, "p", "li") {
		replace(n, element("p", a))
		return
	}
	replace(n, a)
}

// embedAttr marks a link that stands for a frame, film or sound. Output without links
// leaves it out.
const embedAttr = "belljar-embed"

// links makes all targets absolute, and removes the links that lead nowhere, but not their
// text.
func links(root *html.Node, base *url.URL, omit bool) {
	for _, a := range named(root, "a") {
		href := absolute(base, attr(a, "href"))
		switch {
		case hasAttr(a, embedAttr) && omit:
			remove(a)
		case omit || href == "" || !hasAttr(a, "href"):
			unwrap(a)
		default:
			setAttr(a, "href", href)
		}
	}
}

// localLinks shortens the links into the page itself to the part from the # on, as in the
// table of contents: the front matter has the rest.
func localLinks(root *html.Node, pageURL string) {
	here, _, _ := strings.Cut(escapeURL.Replace(pageURL), "#")
	for _, a := range named(root, "a") {
		if to, ok := strings.CutPrefix(attr(a, "href"), here+"#"); ok && here != "" {
			setAttr(a, "href", "#"+to)
		}
	}
}

// apartLinks puts links around blocks on lines of their own; cards are such links.
func apartLinks(root *html.Node) {
	for _, a := range named(root, "a") {
		if a.Parent != nil && blocks.has(a.Parent.Data) && !is(a.Parent, "p") && !isHeading(a.Parent) && first(a, func(c *html.Node) bool { return blocks.has(c.Data) }) != nil {
			div := element("div")
			replace(a, div)
			div.AppendChild(a)
		}
	}
}
