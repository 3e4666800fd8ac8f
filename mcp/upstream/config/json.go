package config

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tailscale/hujson"
)

// readJSON reads JSON, also with the comments and trailing commas of JSONC. It returns the
// place of the first comment or trailing comma, or the zero place.
func (r *report) readJSON(data []byte) (top *node, extra place) {
	// hujson requires a line break after a comment, also at the end of the file.
	value, err := hujson.Parse(append(slices.Clone(data), '\n'))
	if err != nil {
		at, message := jsonError(err, data)
		r.wrong(at, "check the commas, quotes and brackets before this place", "not JSON: %s", message)
		return nil, place{}
	}
	c := newCursor(data)
	if first := firstExtra(&value); first >= 0 {
		extra = c.at(first)
		c = newCursor(data)
	}
	return r.jsonNode(c, &value, 0), extra
}

var jsonPlace = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^hujson: line (\d+), column (\d+): (?s:(.*))$`)
})

// jsonError returns the place and the message of an error of hujson. It does not repeat
// hujson's text about literals: a broken string may be a token.
func jsonError(err error, data []byte) (place, string) {
	m := jsonPlace().FindStringSubmatch(err.Error())
	if m == nil {
		return place{1, 1}, "the text is not complete"
	}
	line, _ := strconv.Atoi(m[1])
	col, _ := strconv.Atoi(m[2]) // in bytes
	message := m[3]
	switch {
	case strings.HasPrefix(message, "invalid literal"):
		message = "a word, number or text is not valid in JSON"
	case strings.Contains(message, "unexpected EOF"):
		message = "the file ends in the middle of a value"
	}
	start := 0
	for range line - 1 {
		start += bytes.IndexByte(data[start:], '\n') + 1
	}
	return newCursor(data).at(start + col - 1), message
}

// firstExtra returns the offset of the first comment or trailing comma, or -1.
func firstExtra(v *hujson.Value) int {
	if at := bytes.IndexByte(v.BeforeExtra, '/'); at >= 0 {
		return v.StartOffset - len(v.BeforeExtra) + at
	}
	var inner hujson.Extra
	var last *hujson.Value
	switch is := v.Value.(type) {
	case *hujson.Object:
		for i := range is.Members {
			last = &is.Members[i].Value
			for _, part := range []*hujson.Value{&is.Members[i].Name, last} {
				if at := firstExtra(part); at >= 0 {
					return at
				}
			}
		}
		inner = is.AfterExtra
	case *hujson.Array:
		for i := range is.Elements {
			last = &is.Elements[i]
			if at := firstExtra(last); at >= 0 {
				return at
			}
		}
		inner = is.AfterExtra
	}
	if last != nil && last.AfterExtra != nil { // hujson's mark of a comma after the last element
		return last.EndOffset
	}
	if at := bytes.IndexByte(inner, '/'); at >= 0 {
		return v.EndOffset - 1 - len(inner) + at
	}
	if at := bytes.IndexByte(v.AfterExtra, '/'); at >= 0 {
		return v.EndOffset + at
	}
	return -1
}

func (r *report) jsonNode(c *cursor, v *hujson.Value, depth int) *node {
	n := &node{at: c.at(v.StartOffset), spans: []span{{v.StartOffset, v.EndOffset}}}
	if !r.deep(n.at, depth) {
		return n
	}
	switch is := v.Value.(type) {
	case *hujson.Object:
		n.sort = object
		for i := range is.Members {
			m := &is.Members[i]
			name, _ := m.Name.Value.(hujson.Literal)
			f := field{key: name.String(), at: c.at(m.Name.StartOffset)}
			f.value = r.jsonNode(c, &m.Value, depth+1)
			n.fields = append(n.fields, f)
		}
		r.once(n)
	case *hujson.Array:
		n.sort = list
		for i := range is.Elements {
			n.items = append(n.items, r.jsonNode(c, &is.Elements[i], depth+1))
		}
	case hujson.Literal:
		n.text = is.String()
		n.sort = map[hujson.Kind]sort{'n': null, 't': boolean, 'f': boolean, '"': text}[is.Kind()]
		if is.Kind() == '0' {
			n.sort = number
		}
	}
	return n
}
