package report

import (
	"fmt"
	"strings"
)

// Markdown is a text in GitHub's Markdown that grows by pieces. Texts that are given to it
// stay texts: what would be markup in them is escaped. The zero value is empty.
type Markdown struct{ b strings.Builder }

// String returns the text.
func (m *Markdown) String() string { return m.b.String() }

// Heading adds a heading; level is 1 to 6.
func (m *Markdown) Heading(level int, text string) {
	m.part()
	fmt.Fprintf(&m.b, "%s %s\n", strings.Repeat("#", min(max(level, 1), 6)), Plain(text))
}

// Paragraph adds a paragraph of pieces that are Markdown already, from [Plain] and [Code].
func (m *Markdown) Paragraph(pieces ...string) {
	m.part()
	m.b.WriteString(strings.Join(pieces, " ") + "\n")
}

// List adds a list of items that are Markdown already.
func (m *Markdown) List(items ...string) {
	if len(items) == 0 {
		return
	}
	m.part()
	for _, item := range items {
		m.b.WriteString("- " + strings.ReplaceAll(item, "\n", " ") + "\n")
	}
}

// Table adds a table. Cells are Markdown already. A row that is short gets empty cells, and
// what is beyond the head is left out. Rows beyond most are counted in a last line; zero
// shows all.
func (m *Markdown) Table(head []string, rows [][]string, most int) {
	if len(head) == 0 {
		return
	}
	m.part()
	m.row(head, len(head))
	m.b.WriteString("|" + strings.Repeat("---|", len(head)) + "\n")
	shown := rows
	if most > 0 && len(rows) > most {
		shown = rows[:most]
	}
	for _, r := range shown {
		m.row(r, len(head))
	}
	if more := len(rows) - len(shown); more > 0 {
		fmt.Fprintf(&m.b, "\n%d more rows are not shown.\n", more)
	}
}

func (m *Markdown) row(cells []string, n int) {
	m.b.WriteByte('|')
	for i := range n {
		cell := ""
		if i < len(cells) {
			// A pipe ends a cell also in code (GitHub's Markdown, 4.10).
			cell = strings.ReplaceAll(strings.ReplaceAll(cells[i], "\n", " "), "|", `\|`)
		}
		m.b.WriteString(" " + cell + " |")
	}
	m.b.WriteByte('\n')
}

// Fenced adds lines of code of a language, for example "mermaid".
func (m *Markdown) Fenced(language, code string) {
	m.part()
	code = strings.TrimSuffix(code, "\n")
	fence := strings.Repeat("`", max(3, longestTicks(code)+1))
	m.b.WriteString(fence + language + "\n" + code + "\n" + fence + "\n")
}

// part begins a piece: an empty line stands between two.
func (m *Markdown) part() {
	if m.b.Len() > 0 {
		m.b.WriteByte('\n')
	}
}

// Plain returns a text of one line as Markdown that shows it and nothing else.
func Plain(text string) string {
	var b strings.Builder
	for i, r := range line(text) {
		if strings.ContainsRune("\\`*_[]<>&~$#!", r) || i == 0 && strings.ContainsRune("+-=:", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return numbered(b.String())
}

// numbered escapes what would begin an item of a numbered list.
func numbered(s string) string {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	if digits > 0 && digits < len(s) && (s[digits] == '.' || s[digits] == ')') {
		return s[:digits] + `\` + s[digits:]
	}
	return s
}

// Code returns a text of one line as code in Markdown, for names and paths.
func Code(text string) string {
	text = line(text)
	switch {
	case strings.TrimSpace(text) == "":
		return ""
	case strings.Contains(text, `\|`):
		return Plain(text) // in a table the backslash would free the pipe that ends a cell
	}
	ticks := strings.Repeat("`", longestTicks(text)+1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") || strings.HasPrefix(text, " ") && strings.HasSuffix(text, " ") {
		text = " " + text + " " // of which one space on each side is not shown
	}
	return ticks + text + ticks
}

// longestTicks is the length of the longest run of backquotes.
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
