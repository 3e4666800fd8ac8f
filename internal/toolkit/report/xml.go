package report

import (
	"bytes"
	"encoding/xml"
)

// element is one element of XML. Its attributes and its text are made visible.
type element struct {
	name       string
	attributes []attribute
	text       string
	children   []element
}

type attribute struct{ name, value string }

// document returns a document with one element.
func document(root element) []byte {
	var b bytes.Buffer
	b.WriteString(xml.Header)
	root.write(&b, 0)
	return b.Bytes()
}

// write writes an element and its contents, one line for each element. The callers build
// the elements and so limit the depth.
func (e element) write(b *bytes.Buffer, depth int) {
	indent := bytes.Repeat([]byte("  "), depth)
	b.Write(indent)
	b.WriteString("<" + e.name)
	for _, a := range e.attributes {
		b.WriteString(" " + a.name + `="`)
		escape(b, line(a.value))
		b.WriteByte('"')
	}
	switch {
	case len(e.children) > 0:
		b.WriteString(">\n")
		for _, c := range e.children {
			c.write(b, depth+1)
		}
		b.Write(indent)
		b.WriteString("</" + e.name + ">\n")
	case e.text != "":
		b.WriteByte('>')
		escape(b, visible(e.text))
		b.WriteString("</" + e.name + ">\n")
	default:
		b.WriteString("/>\n")
	}
}

// escape writes a visible text as character data.
func escape(b *bytes.Buffer, s string) {
	_ = xml.EscapeText(b, []byte(s)) // a bytes.Buffer returns no error
}
