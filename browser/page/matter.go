package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// quoted returns a YAML string in double quotes, on one line.
func quoted(s string) string { return strconv.Quote(s) }

func frontMatter(p *Page, m Meta) string {
	var b strings.Builder
	b.WriteString("---\n")
	field := func(name, value string) {
		if value != "" {
			b.WriteString(name + ": " + value + "\n")
		}
	}
	text := func(name, value string) {
		if value != "" {
			field(name, quoted(value))
		}
	}
	text("title", p.Title)
	text("url", p.URL)
	if m.Status != 0 {
		field("status", strconv.Itoa(m.Status))
	}
	text("language", p.Language)
	text("published", p.Published)
	if !m.Fetched.IsZero() {
		field("fetched", m.Fetched.UTC().Format(time.RFC3339))
	}
	field("type", string(p.Kind))
	field("rendered", m.Rendered)
	field("extraction", string(p.Extraction))
	field("bytes", strconv.Itoa(p.Bytes))
	field("truncated", strconv.FormatBool(p.Truncated))
	if m.Partial {
		field("partial", "true")
	}
	if p.Hidden > 0 {
		field("hidden_characters", strconv.Itoa(p.Hidden))
	}
	b.WriteString("---\n")
	return b.String()
}

func contents(headings []Heading, limit int) string {
	if len(headings) < 2 || limit < 1 {
		return ""
	}
	top := 6
	for _, h := range headings {
		top = min(top, h.Level)
	}
	var b strings.Builder
	for i, h := range headings {
		if i == limit {
			fmt.Fprintf(&b, "- and %d more\n", len(headings)-limit)
			break
		}
		text := escapeLabel.Replace(h.Text)
		if h.Anchor != "" {
			text = "[" + text + "](#" + escapeURL.Replace(h.Anchor) + ")"
		}
		fmt.Fprintf(&b, "%s- %s (offset %d)\n", strings.Repeat("  ", h.Level-top), text, h.Offset)
	}
	return b.String()
}
