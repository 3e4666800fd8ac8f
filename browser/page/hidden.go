package page

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// dropHidden removes what a reader of the page would not see, and returns the number of
// characters in it. Pages put instructions for agents into text that people cannot see.
func dropHidden(doc *html.Node, sheet *styles) int {
	total := length(doc)
	hidden := 0
	take := func(match func(*html.Node) bool, most int) {
		var found []*html.Node
		sum := 0
		walk(doc, func(n *html.Node) bool {
			if n.Type != html.ElementNode || is(n, "head", "body", "html") || !match(n) {
				return true
			}
			found = append(found, n)
			sum += length(n)
			return false
		})
		// A page that hides most of itself shows it by a script when it has loaded, or when
		// a dialog that is open now is closed.
		if sum > most {
			return
		}
		for _, n := range found {
			hidden += utf8.RuneCountInString(strings.Join(strings.Fields(seen(n)), ""))
			if !is(n, "script", "style", "template", "noscript", "head") {
				remove(n)
			}
		}
	}
	anyhow := func(n *html.Node) bool {
		return hasAttr(n, HiddenAttr) || hiddenByItself(n) || strings.EqualFold(attr(n, "aria-hidden"), "true") || sheet != nil && sheet.hides(n)
	}
	opened := disclosures(doc, anyhow)
	unseen := func(match func(*html.Node) bool) func(*html.Node) bool {
		return func(n *html.Node) bool { return match(n) && !opened[n] && !isEcho(n, anyhow) }
	}
	take(unseen(func(n *html.Node) bool { return hasAttr(n, HiddenAttr) }), total)
	take(unseen(hiddenByItself), total*2/3)
	take(func(n *html.Node) bool { return strings.EqualFold(attr(n, "aria-hidden"), "true") && !ofMath(n) }, total/2)
	if sheet != nil {
		take(unseen(sheet.hides), total/3)
	}
	for n := range opened {
		show(n)
	}
	return hidden
}

// show removes the attributes that would make readability, too, treat an element as hidden.
func show(n *html.Node) {
	n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool {
		return a.Key == "hidden" || a.Key == "style" || a.Key == "aria-hidden" || a.Key == HiddenAttr
	})
}

// seen returns the text under n, without elements that never show.
func seen(n *html.Node) string {
	var b strings.Builder
	walk(n, func(n *html.Node) bool {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		return !is(n, "script", "style", "template", "noscript")
	})
	return b.String()
}

// screenReaderOnly are classes with which frameworks put text off the screen.
var screenReaderOnly = []string{
	"sr-only", "visually-hidden", "visuallyhidden", "screen-reader-text", "screen-reader-only", "screenreader-only",
	"u-visually-hidden", "cdk-visually-hidden", "element-invisible", "offscreen", "off-screen", "d-none", "is-hidden",
}

// hiddenByItself reports whether the attributes of an element alone show that it is not
// visible.
func hiddenByItself(n *html.Node) bool {
	if hasAttr(n, "hidden") && !is(n, "svg") {
		return true
	}
	if is(n, "dialog") && !hasAttr(n, "open") {
		return true
	}
	if hasAttr(n, "popover") {
		return true
	}
	if is(n, "input") && strings.EqualFold(attr(n, "type"), "hidden") {
		return true
	}
	if is(n, "font") {
		if c, ok := colour(attr(n, "color")); ok && c.near(white) && isBackground(n, white) {
			return true
		}
	}
	if hasClass(n, screenReaderOnly...) && !is(n, "body", "main", "article") && !ofMath(n) {
		return true
	}
	style := attr(n, "style")
	return style != "" && !ofMath(n) && hidingStyle(style, n)
}
