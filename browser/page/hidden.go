package page

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// dropHidden takes out what a reader of the page would not see, and is the
// number of characters in it. Text that people cannot see is where a page puts
// instructions for agents.
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
		// A page that hides most of itself shows it by a script when it is
		// loaded, or behind a dialog that is open now.
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

// show takes the attributes off an element by which readability, too, would think
// that it is not seen.
func show(n *html.Node) {
	n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool {
		return a.Key == "hidden" || a.Key == "style" || a.Key == "aria-hidden" || a.Key == HiddenAttr
	})
}

// seen is the text under n but for what never shows.
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

// ofMath reports whether an element is the visible half of a formula, which is
// hidden from screen readers because the other half is for them.
func ofMath(n *html.Node) bool {
	for p := n; p != nil; p = p.Parent {
		if c := attr(p, "class"); strings.Contains(c, "katex") || strings.Contains(c, "mwe-math") || strings.Contains(c, "MathJax") {
			return true
		}
	}
	return false
}

// screenReaderOnly are classes under which frameworks put text off the screen.
var screenReaderOnly = []string{
	"sr-only", "visually-hidden", "visuallyhidden", "screen-reader-text", "screen-reader-only", "screenreader-only",
	"u-visually-hidden", "cdk-visually-hidden", "element-invisible", "offscreen", "off-screen", "d-none", "is-hidden",
}

// hiddenByItself reports whether the attributes of an element alone show that
// it is not seen.
func hiddenByItself(n *html.Node) bool {
	if hasAttr(n, "hidden") && !is(n, "svg") {
		return true
	}
	if is(n, "dialog") && !hasAttr(n, "open") {
		return true
	}
	if is(n, "input") && strings.EqualFold(attr(n, "type"), "hidden") {
		return true
	}
	if is(n, "font") && colour(attr(n, "color")) == "#fff" && isBackground(n, "#fff") {
		return true
	}
	if hasClass(n, screenReaderOnly...) && !is(n, "body", "main", "article") && !ofMath(n) {
		return true
	}
	style := attr(n, "style")
	return style != "" && !ofMath(n) && hidingStyle(style, n)
}

// isBackground reports whether the nearest background that is written in an
// attribute above n is this colour; none written is white.
func isBackground(n *html.Node, want string) bool {
	for p := n.Parent; p != nil; p = p.Parent {
		if c := attr(p, "bgcolor"); c != "" {
			return colour(c) == want
		}
		if style := attr(p, "style"); style != "" {
			d := declarations(style)
			if c := firstOf(d, "background-color", "background"); c != "" {
				return colour(c) == want
			}
		}
	}
	return want == "#fff"
}

// declarations are the properties of a style, the last of each.
func declarations(style string) map[string]string {
	d := make(map[string]string)
	for decl := range strings.SplitSeq(style, ";") {
		key, val, ok := strings.Cut(decl, ":")
		if !ok || len(d) > 100 {
			continue
		}
		val = strings.ToLower(strings.TrimSpace(val))
		val = strings.TrimSpace(strings.TrimSuffix(val, "!important"))
		d[strings.ToLower(strings.TrimSpace(key))] = val
	}
	return d
}

func firstOf(d map[string]string, keys ...string) string {
	for _, k := range keys {
		if v := d[k]; v != "" {
			return v
		}
	}
	return ""
}

// hidingStyle reports whether a style makes its element invisible. The element
// is asked for the background under it; nil is white.
func hidingStyle(style string, n *html.Node) bool {
	if !strings.Contains(style, ":") {
		return false
	}
	d := declarations(style)
	switch {
	case d["display"] == "none", d["visibility"] == "hidden", d["visibility"] == "collapse", d["content-visibility"] == "hidden":
		return true
	case isZero(d["opacity"]), isZero(d["font-size"]), strings.Contains(d["transform"], "scale(0)"):
		return true
	case strings.HasPrefix(d["clip"], "rect(0") || strings.HasPrefix(d["clip"], "rect(1px"), strings.Contains(d["clip-path"], "inset(50%") || strings.Contains(d["clip-path"], "inset(100%"):
		return true
	case strings.HasPrefix(d["overflow"], "hidden") && (tiny(d["width"]) || tiny(d["height"]) || tiny(d["max-height"]) || tiny(d["max-width"])):
		return true
	case far(d["text-indent"]):
		return true
	}
	if p := d["position"]; (p == "absolute" || p == "fixed") && (far(d["left"]) || far(d["top"]) || far(d["right"]) || far(d["bottom"])) {
		return true
	}
	if far(d["margin-left"]) || far(d["margin-top"]) {
		return true
	}
	return sameColour(d, n)
}

// sameColour reports whether text has the colour of what is under it.
func sameColour(d map[string]string, n *html.Node) bool {
	text := colour(d["color"])
	if text == "" {
		return false
	}
	if text == "transparent" {
		// Text under a gradient is clipped out of its background.
		return !strings.Contains(firstOf(d, "background-clip", "-webkit-background-clip"), "text")
	}
	if back := firstOf(d, "background-color", "background"); back != "" {
		return colour(back) == text
	}
	if text != "#fff" || n == nil {
		return false
	}
	// White text where no background is written is hidden only if nothing
	// above has one by a class, which only a browser can tell; an agent's
	// instructions in white are written in full on the element.
	for p := n; p != nil; p = p.Parent {
		if p != n && (attr(p, "bgcolor") != "" || strings.Contains(attr(p, "style"), "background")) {
			return isBackground(n, text)
		}
		if attr(p, "class") != "" || attr(p, "id") != "" {
			return false
		}
	}
	return true
}

func number(v string) (float64, string, bool) {
	end := 0
	for end < len(v) && (v[end] == '-' || v[end] == '+' || v[end] == '.' || v[end] >= '0' && v[end] <= '9') {
		end++
	}
	f, err := strconv.ParseFloat(v[:end], 64)
	return f, v[end:], err == nil
}

func isZero(v string) bool {
	f, unit, ok := number(v)
	return ok && (f == 0 || unit == "px" && f > 0 && f < 1.5 || unit == "" && f > 0 && f <= 0.01)
}

func tiny(v string) bool {
	f, unit, ok := number(v)
	return ok && f >= 0 && f <= 1 && (unit == "" || unit == "px" || f == 0)
}

func far(v string) bool {
	f, unit, ok := number(v)
	if !ok {
		return false
	}
	switch unit {
	case "em", "rem", "vw", "vh", "%":
		return f <= -100 || f >= 1000
	}
	return f <= -900 || f >= 9000
}

// colour brings the usual ways to write black, white and the like to one.
func colour(v string) string {
	v = strings.ToLower(strings.Join(strings.Fields(v), ""))
	switch v {
	case "white", "#ffffff", "#ffffffff", "rgb(255,255,255)", "rgba(255,255,255,1)":
		return "#fff"
	case "black", "#000000", "rgb(0,0,0)", "rgba(0,0,0,1)":
		return "#000"
	case "rgba(0,0,0,0)", "rgba(255,255,255,0)":
		return "transparent"
	}
	if len(v) == 7 && v[0] == '#' && v[1] == v[2] && v[3] == v[4] && v[5] == v[6] {
		return "#" + string([]byte{v[1], v[3], v[5]})
	}
	return v
}
