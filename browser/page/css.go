package page

import (
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// hidingStyle reports whether a style makes its element n invisible. n is only needed to
// find the background under it; nil means a white background.
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
		return true // an element with a fixed position cannot be scrolled to
	}
	if far(d["margin-left"]) || far(d["margin-top"]) {
		return true
	}
	return sameColour(d, n)
}

// declarations returns the properties of a style. If a property is declared twice, the last
// declaration counts.
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

// sameColour reports whether text has the colour of its background.
func sameColour(d map[string]string, n *html.Node) bool {
	text, ok := colour(d["color"])
	if !ok {
		return false
	}
	if text.clear {
		// Transparent text shows its background, such as a gradient, if the background is
		// clipped to the text.
		return !strings.Contains(firstOf(d, "background-clip", "-webkit-background-clip"), "text")
	}
	if back := firstOf(d, "background-color", "background"); back != "" {
		c, ok := colour(back)
		return ok && text.near(c)
	}
	if !text.near(white) || n == nil {
		return false
	}
	// White text without a declared background is hidden only if no element above has a
	// background by a class, which only a browser knows. Instructions for an agent in white
	// text are usually declared on the element itself.
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

// isBackground reports whether the nearest background that an attribute above n declares
// has this colour. If none is declared, the background is white.
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

// emptyMask reports whether a mask hides its whole element.
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
		// An element that slides in is also moved by a part of its own size.
		if !strings.HasSuffix(a, "%") && far(a) {
			return true
		}
	}
	return false
}

// piled reports whether a letter spacing puts letters on top of each other.
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

// rgb is a colour; clear means that it is transparent.
type rgb struct {
	r, g, b int
	clear   bool
}

var white = rgb{255, 255, 255, false}

// near reports whether people cannot tell two colours apart.
func (c rgb) near(o rgb) bool {
	const most = 8 // largest difference of a component, of 255
	close := func(a, b int) bool { return a-b <= most && b-a <= most }
	return !c.clear && !o.clear && close(c.r, o.r) && close(c.g, o.g) && close(c.b, o.b)
}

// colour parses the usual notations of a colour.
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
