package page

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// convertMarkdown uses markdown as it was served, with two changes: links become absolute,
// and comments, which nobody sees, are left out.
func convertMarkdown(p *Page, text []byte, o Options) {
	s, hidden := visible(strings.ReplaceAll(string(text), "\r\n", "\n"))
	base := baseOf(element("div"), o.URL)
	var out, open strings.Builder // open contains lines outside of code
	flush := func() {
		prose, n := withoutHidden(open.String())
		hidden += n
		out.WriteString(targets().ReplaceAllStringFunc(prose, func(m string) string { return absoluteTarget(base, m) }))
		open.Reset()
	}
	fence, unseen := "", false // unseen says whether the text is in a comment
	for line := range strings.Lines(s) {
		trimmed := strings.TrimSpace(line)
		mark := fenceMark(trimmed)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) && strings.Trim(trimmed, fence[:1]) == "" {
				fence = ""
			}
			out.WriteString(line)
		case mark != "" && !unseen:
			flush()
			fence = mark
			out.WriteString(line)
		default:
			open.WriteString(line)
			begin, end := strings.LastIndex(line, "<!--"), strings.LastIndex(line, "-->")
			unseen = begin > end || unseen && end < 0
		}
	}
	flush()
	p.Content, p.Hidden, p.Format = out.String(), hidden, Markdown
	headsOfMarkdown(p)
}

// fenceMark returns the row of signs with which a block of code begins, or "".
func fenceMark(line string) string {
	for _, sign := range []string{"`", "~"} {
		if rest := strings.TrimLeft(line, sign); len(line)-len(rest) >= 3 && (sign == "~" || !strings.Contains(rest, sign)) {
			return line[:len(line)-len(rest)]
		}
	}
	return ""
}

// withoutHidden returns markdown without HTML comments, and how many characters were in
// them. Code keeps what looks like a comment.
func withoutHidden(s string) (string, int) {
	hidden := 0
	return comment().ReplaceAllStringFunc(s, func(m string) string {
		if m[0] == '`' {
			return m
		}
		hidden += letters(strings.Trim(m, "<!->"))
		return ""
	}), hidden
}

// comment matches a comment, or a span of code.
var comment = pattern("(?s)`[^`\n]*`|<!--.*?(-->|$)")

// targets matches the destinations of links and images: inline, in definitions and in the
// attributes of HTML. It also matches spans of code, which are left alone.
var targets = pattern("`[^`\n]*`|\\]\\([ \t]*<?[^ \t\n()<>\"']+(\\([^ \t\n()]*\\)[^ \t\n()<>]*)*|(?m:^ {0,3}\\[[^\\]\n]{1,200}\\]:[ \t]+<?[^ \t\n>]+)|\\b(?:href|src)=(?:\"[^\"\n]*|'[^'\n]*)")

func absoluteTarget(base *url.URL, m string) string {
	if m[0] == '`' || strings.HasPrefix(m, "[^") || strings.HasPrefix(strings.TrimLeft(m, " "), "[^") {
		return m // code, or a footnote
	}
	cut := strings.LastIndexAny(m, " \t<\"'")
	if i := strings.Index(m, "]("); i >= 0 && !strings.Contains(m, "]:") {
		cut = max(cut, i+1)
	}
	target := m[cut+1:]
	if target == "" || strings.HasPrefix(target, "#") {
		return m
	}
	if to := absolute(base, target); to != "" {
		return m[:cut+1] + to
	}
	return m
}

// headsOfMarkdown finds the headings of a document that was markdown already.
func headsOfMarkdown(p *Page) {
	fence, chars := "", 0
	for line := range strings.Lines(p.Content) {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:3]
		case strings.HasPrefix(line, "#"):
			level := len(line) - len(strings.TrimLeft(line, "#"))
			if text := strings.TrimSpace(strings.Trim(trimmed, "#")); level <= 6 && text != "" && len(p.Headings) < MaxLinks {
				if p.Title == "" {
					p.Title = shorten(text, 300)
				}
				p.Headings = append(p.Headings, Heading{Level: level, Text: text, Offset: chars})
			}
		}
		chars += utf8.RuneCountInString(line)
	}
}
