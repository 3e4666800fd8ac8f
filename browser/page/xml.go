package page

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"strings"

	"golang.org/x/net/html"
)

// parseXML returns a bounded tree of XML, up to the point where it is not well formed. The
// document cannot define entities, and nothing outside of it is read.
func parseXML(text []byte) *html.Node {
	root := &html.Node{Type: html.DocumentNode}
	d := xml.NewDecoder(bytes.NewReader(text))
	d.Strict = false
	d.Entity = xml.HTMLEntity
	d.CharsetReader = nil // the text is UTF-8 by now, whatever it declares
	at, depth, nodes := root, 0, 0
	for nodes < maxNodes {
		tok, err := d.RawToken()
		if err != nil {
			return root
		}
		switch t := tok.(type) {
		case xml.StartElement:
			nodes++
			n := &html.Node{Type: html.ElementNode, Data: xmlName(t.Name)}
			for i, a := range t.Attr {
				if i < maxAttrs {
					n.Attr = append(n.Attr, html.Attribute{Key: xmlName(a.Name), Val: a.Value})
				}
			}
			if depth < maxDepth {
				at.AppendChild(n)
				at = n
			}
			depth++
		case xml.EndElement:
			if depth > 0 && depth <= maxDepth && at.Parent != nil {
				at = at.Parent
			}
			depth = max(0, depth-1)
		case xml.CharData:
			nodes++
			at.AppendChild(textNode(string(t)))
		}
	}
	return root
}

func xmlName(n xml.Name) string {
	if n.Space != "" {
		return n.Space + ":" + n.Local
	}
	return n.Local
}

// convertXML writes XML, indented, as a block of code.
func convertXML(p *Page, text []byte) {
	root := parseXML(text)
	var b strings.Builder
	most := 4*len(text) + 64<<10
	indentXML(&b, root, -1, most)
	s := b.String()
	if strings.TrimSpace(s) == "" || len(s) > most { // an element may be deep below others, and its line mostly white space
		s = string(text)
	}
	s, p.Hidden = visible(s)
	fenced(p, s, "xml")
}

// indentXML writes an element with each of its children on a line of its own, or on one
// line if the element contains only text. It stops soon after b has more than most bytes.
func indentXML(b *strings.Builder, n *html.Node, level, most int) {
	if b.Len() > most {
		return
	}
	if n.Type == html.TextNode {
		if s := oneLine(n.Data); s != "" {
			b.WriteString(strings.Repeat("  ", max(0, level)) + escapeXML.Replace(s) + "\n")
		}
		return
	}
	if level >= 0 {
		b.WriteString(strings.Repeat("  ", level) + "<" + n.Data)
		for _, a := range n.Attr {
			b.WriteString(" " + a.Key + `="` + escapeXML.Replace(a.Val) + `"`)
		}
		simple := true
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			simple = simple && c.Type == html.TextNode
		}
		switch text := oneLine(rawTextOf(n)); {
		case n.FirstChild == nil || simple && text == "":
			b.WriteString("/>\n")
			return
		case simple:
			b.WriteString(">" + escapeXML.Replace(text) + "</" + n.Data + ">\n")
			return
		}
		b.WriteString(">\n")
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		indentXML(b, c, level+1, most)
	}
	if level >= 0 {
		b.WriteString(strings.Repeat("  ", level) + "</" + n.Data + ">\n")
	}
}

var escapeXML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// convertJSON writes JSON indented, with short values on one line. A text that is not JSON,
// or that would become half as long again, is not changed.
func convertJSON(p *Page, text []byte) {
	var b bytes.Buffer
	if json.Compact(&b, text) == nil {
		if out := indentJSON(b.Bytes(), len(text)*3/2+1024); out != nil {
			text = out
		}
	}
	s, hidden := visible(string(text))
	p.Hidden = hidden
	fenced(p, s, "json")
}

// shortJSON is the largest length of a value that stays on one line.
const shortJSON = 160

// indentJSON puts each member of a long object or array on a line of its own. text is JSON
// without white space between its tokens. It returns nil for a text with more than 200
// levels, and if the result would have more than most bytes: it would be mostly white space.
func indentJSON(text []byte, most int) []byte {
	ends := make(map[int]int) // place of each closing bracket, by the place of its opening bracket
	var open []int
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if open = append(open, i); len(open) > 200 {
				return nil
			}
		case c == '}' || c == ']':
			ends[open[len(open)-1]] = i
			open = open[:len(open)-1]
		}
	}
	var b bytes.Buffer
	level := 0
	line := func(by int) {
		level += by
		b.WriteByte('\n')
		b.WriteString(strings.Repeat("  ", level))
	}
	for i := 0; i < len(text); i++ {
		if b.Len() > most {
			return nil
		}
		c := text[i]
		switch {
		case c == '\\':
			b.WriteByte(c)
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case (c == '{' || c == '[') && ends[i]-i < shortJSON:
			b.Write(text[i:ends[i]])
			i = ends[i]
		case c == '{' || c == '[':
			b.WriteByte(c)
			line(1)
			continue
		case c == '}' || c == ']':
			line(-1)
		case c == ',':
			b.WriteByte(c)
			line(0)
			continue
		case c == ':':
			b.WriteString(": ")
			continue
		}
		b.WriteByte(text[i])
	}
	if b.Len() > most {
		return nil
	}
	return b.Bytes()
}

// fenced makes s the content, as a block of code if the format is markdown.
func fenced(p *Page, s, language string) {
	s = strings.TrimRight(s, "\n") + "\n"
	if p.Format != Markdown {
		p.Format = Text
		p.Content = s
		return
	}
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	p.Content = fence + language + "\n" + s + fence + "\n"
}
