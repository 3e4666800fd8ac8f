package page

import (
	"strings"

	"golang.org/x/net/html"
)

// mathAttr marks a formula: an element with its TeX as text. Its value is
// "inline" or "block".
const mathAttr = "belljar-math"

func formula(tex string, block bool) *html.Node {
	tex = strings.TrimSpace(tex)
	if tex == "" {
		return textNode("")
	}
	n := element("span", textNode(tex))
	kind := "inline"
	if block {
		kind = "block"
	}
	n.Attr = []html.Attribute{{Key: mathAttr, Val: kind}}
	return n
}

// formulas finds the math of a page, in each of the ways in which it is written for
// browsers, and replaces it with its TeX.
func formulas(root *html.Node) {
	walk(root, func(n *html.Node) bool {
		switch {
		case n.Type == html.TextNode:
			delimited(n)
		case n.Type != html.ElementNode:
		case is(n, "pre", "code", "style", "textarea", "kbd", "samp"):
			return false
		case is(n, "script"):
			if t := attr(n, "type"); strings.HasPrefix(t, "math/tex") || strings.HasPrefix(t, "math/asciimath") {
				replace(n, formula(rawTextOf(n), strings.Contains(t, "mode=display")))
			}
			return false
		case hasClass(n, "MathJax_Preview", "MathJax", "MathJax_Display", "MathJax_SVG", "MathJax_SVG_Display", "mjx-chtml", "MathJax_CHTML"):
			if m := mathOf(n); m != nil && !hasScript(n) {
				replace(n, m)
			} else {
				remove(n)
			}
			return false
		case hasClass(n, "katex-display", "katex", "mwe-math-element") || is(n, "mjx-container", "katex"):
			if m := mathOf(n); m != nil {
				replace(n, m)
				return false
			}
		case is(n, "math"):
			if m := mathOf(n); m != nil {
				replace(n, m)
			}
			return false
		case is(n, "img") && hasClass(n, "tex", "latex", "math", "mwe-math-fallback-image-inline", "mwe-math-fallback-image-display"):
			if alt := attr(n, "alt"); strings.ContainsAny(alt, `\^_=`) {
				replace(n, formula(unstyled(strings.Trim(alt, "$")), strings.Contains(attr(n, "class"), "display")))
			}
		}
		return true
	})
}

// hasScript reports whether the source of a rendered formula follows it, as
// MathJax leaves it.
func hasScript(n *html.Node) bool {
	for s, i := n.NextSibling, 0; s != nil && i < 3; s, i = s.NextSibling, i+1 {
		if is(s, "script") && strings.HasPrefix(attr(s, "type"), "math/") {
			return true
		}
	}
	return false
}

// mathOf returns the formula in an element, or nil: the TeX that the element carries in
// addition to what it shows, or else TeX that is made from its MathML.
func mathOf(n *html.Node) *html.Node {
	block := hasClass(n, "katex-display", "MathJax_Display") || attr(n, "display") == "true" || attr(n, "display") == "block" || hasClass(n.Parent, "katex-display")
	m := n
	if !is(n, "math") {
		m = first(n, func(n *html.Node) bool { return is(n, "math") })
		if m == nil {
			if tex := attr(n, "data-tex"); tex != "" {
				return formula(tex, block)
			}
			return nil
		}
	}
	block = block || attr(m, "display") == "block" || attr(m, "mode") == "display"
	if a := first(m, func(n *html.Node) bool {
		return is(n, "annotation") && strings.Contains(strings.ToLower(attr(n, "encoding")), "tex")
	}); a != nil {
		return formula(unstyled(rawTextOf(a)), block)
	}
	if alt := attr(m, "alttext"); alt != "" {
		return formula(unstyled(alt), block)
	}
	return formula(mathML(m, 0), block)
}

// unstyled removes what wikis put around each formula.
func unstyled(tex string) string {
	tex = strings.TrimSpace(tex)
	for _, style := range []string{`{\displaystyle`, `{\textstyle`} {
		if rest, ok := strings.CutPrefix(tex, style); ok && strings.HasSuffix(rest, "}") {
			return strings.TrimSpace(strings.TrimSuffix(rest, "}"))
		}
	}
	return tex
}

// dollars matches formulas in the text itself, between the marks that math renderers look
// for.
var dollars = pattern(`(?s)\\\((.{1,1000}?)\\\)|\\\[(.{1,1000}?)\\\]|\$\$(.{1,1000}?)\$\$`)

// delimited makes elements of the formulas in a text.
func delimited(n *html.Node) {
	if n.Parent == nil || !strings.Contains(n.Data, `\(`) && !strings.Contains(n.Data, `\[`) && !strings.Contains(n.Data, "$$") {
		return
	}
	at := 0
	for _, m := range dollars().FindAllStringSubmatchIndex(n.Data, 1000) {
		if m[0] > at {
			n.Parent.InsertBefore(textNode(n.Data[at:m[0]]), n)
		}
		for g := 1; g <= 3; g++ {
			if m[2*g] >= 0 {
				n.Parent.InsertBefore(formula(n.Data[m[2*g]:m[2*g+1]], g > 1), n)
			}
		}
		at = m[1]
	}
	if at > 0 {
		n.Data = n.Data[at:]
	}
}

// symbols are operators of MathML for which TeX has commands.
var symbols = strings.NewReplacer("−", "-", "×", `\times `, "⋅", `\cdot `, "·", `\cdot `, "≤", `\le `, "≥", `\ge `, "≠", `\ne `, "∑", `\sum `, "∏", `\prod `,
	"∫", `\int `, "∞", `\infty `, "→", `\to `, "∈", `\in `, "±", `\pm `, "∂", `\partial `, "∇", `\nabla `, "√", `\surd `, "…", `\ldots `, "\u2061", "", "\u2062", "", "\u2063", "")

// mathML writes presentation MathML as TeX, as far as pages use it.
func mathML(n *html.Node, depth int) string {
	if n.Type == html.TextNode {
		return symbols.Replace(oneLine(n.Data))
	}
	if depth > 60 {
		return oneLine(rawTextOf(n))
	}
	if n.Data == "mmultiscripts" {
		return multiscripts(n, depth)
	}
	var kids []string
	var all strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.TextNode && strings.TrimSpace(c.Data) == "" || is(c, "annotation", "annotation-xml", "none", "mprescripts") {
			continue
		}
		s := mathML(c, depth+1)
		if s == ")" && strings.HasSuffix(all.String(), "}") && strings.HasPrefix(all.String(), `(\binom{`) && len(kids) == 2 {
			kids, s = kids[1:], kids[1] // \binom brings its own parentheses
			all.Reset()
		}
		kids = append(kids, s)
		if all.Len() > 0 && s != "" && word(all.String()) && word(s[:1]) && strings.Contains(all.String(), `\`) {
			all.WriteByte(' ')
		}
		all.WriteString(s)
	}
	arg := func(i int) string {
		if i < len(kids) {
			return "{" + kids[i] + "}"
		}
		return "{}"
	}
	base := func() string {
		if len(kids) > 0 && len([]rune(kids[0])) <= 1 {
			return kids[0]
		}
		return arg(0)
	}
	switch n.Data {
	case "mi", "mn", "mo":
		if command := variants[strings.ToLower(attr(n, "mathvariant"))]; command != "" && all.Len() > 0 {
			return command + "{" + all.String() + "}"
		}
	case "mover", "munder":
		if len(kids) > 1 {
			if command := accents[strings.TrimSpace(kids[1])]; command != "" {
				return command + arg(0)
			}
		}
		if n.Data == "munder" {
			return base() + "_" + arg(1)
		}
		return base() + "^" + arg(1)
	case "msup":
		return base() + "^" + arg(1)
	case "msub":
		return base() + "_" + arg(1)
	case "msubsup", "munderover":
		return base() + "_" + arg(1) + "^" + arg(2)
	case "mfrac":
		if thick := strings.TrimSpace(attr(n, "linethickness")); thick != "" && strings.Trim(thick, "0.pxemt%") == "" && strings.Contains(thick, "0") {
			return `\binom` + arg(0) + arg(1)
		}
		return `\frac` + arg(0) + arg(1)
	case "msqrt":
		return `\sqrt{` + all.String() + "}"
	case "mroot":
		if len(kids) > 1 {
			return `\sqrt[` + kids[1] + "]" + arg(0)
		}
	case "mtext":
		return `\text{` + all.String() + "}"
	case "mfenced":
		return "(" + strings.Join(kids, ",") + ")"
	case "mtr", "mlabeledtr":
		return strings.Join(kids, " & ")
	case "mtable":
		return `\begin{matrix}` + strings.Join(kids, ` \\ `) + `\end{matrix}`
	case "mspace":
		return " "
	}
	return all.String()
}

// accents are the signs over and under a letter, and variants the alphabets, that
// TeX has commands for.
var (
	accents = map[string]string{
		"→": `\vec`, `\to`: `\vec`, "⃗": `\vec`, "^": `\hat`, "ˆ": `\hat`, "̂": `\hat`, "~": `\tilde`, "˜": `\tilde`, "˙": `\dot`, "¨": `\ddot`,
		"¯": `\bar`, "‾": `\overline`, "―": `\overline`, "ˇ": `\check`, "˘": `\breve`, "´": `\acute`, "`": `\grave`,
		"⏞": `\overbrace`, "⏟": `\underbrace`, "_": `\underline`, "̲": `\underline`,
	}
	variants = map[string]string{
		"double-struck": `\mathbb`, "bold": `\mathbf`, "script": `\mathcal`, "fraktur": `\mathfrak`, "sans-serif": `\mathsf`, "monospace": `\mathtt`,
		"bold-italic": `\boldsymbol`,
	}
)

// multiscripts writes indices on both sides of a base. They come in pairs: first those
// after the base, then those before it.
func multiscripts(n *html.Node, depth int) string {
	var base string
	var around [2]strings.Builder // indices after the base and before it
	side, count := 0, -1
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		switch {
		case c.Type != html.ElementNode:
			continue
		case is(c, "mprescripts"):
			side, count = 1, 0
			continue
		case count < 0:
			base = mathML(c, depth+1)
		case !is(c, "none") && (!is(c, "mrow") || hasText(c)):
			around[side].WriteString([]string{"_", "^"}[count%2] + "{" + mathML(c, depth+1) + "}")
		}
		count++
	}
	if around[1].Len() > 0 {
		return "{}" + around[1].String() + base + around[0].String()
	}
	return base + around[0].String()
}

// word reports whether s ends in a letter.
func word(s string) bool {
	if s == "" {
		return false
	}
	c := s[len(s)-1]
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
