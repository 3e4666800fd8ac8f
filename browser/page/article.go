package page

import (
	"net/url"
	"strconv"

	"codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
)

// articleOf returns the article of a page, or nil. First it removes the elements that the
// page itself names as furniture. Then readability finds the article. Last it removes the
// furniture without such a name, at the ends of the article and between its paragraphs. If
// the article is a small part of the text without furniture, the page is a list of many,
// unless it calls itself an article. The document is changed.
func articleOf(doc *html.Node, base *url.URL, declared bool) *html.Node {
	mass := paragraphs(doc)
	dropLinkColumns(doc)
	enumerate(doc)
	whole := clone(doc)
	dropFurniture(doc, mass)
	left, cleaned := paragraphs(doc), clone(doc)
	found := readable(doc, base)
	if found == nil || paragraphs(found)*3 < mass {
		// Either a name that looked like furniture was wrong, or the page has little except
		// furniture. The result of readability for the whole page shows which.
		if more := readable(whole, base); more != nil && (found == nil || paragraphs(more) > 2*paragraphs(found)) {
			found = more
		}
	}
	if found == nil {
		return nil
	}
	if size := paragraphs(found); size*5 < left && (!declared || size < 800) {
		return nil
	}
	lead(cleaned, found)
	top := 0
	if h1 := named(cleaned, "h1"); len(h1) == 1 {
		top = numberOf(h1[0])
	}
	trim(found, base, top)
	return found
}

// dropLinkColumns empties the cells of links next to the cell that has most of the page's
// text. A table with such a cell is used for layout: in a table of data, no cell has most
// of the text. Tables in that cell may be used for layout as well.
func dropLinkColumns(doc *html.Node) {
	const levels = 8 // each level is measured again
	total, linked := measure(doc)
	most := max(400, (total-linked)*6/10)
	for level, at := 0, doc; level < levels && at != nil; level++ {
		var text *html.Node
		walk(at, func(n *html.Node) bool {
			if is(n, "table") && text == nil {
				text = placed(n, most)
			}
			return !is(n, "table")
		})
		at = text
	}
}

// placed returns the cell of a table that has most of the text, or nil. It empties the
// cells of links next to that cell, except a cell that is longer than the text: then the
// page is a list, and the text is about the list.
func placed(table *html.Node, most int) (text *html.Node) {
	type column struct {
		cell *html.Node
		size int
	}
	var columns []column
	longest := 0
	for _, tr := range rowsOf(table) {
		for _, cell := range cellsOf(tr) {
			switch total, linked := measure(cell); {
			case total-linked > most:
				text, longest = cell, total
			case linked*2 > total:
				columns = append(columns, column{cell, total})
			}
		}
	}
	for _, c := range columns {
		for c.size <= longest && c.cell.FirstChild != nil {
			c.cell.RemoveChild(c.cell.FirstChild)
		}
	}
	return text
}

func enumerate(doc *html.Node) {
	for i, n := range all(doc, func(n *html.Node) bool { return blocks.has(n.Data) }) {
		setAttr(n, numberAttr, strconv.Itoa(i))
	}
}

// lead puts the first paragraph under the heading of the page before found, with everything
// between them, if found does not have that paragraph. It may be the question of a page
// whose answers are longer.
func lead(doc, found *html.Node) {
	h1 := named(doc, "h1")
	if len(h1) != 1 {
		return
	}
	took := make(map[string]bool)
	for _, n := range all(found, isParagraph) {
		took[attr(n, numberAttr)] = true
	}
	var missing, taken *html.Node // paragraphs under the heading: the first that was left out, and the first that was found
	passed := false
	walk(doc, func(n *html.Node) bool {
		passed = passed || n == h1[0]
		if passed && taken == nil && isParagraph(n) {
			if took[attr(n, numberAttr)] {
				taken = n
			} else if missing == nil {
				missing = n
			}
		}
		return taken == nil
	})
	if missing == nil || taken == nil {
		return
	}
	top := missing.Parent
	for top != nil && !contains(top, taken) {
		missing, top = top, top.Parent
	}
	if top == nil || !contains(top, h1[0]) || contains(missing, h1[0]) {
		return
	}
	before := found.FirstChild
	if first(found, func(n *html.Node) bool { return is(n, "h1") }) == nil {
		found.InsertBefore(clone(h1[0]), before)
	}
	for n := missing; n != nil && !contains(n, taken); {
		next := n.NextSibling
		remove(n)
		found.InsertBefore(n, before)
		n = next
	}
}

func readable(doc *html.Node, base *url.URL) *html.Node {
	p := readability.NewParser()
	p.KeepClasses = true
	p.DisableJSONLD = true
	p.MaxElemsToParse = 200_000
	const level = "data-belljar-h1" // marks every h1, since readability turns it into an h2
	for _, h := range named(doc, "h1") {
		setAttr(h, level, "")
	}
	a, err := p.ParseAndMutate(doc, base)
	if err != nil || a.Node == nil {
		return nil
	}
	unmask(a.Node)
	for _, h := range named(a.Node, "h2") {
		if hasAttr(h, level) {
			h.Data, h.DataAtom = "h1", atomOf("h1")
		}
	}
	return a.Node
}
