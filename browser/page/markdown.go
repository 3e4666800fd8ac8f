package page

import (
	"bytes"
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/JohannesKaufmann/html-to-markdown/v2/collapse"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/marker"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/strikethrough"
	"golang.org/x/net/html"
)

// contextKey is the type of keys for values that are passed down while writing.
type contextKey int

// insideLink is true in the text of a link.
const insideLink contextKey = iota

// markdownOf writes a tree as GitHub's markdown. The tree is changed.
func markdownOf(parent context.Context, n *html.Node) (string, error) {
	conv := converter.NewConverter(converter.WithPlugins(
		ground{},
		commonmark.NewCommonmarkPlugin(commonmark.WithListEndComment(false), commonmark.WithHorizontalRule("---")),
		strikethrough.NewStrikethroughPlugin(),
		ours{},
	))
	doc := &html.Node{Type: html.DocumentNode}
	remove(n)
	doc.AppendChild(n)
	out, err := conv.ConvertNode(doc, converter.WithContext(parent))
	if err == nil && parent.Err() != nil {
		err = context.Cause(parent)
	}
	if err != nil {
		return "", err
	}
	if len(out) == 0 {
		return "", nil
	}
	return string(out) + "\n", nil
}

// ground replaces the library's own plugin of this name, which escapes
// every < and removes elements that have a meaning here.
type ground struct{}

func (ground) Name() string { return "base" }

func (ground) Init(conv *converter.Converter) error {
	conv.Register.PreRenderer(func(ctx converter.Context, doc *html.Node) {
		collapse.Collapse(doc, &collapse.DomFuncs{IsBlockNode: func(n *html.Node) bool {
			return blocks.has(n.Data) || is(n, "td", "th", "video", "iframe")
		}})
	}, converter.PriorityLate)
	for name := range blocks.made() {
		conv.Register.TagType(name, converter.TagTypeBlock, converter.PriorityStandard)
	}
	conv.Register.TextTransformer(func(ctx converter.Context, s string) string {
		if ctx.Err() != nil {
			return "" // the rest takes little time, and its result is not used
		}
		if inside, _ := ctx.Value(insideLink).(bool); inside && strings.ContainsAny(s, "[]") {
			s = linkBrackets.Replace(s)
		}
		return tame(entities(string(ctx.EscapeContent([]byte(brackets(s))))))
	}, converter.PriorityStandard)
	conv.Register.PostRenderer(func(ctx converter.Context, out []byte) []byte {
		return settle(ctx, tidy(out))
	}, converter.PriorityStandard)
	return nil
}

// settleAtOnce bounds the text in which signs are settled in one pass. From each sign, the
// library searches in both directions, but no result depends on text beyond the paragraph.
const settleAtOnce = 64 << 10

// settle writes or removes the escape before each sign that may need one.
func settle(ctx converter.Context, out []byte) []byte {
	done := make([]byte, 0, len(out))
	for len(out) > 0 && ctx.Err() == nil {
		end := len(out)
		if end > settleAtOnce {
			end = settleAtOnce
			if i := bytes.Index(out[end:], []byte("\n\n")); i >= 0 && i < settleAtOnce {
				end += i
			} else if i := bytes.IndexByte(out[end:], '\n'); i >= 0 && i < settleAtOnce {
				end += i
			} else {
				for end < len(out) && out[end-1] == byte(marker.MarkerEscaping) {
					end++
				}
			}
		}
		done = append(done, ctx.UnEscapeContent(out[:end])...)
		out = out[end:]
	}
	return done
}

// entities escapes text that markdown would read as an element or an entity.
func entities(s string) string {
	if !strings.ContainsAny(s, "<&") {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		next := byte(0)
		if i+1 < len(s) {
			next = s[i+1]
		}
		switch {
		case s[i] == '<' && (next >= 'a' && next <= 'z' || next >= 'A' && next <= 'Z' || next == '/' || next == '!' || next == '?'):
			b.WriteString(`\<`)
		case s[i] == '&' && entity().MatchString(s[i:min(len(s), i+12)]):
			b.WriteString(`\&`)
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

var entity = pattern(`^&(#\d{1,6}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,8});`)

// escapedBracket and closedBracket stand for brackets that must not be read as a link,
// until the library's escapes are settled.
const (
	escapedBracket = "\ue0f3"
	closedBracket  = "\ue0f4"
)

var (
	linkBrackets    = strings.NewReplacer("[", escapedBracket, "]", closedBracket)
	settledBrackets = strings.NewReplacer(escapedBracket, `\[`, closedBracket, `\]`)
	escapeLabel     = strings.NewReplacer("[", `\[`, "]", `\]`)
)

// brackets marks the brackets that markdown would read as a link or as the box of a task.
// The library's own rule searches all following text for the end of each bracket, which
// takes minutes if there are many.
func brackets(s string) string {
	if strings.IndexByte(s, '[') < 0 {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if s[i] == '[' && opensLink(s, i) {
			b.WriteString(escapedBracket)
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func opensLink(s string, i int) bool {
	ahead := s[i:min(len(s), i+200)]
	end := strings.IndexByte(ahead, ']')
	if end < 0 {
		return false
	}
	if box := strings.TrimSpace(s[:i]) == "" && end == 2; box {
		return true
	}
	return end+1 < len(ahead) && (ahead[end+1] == '(' || ahead[end+1] == '[' || ahead[end+1] == ':')
}

// tame removes the escapes of signs that mean nothing at their place: underscores inside of
// words, and brackets, which are settled already.
func tame(s string) string {
	if strings.IndexByte(s, byte(marker.MarkerEscaping)) < 0 && !strings.ContainsAny(s, escapedBracket+closedBracket) {
		return s
	}
	var b strings.Builder
	last := rune(0)
	for i, r := range s {
		if r == marker.MarkerEscaping && i+1 < len(s) {
			switch s[i+1] {
			case '[', ']', '(', ')', '!':
				continue
			case '_':
				after := rune(0)
				if i+2 < len(s) {
					after, _ = utf8.DecodeRuneInString(s[i+2:])
				}
				if wordRune(last) && wordRune(after) {
					continue
				}
			}
		} else {
			last = r
		}
		b.WriteRune(r)
	}
	return settledBrackets.Replace(b.String())
}

func wordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// tidy leaves at most one empty line in a row, and removes the spaces at line ends except
// those that break a line. In code, line ends are marks at this point, so code is not
// changed.
func tidy(out []byte) []byte {
	var b bytes.Buffer
	b.Grow(len(out))
	blank := 1
	for line := range bytes.Lines(out) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		hard := bytes.HasSuffix(line, []byte("  ")) && len(bytes.TrimSpace(line)) > 0
		line = bytes.TrimRight(line, " \t\r")
		if len(bytes.TrimLeft(line, "> ")) == 0 {
			if len(line) == 0 || blank > 0 {
				blank++
				if len(line) == 0 || blank > 1 {
					continue
				}
			}
		}
		if b.Len() > 0 {
			if blank > 0 {
				b.WriteByte('\n')
			}
			b.WriteByte('\n')
		}
		blank = 0
		b.Write(line)
		if hard {
			b.WriteString("  ")
		}
	}
	return bytes.TrimRight(b.Bytes(), " \n")
}

// ours writes what the library loses: tables with any content in their cells, math,
// definitions, boxes of tasks, superscripts and subscripts, and targets as they are.
type ours struct{}

func (ours) Name() string { return "belljar" }

func (ours) Init(conv *converter.Converter) error {
	conv.Register.Renderer(func(ctx converter.Context, w converter.Writer, n *html.Node) converter.RenderStatus {
		switch n.Data {
		case "table":
			return writeTable(ctx, w, n)
		case "a":
			return writeLink(ctx, w, n)
		case "img":
			return writeImage(w, n)
		case "sub", "sup":
			return writeRaised(ctx, w, n)
		case "dl":
			return writeDefinitions(ctx, w, n)
		case "q":
			put(w, "“")
			ctx.RenderChildNodes(ctx, w, n)
			put(w, "”")
			return converter.RenderSuccess
		case "blockquote":
			return writeQuote(ctx, w, n)
		case "summary":
			return writeSummary(ctx, w, n)
		case "span":
			if kind := attr(n, mathAttr); kind != "" {
				writeMath(w, rawTextOf(n), kind == "block")
				return converter.RenderSuccess
			}
			if hasAttr(n, boxAttr) {
				return writeBox(w, n)
			}
		}
		return converter.RenderTryNext
	}, converter.PriorityEarly)
	return nil
}

// put writes to a buffer of the library, which cannot fail.
func put(w converter.Writer, s string) { _, _ = w.WriteString(s) }

func render(ctx converter.Context, n *html.Node) []byte {
	var b bytes.Buffer
	ctx.RenderChildNodes(ctx, &b, n)
	return b.Bytes()
}

// writeLink writes a link on one line, and joins the blocks in it. A link without text gets
// its label or title as text, or is left out.
func writeLink(ctx converter.Context, w converter.Writer, n *html.Node) converter.RenderStatus {
	href := attr(n, "href")
	if href == "" {
		ctx.RenderChildNodes(ctx, w, n)
		return converter.RenderSuccess
	}
	content := render(ctx.WithValue(insideLink, true), n)
	trimmed := bytes.TrimSpace(content)
	if len(trimmed) == 0 {
		if label := oneLine(attr(n, "aria-label") + " " + attr(n, "title")); label != "" && len(label) < 200 && first(n, func(n *html.Node) bool { return is(n, "img") }) == nil {
			trimmed = []byte(label)
		} else {
			return converter.RenderSuccess
		}
	}
	if bytes.Contains(trimmed, []byte("\n\n")) {
		trimmed = joined(trimmed)
	}
	trimmed = bytes.ReplaceAll(bytes.ReplaceAll(trimmed, []byte("  \n"), []byte(" ")), []byte("\n"), []byte(" "))
	for len(trimmed) > 0 && (trimmed[0] == '#' || trimmed[0] == ' ') { // the link contains a heading
		trimmed = trimmed[1:]
	}
	if c := content[0:min(1, len(content))]; len(c) == 1 && c[0] == ' ' {
		put(w, " ")
	}
	put(w, "[")
	put(w, string(trimmed))
	if number := attr(n, referenceAttr); number != "" {
		put(w, "]["+number+"]")
	} else {
		put(w, "]("+href+")")
	}
	if len(content) > 0 && content[len(content)-1] == ' ' {
		put(w, " ")
	}
	return converter.RenderSuccess
}

// joined joins the blocks in a link into one line.
func joined(b []byte) []byte {
	var parts [][]byte
	for part := range bytes.SplitSeq(b, []byte("\n\n")) {
		part = bytes.TrimLeft(bytes.TrimSpace(part), "# ")
		if len(part) > 0 {
			parts = append(parts, part)
		}
	}
	return bytes.Join(parts, []byte(" — "))
}

func writeImage(w converter.Writer, n *html.Node) converter.RenderStatus {
	alt := escapeLabel.Replace(oneLine(attr(n, "alt")))
	src := attr(n, "src")
	if src == "" {
		if alt != "" {
			put(w, "!["+alt+"]()")
		}
		return converter.RenderSuccess
	}
	put(w, "!["+alt+"]("+src)
	if title := oneLine(attr(n, "title")); title != "" && title != oneLine(attr(n, "alt")) {
		put(w, ` "`+strings.ReplaceAll(title, `"`, "'")+`"`)
	}
	put(w, ")")
	return converter.RenderSuccess
}

// writeBox writes the box of a task.
func writeBox(w converter.Writer, n *html.Node) converter.RenderStatus {
	box := "[ ]"
	if attr(n, boxAttr) == "[x]" {
		box = "[x]"
	}
	if next := n.NextSibling; next == nil || next.Type != html.TextNode || !strings.HasPrefix(next.Data, " ") {
		box += " "
	}
	put(w, box)
	return converter.RenderSuccess
}

func writeRaised(ctx converter.Context, w converter.Writer, n *html.Node) converter.RenderStatus {
	content := bytes.TrimSpace(render(ctx, n))
	if len(content) == 0 || bytes.Contains(content, []byte("](")) || content[0] == '[' || bytes.Contains(content, []byte("\n")) {
		put(w, string(content)) // a footnote needs no element around it
		return converter.RenderSuccess
	}
	put(w, "<"+n.Data+">")
	put(w, string(content))
	put(w, "</"+n.Data+">")
	return converter.RenderSuccess
}

// writeQuote puts a mark before every line of a quote, also before the lines of code, for
// which the library writes none.
func writeQuote(ctx converter.Context, w converter.Writer, n *html.Node) converter.RenderStatus {
	content := tidy(bytes.TrimSpace(render(ctx, n)))
	if len(content) == 0 {
		return converter.RenderSuccess
	}
	content = bytes.ReplaceAll(content, marker.BytesMarkerCodeBlockNewline, append(bytes.Clone(marker.BytesMarkerCodeBlockNewline), '>', ' '))
	put(w, "\n\n")
	for line := range bytes.Lines(content) {
		if len(bytes.TrimSpace(line)) == 0 {
			put(w, ">\n")
			continue
		}
		put(w, "> ")
		put(w, string(line))
	}
	put(w, "\n\n")
	return converter.RenderSuccess
}

func writeSummary(ctx converter.Context, w converter.Writer, n *html.Node) converter.RenderStatus {
	content := bytes.TrimSpace(render(ctx, n))
	if len(content) == 0 {
		return converter.RenderSuccess
	}
	put(w, "\n\n")
	if bytes.ContainsAny(content, "\n*#`") || bytes.Contains(content, []byte("](")) {
		put(w, string(content))
	} else {
		put(w, "**"+string(content)+"**")
	}
	put(w, "\n\n")
	return converter.RenderSuccess
}

func writeMath(w converter.Writer, tex string, block bool) {
	if !block {
		put(w, "$"+oneLine(tex)+"$")
		return
	}
	lines := strings.Split(strings.TrimSpace(tex), "\n")
	kept := lines[:0]
	for _, l := range lines {
		if strings.TrimSpace(l) != "" {
			kept = append(kept, strings.TrimRight(l, " \t\r"))
		}
	}
	put(w, "\n\n$$\n"+strings.Join(kept, "\n")+"\n$$\n\n")
}

// writeDefinitions writes terms and their meanings: a term is on a line of its own, and its
// meaning is indented after a colon.
func writeDefinitions(ctx converter.Context, w converter.Writer, n *html.Node) converter.RenderStatus {
	put(w, "\n\n")
	var visit func(n *html.Node)
	visit = func(n *html.Node) {
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			switch {
			case is(c, "dt"):
				if content := bytes.TrimSpace(render(ctx, c)); len(content) > 0 {
					put(w, "\n\n")
					put(w, string(content))
				}
			case is(c, "dd"):
				if content := bytes.TrimSpace(render(ctx, c)); len(content) > 0 {
					put(w, "\n: ")
					put(w, string(indented(tidy(content))))
					put(w, "\n")
				}
			case is(c, "div") && first(c, func(n *html.Node) bool { return is(n, "dt", "dd") }) != nil:
				visit(c)
			case c.Type == html.TextNode && strings.TrimSpace(c.Data) == "":
			default:
				put(w, "\n\n")
				ctx.RenderNodes(ctx, w, c)
				put(w, "\n\n")
			}
		}
	}
	visit(n)
	put(w, "\n\n")
	return converter.RenderSuccess
}

// indented puts two spaces before every line except the first, also in code.
func indented(b []byte) []byte {
	b = bytes.ReplaceAll(b, marker.BytesMarkerCodeBlockNewline, append(bytes.Clone(marker.BytesMarkerCodeBlockNewline), ' ', ' '))
	b = bytes.ReplaceAll(b, []byte("\n"), []byte("\n  "))
	return bytes.ReplaceAll(b, []byte("\n  \n"), []byte("\n\n"))
}
