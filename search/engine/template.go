package engine

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// template is a text with {variables}. Each may go through a filter:
// "{title|wiki}".
type template []piece

type piece struct {
	text   string // where name is ""
	name   string
	filter string
	path   path // of a JSON answer, where the template is about one
}

// filters change the value of a variable.
var filters = map[string]func(string) string{
	"":       func(s string) string { return s },
	"escape": url.PathEscape,
	// wiki is how MediaWiki writes a title in an address.
	"wiki": func(s string) string {
		s = url.PathEscape(strings.ReplaceAll(s, " ", "_"))
		return strings.NewReplacer("%2F", "/", "%3A", ":", "%2C", ",", "%28", "(", "%29", ")", "%21", "!", "%2A", "*", "%27", "'").Replace(s)
	},
	"lower": strings.ToLower,
	"upper": strings.ToUpper,
}

// newTemplate reads a template. Names must be known, if any are.
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

// expand puts values in. False says that one of them is missing or empty: what
// the template is for is then left out.
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
