package report

import (
	"fmt"
	"strings"
)

// Markdown is a text in GitHub's Markdown to which pieces are added. The texts in the
// pieces are shown as they are: characters that would be markup are escaped. The zero value
// is empty.
type Markdown struct{ b strings.Builder }

// String returns the text.
func (m *Markdown) String() string { return m.b.String() }

// Heading adds a heading; level is 1 to 6.
func (m *Markdown) Heading(level int, text string) {
	m.part()
	fmt.Fprintf(&m.b, "%s %s\n", strings.Repeat("#", min(max(level, 1), 6)), plain(text))
}

// Paragraph adds a paragraph.
func (m *Markdown) Paragraph(text string) {
	m.part()
	m.b.WriteString(plain(text) + "\n")
}

// List adds a list.
func (m *Markdown) List(items ...string) {
	if len(items) == 0 {
		return
	}
	m.part()
	for _, item := range items {
		m.b.WriteString("- " + plain(item) + "\n")
	}
}

// Fenced adds lines of code of a language, for example "mermaid".
func (m *Markdown) Fenced(language, code string) {
	m.part()
	code = strings.TrimSuffix(code, "\n")
	fence := strings.Repeat("`", max(3, longestTicks(code)+1))
	m.b.WriteString(fence + language + "\n" + code + "\n" + fence + "\n")
}

// part begins a piece, with an empty line after the piece before it.
func (m *Markdown) part() {
	if m.b.Len() > 0 {
		m.b.WriteByte('\n')
	}
}

// plain returns a text as one line of Markdown that is shown as this text.
func plain(text string) string {
	var b strings.Builder
	for i, r := range line(text) {
		if strings.ContainsRune("\\`*_[]<>&~$#!", r) || i == 0 && strings.ContainsRune("+-=:", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return numbered(b.String())
}

// numbered escapes the beginning of an item of a numbered list.
func numbered(s string) string {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	if digits > 0 && digits < len(s) && (s[digits] == '.' || s[digits] == ')') {
		return s[:digits] + `\` + s[digits:]
	}
	return s
}

// longestTicks returns the length of the longest run of backquotes.
func longestTicks(s string) int {
	longest, run := 0, 0
	for _, c := range []byte(s) {
		if run++; c != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
