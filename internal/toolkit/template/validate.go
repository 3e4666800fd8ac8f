package template

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Limits of the parameters of a call.
const (
	maxText   = 1024 // bytes of a text; the patterns allow less
	maxFaults = 16   // faults that are reported
	maxShown  = 40   // characters of a name or value that a message repeats
)

// check returns the parameters of a template with its defaults, and what is wrong with the
// parameters of the call.
func (t Template) check(given map[string]any) (used map[string]any, faults []Fault) {
	used = make(map[string]any, len(t.Parameters))
	for _, p := range t.Parameters {
		v, ok := given[p.Name]
		switch {
		case ok && v != nil:
			if message := p.fault(v); message != "" {
				faults = append(faults, Fault{p.Name, message})
			}
			used[p.Name] = v
		case p.Required:
			faults = append(faults, Fault{p.Name, "is missing: " + p.Description})
		default:
			used[p.Name] = p.Default
		}
	}
	return used, faults
}

// strange returns faults about parameters that none of the templates has, sorted.
func strange(given map[string]any, of ...Template) (faults []Fault) {
	known := make(map[string]bool)
	for _, t := range of {
		for _, p := range t.Parameters {
			known[p.Name] = true
		}
	}
	var others []string
	for name := range given {
		if !known[name] {
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		return nil
	}
	slices.Sort(others)
	hint := "is not a parameter of this template; known: " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	for _, name := range others[:min(len(others), maxFaults)] {
		faults = append(faults, Fault{shown(name), hint})
	}
	return faults
}

// fault returns what is wrong with a value; empty if the value is valid.
func (p Parameter) fault(v any) string {
	switch p.Type {
	case Boolean:
		if _, ok := v.(bool); !ok {
			return "must be true or false, not " + kindOf(v)
		}
	case String:
		s, ok := v.(string)
		switch {
		case !ok:
			return "must be a string, not " + kindOf(v)
		case s == "" && !p.Required:
			return "" // an optional text may be empty
		case len(s) > maxText:
			return fmt.Sprintf("has %d bytes, and at most %d are allowed", len(s), maxText)
		case !utf8.ValidString(s):
			return "is not UTF-8"
		case !matches(p.Pattern, s):
			return fmt.Sprintf("is %s, which does not match the pattern %s", shown(s), p.Pattern)
		}
	}
	return ""
}

// compiled contains the patterns of the catalog that have been used, by their text.
// Compiling a pattern takes a hundred times as long as matching a name.
var compiled sync.Map

// matches reports whether a text matches a pattern of the catalog. $ matches only at the
// end of the text, not before a last line break.
func matches(pattern, s string) bool {
	if re, ok := compiled.Load(pattern); ok {
		return re.(*regexp.Regexp).MatchString(s) //nolint:forcetypeassert // the map contains only *regexp.Regexp
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return false
	}
	compiled.Store(pattern, re)
	return re.MatchString(s)
}

// kindOf returns the name of the JSON type of a value.
func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	}
	return "a number"
}

// shown returns a text of the caller for a message: quoted, shortened, and without
// characters that have an effect on a terminal.
func shown(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if r := []rune(s[:min(len(s), 4*maxShown)]); len(r) > maxShown {
		return fmt.Sprintf("%+q...", string(r[:maxShown]))
	}
	return fmt.Sprintf("%+q", s)
}
