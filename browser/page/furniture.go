package page

import (
	"strings"

	"golang.org/x/net/html"
)

// dropFurniture removes the elements that are named as furniture and are built like it,
// except those that contain a large part of the page's paragraphs, whose name must mean
// something else. A name alone decides nothing: "related" is also the work of other people,
// and "tools" are what a cook needs.
func dropFurniture(doc *html.Node, mass int) {
	last := len(all(doc, isParagraph))
	seen := 0                     // number of paragraphs before n
	kept := make(map[string]bool) // looks of the elements that were kept
	repeats := make(map[string]int)
	walk(doc, func(n *html.Node) bool {
		repeats[lookOf(n)]++
		return true
	})
	walk(doc, func(n *html.Node) bool {
		if n.Type != html.ElementNode {
			return true
		}
		if isParagraph(n) {
			seen++
		}
		if isHeading(n) || repeats[lookOf(n)] > 2 && attr(n, "class") != "" && length(n) < 40 {
			mask(n) // an element that repeats is not the byline of the page
		}
		if is(n, "html", "body", "main", "article", "head") || isHeading(n) {
			return true
		}
		role := attr(n, "role")
		named := is(n, "nav", "aside", "footer") || role == "navigation" || role == "complementary" || role == "contentinfo"
		caption := is(n, "figcaption") || captionOf(n)
		if !named && !caption && !isFurniture(n) || is(n, "td", "th", "tr", "tbody", "code", "pre", "figure", "math", "img", "picture") {
			return true
		}
		if is(n, "a", "span", "em", "strong", "b", "i") && within(n, nil, "p") != nil && !is(n.Parent, "figure") && length(n) > 40 {
			return true // this is a word of the text that has a class
		}
		if p := paragraphs(n); p*5 > mass && p > 200 || is(n, "p") && p > 150 && !caption {
			return true
		}
		switch {
		case caption:
			if !keepCaption(n) {
				mask(n)
				return true
			}
		case is(n, "aside") && role == "" && seen > 0 && seen < last && isNote(n):
			n.Data, n.DataAtom = "div", atomOf("div") // readability removes every aside
			return true
		case !named && (seen > 0 && seen < last || last == 0 || kept[lookOf(n)]) && !looksBeside(n):
			kept[lookOf(n)] = true
			mask(n)
			return true
		}
		remove(n)
		return false
	})
}

// isNote reports whether an aside is a note on the text around it: less than half of it is
// links, and it does not only repeat what the text says.
func isNote(n *html.Node) bool {
	text := within(n, nil, "article", "main")
	if text == nil || !isSmall(n) || looksBeside(n) || isFurniture(n) || first(n, func(c *html.Node) bool { return is(c, "img") || isHeading(c) }) != nil {
		return false
	}
	return !isSmall(text) || strings.Count(lineOf(text), lineOf(n)) < 2
}

// looksBeside reports whether an element is built like the things next to an article:
// links, controls, nothing to read, or a line about the page.
func looksBeside(n *html.Node) bool {
	total, linked := measure(n)
	if total == 0 {
		return first(n, func(c *html.Node) bool { return is(c, "img", "video", "audio") }) == nil
	}
	if linked*2 >= total || first(n, func(c *html.Node) bool { return is(c, "input", "button", "form", "select", "textarea", "iframe") }) != nil {
		return true
	}
	return total < 200 && aboutPage(&line{n: n, text: lineOf(n), size: total, linked: linked})
}

// isParagraph reports whether an element is a block of at least a sentence that neither is
// named as furniture nor is in an element that is.
func isParagraph(n *html.Node) bool {
	if !is(n, "p", "div", "li", "blockquote", "td", "section") || first(n, func(c *html.Node) bool { return blocks.has(c.Data) }) != nil {
		return false
	}
	total, linked := measure(n)
	if total < 80 || linked*2 >= total {
		return false
	}
	for p := n; p != nil; p = p.Parent {
		if is(p, "nav", "aside", "footer") || !is(p, "html", "body", "main", "article") && isFurniture(p) {
			return false
		}
	}
	return true
}

// captionOf reports whether an element is named as a caption, and contains nothing that
// could have a caption.
func captionOf(n *html.Node) bool {
	return wordsOf(n, func(w string) bool { return strings.Contains(w, "caption") || strings.Contains(w, "credit") }) && length(n) > 0 && first(n, isShown) == nil
}

// isShown reports whether an element is of a kind that captions are about.
func isShown(n *html.Node) bool {
	return is(n, "img", "picture", "video", "audio", "iframe", "table", "pre", "blockquote", "math", "svg") || hasAttr(n, embedAttr)
}

// keepCaption gives the text of a caption to its image as alternative text or title: the
// caption is about the image and is not part of the text. It reports whether the caption
// can be removed from the text. The caption of a table, of code, or of several images
// cannot; the caption of an image that a script would load can.
func keepCaption(n *html.Node) bool {
	for p, up := n.Parent, 0; p != nil && up < 4 && !is(p, "body", "main", "article"); p, up = p.Parent, up+1 {
		if !isSmall(p) {
			return false
		}
		var img *html.Node // last image before the caption, or else the first after it
		imgs, captions, passed := 0, 0, false
		others := first(p, func(c *html.Node) bool {
			switch {
			case contains(n, c) || is(c, "a") && hasAttr(c, embedAttr) && length(n) == 0:
			case is(c, "img"):
				imgs++
				if !passed || img == nil {
					img = c
				}
			case is(c, "figcaption") || captionOf(c):
				captions++
			default:
				return isShown(c) && !is(c, "picture", "svg")
			}
			passed = passed || c == n
			return false
		}) != nil
		switch {
		case others, imgs > 1 && captions == 0 && is(p, "figure"):
			return false
		case img != nil:
			title(img, lineOf(n))
			return true
		case length(p) > length(n)+200:
			return false
		case is(p, "figure") || first(p, func(c *html.Node) bool { return !contains(n, c) && !contains(c, n) && length(c) == 0 }) != nil:
			return true
		}
	}
	return false
}

// title puts the text of a caption into the alt or title attribute of an image.
func title(img *html.Node, text string) {
	switch alt := oneLine(attr(img, "alt")); {
	case alt == "":
		setAttr(img, "alt", text)
	case alt != text:
		setAttr(img, "title", text)
	}
}
