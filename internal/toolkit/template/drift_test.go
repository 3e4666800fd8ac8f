package template

import (
	"fmt"
	"strings"
	"testing"
)

// A file that was made from a template keeps all lines of the template, with any name.
// Lines that are changed, removed or added are counted.
func TestDrift(t *testing.T) {
	for _, one := range all() {
		uri := one.URI.String()
		params := map[string]any{}
		for _, p := range one.Parameters {
			if p.Required {
				params[p.Name] = strings.ReplaceAll(fmt.Sprint(p.Example), "example", "my-shop")
			}
		}
		made, err := Generate(uri, params)
		if err != nil {
			t.Fatal(err)
		}
		whole := len(lines(made.Content))
		d, like, err := Compare(one.Path, made.Content)
		if want := (Drift{uri, whole, 0, 0}); err != nil || !like || d != want {
			t.Errorf("%s: got %+v, %t, %v; want %+v", uri, d, like, err, want)
			continue
		}
		own := lines(made.Content)
		changed := strings.Join(append(own[:whole-1:whole-1], "one", "", "two"), "\r\n")
		if d, like, err = Compare(one.Path, changed); err != nil || !like || d != (Drift{uri, whole - 1, 1, 2}) {
			t.Errorf("%s, changed: got %+v, %t, %v; want %d, 1 and 2", uri, d, like, err, whole-1)
		}
		if _, like, err = Compare(one.Path, strings.Join(own[:whole/2-1], "\n")); err != nil || like {
			t.Errorf("%s: less than half of it is like it (%v)", uri, err)
		}
	}
	for _, tt := range [][2]string{{"Makefile", ""}, {"Makefile", "all:\n\tcc a.c\n"}, {"other", "x\n"}, {"Makefile", strings.Repeat("x\n", maxDrift)}} {
		if d, like, err := Compare(tt[0], tt[1]); like || err != nil {
			t.Errorf("%s, %.10q: got %+v, %v, want no template", tt[0], tt[1], d, err)
		}
	}
}
