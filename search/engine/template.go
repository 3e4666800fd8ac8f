package engine

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// template is a text with {variables}. The value of each can go through a filter:
// "{title|wiki}".
type template []piece

type piece struct {
	text   string // fixed text, if name is ""
	name   string
	filter string
	path   path // path in a JSON answer, if the template is for an answer
}

// filters change the value of a variable, by name of the filter.
var filters = map[string]func(string) string{
	"":       func(s string) string { return s },
	"escape": url.PathEscape,
	// wiki writes a title as MediaWiki does in an address.
	"wiki": func(s string) string {
		s = url.PathEscape(strings.ReplaceAll(s, " ", "_"))
		return strings.NewReplacer("%2F", "/", "%3A", ":", "%2C", ",", "%28", "(", "%29", ")", "%21", "!", "%2A", "*", "%27", "'").Replace(s)
	},
	"lower": strings.ToLower,
	"upper": strings.ToUpper,
}

// newTemplate parses a template. If known is not nil, all variables must be in it.
// Otherwise they are paths.
func newTemplate(s string, known []string) (template, error) {
	var t template
	for s != "" {
		text, rest, open := strings.Cut(s, "{")
		if text != "" {
			t = append(t, piece{text: text})
		}
		if !open {
			break
		}
		inner, after, closed := strings.Cut(rest, "}")
		if !closed {
			return nil, fmt.Errorf("{%s is not closed", rest)
		}
		var p piece
		p.name, p.filter, _ = strings.Cut(inner, "|")
		if filters[p.filter] == nil {
			return nil, fmt.Errorf("the filter %q is not known; known are escape, lower, upper and wiki", p.filter)
		}
		if known != nil && !slices.Contains(known, p.name) {
			return nil, fmt.Errorf("the variable {%s} is not known; known are %s", p.name, strings.Join(known, ", "))
		}
		if known == nil && p.name != "origin" {
			var err error
			if p.path, err = newPath(p.name); err != nil {
				return nil, err
			}
		}
		t = append(t, p)
		s = after
	}
	return t, nil
}

// expand returns the text with the values. It returns false if a value is missing or empty:
// the caller then leaves out the parameter, header or field.
func (t template) expand(value func(p piece) string) (string, bool) {
	var b strings.Builder
	for _, p := range t {
		if p.name == "" {
			b.WriteString(p.text)
			continue
		}
		v := value(p)
		if v == "" {
			return "", false
		}
		b.WriteString(filters[p.filter](v))
	}
	return b.String(), true
}
