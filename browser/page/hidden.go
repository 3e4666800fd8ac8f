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

// isBackground reports whether the nearest background that is written in an
// attribute above n is this colour; none written is white.
func isBackground(n *html.Node, want rgb) bool {
	for p := n.Parent; p != nil; p = p.Parent {
		c := attr(p, "bgcolor")
		if c == "" && attr(p, "style") != "" {
			c = firstOf(declarations(attr(p, "style")), "background-color", "background")
		}
		if c != "" {
			back, ok := colour(c)
			return ok && want.near(back)
		}
	}
	return want.near(white)
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
	case isZero(d["opacity"]), isZero(d["font-size"]), strings.Contains(d["transform"], "scale(0)"), strings.Contains(d["filter"], "opacity(0)"), strings.Contains(d["filter"], "opacity(0%)"):
		return true
	case emptyMask(firstOf(d, "mask", "mask-image", "-webkit-mask", "-webkit-mask-image")), farTransform(firstOf(d, "transform", "translate")), piled(d["letter-spacing"]):
		return true
	case strings.HasPrefix(d["clip"], "rect(0") || strings.HasPrefix(d["clip"], "rect(1px"), strings.Contains(d["clip-path"], "inset(50%") || strings.Contains(d["clip-path"], "inset(100%"):
		return true
	case strings.HasPrefix(d["overflow"], "hidden") && (tiny(d["line-height"]) || tiny(d["width"]) || tiny(d["height"]) || tiny(d["max-height"]) || tiny(d["max-width"])):
		return true
	case far(d["text-indent"]):
		return true
	}
	if p := d["position"]; p != "" && p != "static" && (far(d["left"]) || far(d["top"]) || far(d["right"]) || far(d["bottom"])) {
		return true
	}
	if f, unit, ok := number(d["top"]); ok && d["position"] == "fixed" && unit == "px" && f <= -300 {
		return true // what is fixed cannot be scrolled to
	}
	if far(d["margin-left"]) || far(d["margin-top"]) {
		return true
	}
	return sameColour(d, n)
}

// sameColour reports whether text has the colour of what is under it.
func sameColour(d map[string]string, n *html.Node) bool {
	text, ok := colour(d["color"])
	if !ok {
		return false
	}
	if text.clear {
		// Text under a gradient is clipped out of its background.
		return !strings.Contains(firstOf(d, "background-clip", "-webkit-background-clip"), "text")
	}
	if back := firstOf(d, "background-color", "background"); back != "" {
		c, ok := colour(back)
		return ok && text.near(c)
	}
	if !text.near(white) || n == nil {
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

// emptyMask reports whether a mask lets nothing through.
func emptyMask(v string) bool {
	_, stops, ok := strings.Cut(v, "gradient(")
	if !ok {
		return false
	}
	for stop := range strings.SplitSeq(strings.TrimRight(stops, ") "), ",") {
		if s := strings.TrimSpace(stop); !strings.HasPrefix(s, "transparent") && !strings.HasPrefix(s, "to ") && !strings.HasSuffix(s, "deg") {
			return false
		}
	}
	return true
}

// farTransform reports whether a translation moves its element off the screen.
func farTransform(v string) bool {
	_, arguments, ok := strings.Cut(v, "translate")
	if !ok {
		arguments = v
	} else if _, arguments, ok = strings.Cut(arguments, "("); !ok {
		return false
	}
	arguments, _, _ = strings.Cut(arguments, ")")
	for a := range strings.FieldsFuncSeq(arguments, func(r rune) bool { return r == ',' || r == ' ' }) {
		// A share of its own size moves an element that slides in, too.
		if !strings.HasSuffix(a, "%") && far(a) {
			return true
		}
	}
	return false
}

// piled reports whether letters stand on top of each other.
func piled(v string) bool {
	f, unit, ok := number(v)
	return ok && (unit == "em" && f <= -0.5 || unit == "px" && f <= -8)
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

// rgb is a colour, or the lack of one.
type rgb struct {
	r, g, b int
	clear   bool
}

var white = rgb{255, 255, 255, false}

// near reports whether nobody can tell two colours apart.
func (c rgb) near(o rgb) bool {
	const most = 8 // of 255
	close := func(a, b int) bool { return a-b <= most && b-a <= most }
	return !c.clear && !o.clear && close(c.r, o.r) && close(c.g, o.g) && close(c.b, o.b)
}

// colour reads the usual ways to write a colour.
func colour(v string) (rgb, bool) {
	v = strings.ToLower(strings.TrimSpace(v))
	switch v {
	case "white":
		return white, true
	case "black":
		return rgb{}, true
	case "transparent":
		return rgb{clear: true}, true
	}
	if hex, ok := strings.CutPrefix(v, "#"); ok {
		if len(hex) == 3 || len(hex) == 4 {
			var b strings.Builder
			for _, c := range hex {
				b.WriteString(string(c) + string(c))
			}
			hex = b.String()
		}
		n, err := strconv.ParseUint(hex, 16, 32)
		switch {
		case err != nil || len(hex) != 6 && len(hex) != 8:
			return rgb{}, false
		case len(hex) == 8 && n&0xff == 0:
			return rgb{clear: true}, true
		case len(hex) == 8:
			n >>= 8
		}
		return rgb{int(n >> 16), int(n >> 8 & 0xff), int(n & 0xff), false}, true
	}
	name, inner, ok := strings.Cut(v, "(")
	if !ok || name != "rgb" && name != "rgba" {
		return rgb{}, false
	}
	parts := strings.FieldsFunc(strings.TrimSuffix(inner, ")"), func(r rune) bool { return r == ',' || r == ' ' || r == '/' })
	if len(parts) < 3 || len(parts) > 4 {
		return rgb{}, false
	}
	var n [4]float64
	n[3] = 1
	for i, p := range parts {
		f, unit, ok := number(p)
		if !ok {
			return rgb{}, false
		}
		if unit == "%" {
			f /= 100
			if i < 3 {
				f *= 255
			}
		}
		n[i] = f
	}
	return rgb{int(n[0]), int(n[1]), int(n[2]), n[3] == 0}, true
}
