package page

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/marker"
	"golang.org/x/net/html"
)

// maxColumns is the largest number of columns that the spans of a table may make.
const maxColumns = 200

// maxFilled is the largest number of cells of a table in which short rows are filled with
// empty cells. In a larger table, a reader of markdown adds them.
const maxFilled = 200_000

// layout reports whether a table is only used for layout: it says so, or it has one cell,
// or its cells contain what no cell of data does.
func layout(table *html.Node) bool {
	if role := attr(table, "role"); role == "presentation" || role == "none" {
		return true
	}
	cells, heads, big := 0, 0, false
	rows := 0
	for _, tr := range rowsOf(table) {
		rows++
		for _, c := range cellsOf(tr) {
			cells++
			if is(c, "th") {
				heads++
			}
			if cells < 500 {
				big = big || first(c, func(n *html.Node) bool { return isHeading(n) || is(n, "table", "article", "main", "section") }) != nil
			}
		}
	}
	size := length(table)
	if cells <= 1 || heads == 0 && (rows == 1 && size > 100 || cells == rows && size > 400) {
		return true
	}
	return big && heads == 0
}

// rowsOf returns the rows of a table, without those of tables in its cells.
func rowsOf(table *html.Node) []*html.Node {
	var rows []*html.Node
	for c := table.FirstChild; c != nil; c = c.NextSibling {
		switch {
		case is(c, "tr"):
			rows = append(rows, c)
		case is(c, "thead", "tbody", "tfoot"):
			for r := c.FirstChild; r != nil; r = r.NextSibling {
				if is(r, "tr") {
					rows = append(rows, r)
				}
			}
		}
	}
	return rows
}

func cellsOf(tr *html.Node) []*html.Node {
	var cells []*html.Node
	for c := tr.FirstChild; c != nil; c = c.NextSibling {
		if is(c, "td", "th") {
			cells = append(cells, c)
		}
	}
	return cells
}

// writeTable writes a table of data, with every row. A table for layout is replaced by the
// blocks in its cells.
func writeTable(ctx converter.Context, w converter.Writer, table *html.Node) converter.RenderStatus {
	if within(table, nil, "td", "th") != nil && within(table, nil, "table") != nil && !layoutAbove(table) {
		return writeInner(ctx, w, table)
	}
	if layout(table) {
		for _, tr := range rowsOf(table) {
			for _, c := range cellsOf(tr) {
				put(w, "\n\n")
				ctx.RenderChildNodes(ctx, w, c)
				put(w, "\n\n")
			}
		}
		return converter.RenderSuccess
	}
	rows := rowsOf(table)
	grid, columns := make([][]string, 0, len(rows)), 0
	over := make(map[int]int) // number of rows that a cell above still covers, by column
	for _, tr := range rows {
		var line []string
		put := func(s string) {
			for len(line) < maxColumns && over[len(line)] > 0 {
				over[len(line)]--
				line = append(line, "")
			}
			if len(line) < maxColumns {
				line = append(line, s)
			}
		}
		for _, c := range cellsOf(tr) {
			text := cell(ctx, c)
			for i := range span(c, "colspan") {
				if i > 0 {
					text = ""
				}
				put(text)
				if down := span(c, "rowspan"); down > 1 && len(line) > 0 {
					over[len(line)-1] = down - 1
				}
			}
		}
		for k := len(line); over[k] > 0 && k < maxColumns; k++ {
			over[k]--
			line = append(line, "")
		}
		if strings.Join(line, "") == "" {
			continue
		}
		columns = max(columns, len(line))
		grid = append(grid, line)
	}
	if len(grid) == 0 {
		return converter.RenderSuccess
	}
	put(w, "\n\n")
	for c := table.FirstChild; c != nil; c = c.NextSibling {
		if is(c, "caption") {
			put(w, string(bytes.TrimSpace(render(ctx, c))))
			put(w, "\n\n")
		}
	}
	if !headed(table, rows) {
		writeRow(w, nil, columns)
		writeRule(w, columns)
	}
	for i, line := range grid {
		wide := columns
		if i > 0 && len(grid)*columns > maxFilled {
			wide = len(line)
		}
		writeRow(w, line, wide)
		if i == 0 && headed(table, rows) {
			writeRule(w, columns)
		}
	}
	put(w, "\n\n")
	return converter.RenderSuccess
}

// headed reports whether the first row names the columns.
func headed(table *html.Node, rows []*html.Node) bool {
	if len(rows) == 0 {
		return false
	}
	if is(rows[0].Parent, "thead") {
		return true
	}
	heads, cells := 0, cellsOf(rows[0])
	for _, c := range cells {
		if is(c, "th") {
			heads++
		}
	}
	if heads > 0 && heads*2 >= len(cells) && (heads > 1 || len(cells) == 1 || len(rows) == 1) {
		return true
	}
	// If a table has no head, its first row is used as the head: its author would have made
	// that row bold.
	return len(named(table, "th")) == 0
}

func layoutAbove(table *html.Node) bool {
	for p := within(table, nil, "table"); p != nil; p = within(p, nil, "table") {
		if !layout(p) {
			return false
		}
	}
	return true
}

// writeInner writes a table that is in a cell of another table: its rows become lines.
func writeInner(ctx converter.Context, w converter.Writer, table *html.Node) converter.RenderStatus {
	for _, tr := range rowsOf(table) {
		var cells []string
		for _, c := range cellsOf(tr) {
			if s := cell(ctx, c); s != "" {
				cells = append(cells, s)
			}
		}
		put(w, "\n"+strings.Join(cells, ", ")+"\n")
	}
	return converter.RenderSuccess
}

func span(c *html.Node, key string) int {
	n, err := strconv.Atoi(strings.TrimSpace(attr(c, key)))
	if err != nil || n < 1 {
		return 1
	}
	if key == "rowspan" {
		return min(n, 10_000)
	}
	return min(n, maxColumns)
}

// cell returns the content of a cell on one line; its lines are separated by <br>.
func cell(ctx converter.Context, c *html.Node) string {
	for _, pre := range named(c, "pre") {
		codeInCell(pre)
	}
	b := bytes.TrimSpace(render(ctx, c))
	b = ctx.UnEscapeContent(tidy(b))
	b = bytes.ReplaceAll(b, marker.BytesMarkerCodeBlockNewline, []byte("\n"))
	var lines []string
	for line := range strings.SplitSeq(string(b), "\n") {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, strings.Repeat(" ", min(indent, 12))+line)
		}
	}
	return escapePipes(strings.Join(lines, "<br>"))
}

// escapePipes escapes the signs that would end a cell.
func escapePipes(s string) string {
	if !strings.Contains(s, "|") {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if s[i] == '|' && (i == 0 || s[i-1] != '\\') {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// codeInCell replaces a block of code with a span of code for each of its lines.
func codeInCell(pre *html.Node) {
	lines := strings.Split(strings.Trim(rawTextOf(pre), "\n"), "\n")
	div := element("div")
	for i, line := range lines {
		if i > 0 {
			div.AppendChild(element("br"))
		}
		if strings.TrimSpace(line) != "" {
			div.AppendChild(element("code", textNode(line)))
		}
	}
	replace(pre, div)
}

func writeRow(w converter.Writer, line []string, columns int) {
	put(w, "|")
	for i := range columns {
		put(w, " ")
		if i < len(line) && line[i] != "" {
			put(w, line[i])
			put(w, " ")
		}
		put(w, "|")
	}
	put(w, "\n")
}

func writeRule(w converter.Writer, columns int) {
	put(w, "|"+strings.Repeat(" --- |", columns)+"\n")
}
