package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// AnyToolchain is the toolchain of templates that suit every project.
const AnyToolchain = "any"

// ErrNotFound is the error if no template has the URI or the name.
var ErrNotFound = errors.New("no such template")

// List returns the templates of a toolchain and a category, by URI. An empty toolchain or
// category means all. Templates for any toolchain belong to every toolchain.
func List(toolchain, category string) []Template {
	known := slices.Contains(Toolchains(), toolchain)
	return slices.DeleteFunc(all(), func(t Template) bool {
		of := t.URI.Toolchain
		return category != "" && t.URI.Category != category ||
			toolchain != "" && of != toolchain && (of != AnyToolchain || !known)
	})
}

// Find returns the template of a URI. The error is ErrURI or ErrNotFound.
func Find(uri string) (Template, error) {
	u, err := ParseURI(uri)
	if err != nil {
		return Template{}, err
	}
	for _, t := range all() {
		if t.URI == u {
			return t, nil
		}
	}
	return Template{}, fmt.Errorf("%w: %s; categories: %s; toolchains: %s", ErrNotFound, u, strings.Join(Categories(), ", "), strings.Join(Toolchains(), ", "))
}

// Categories returns the categories of the templates, sorted.
func Categories() []string { return values(func(u URI) string { return u.Category }) }

// Toolchains returns the toolchains of the templates, sorted.
func Toolchains() []string { return values(func(u URI) string { return u.Toolchain }) }

// Variants returns the variants of the templates, sorted.
func Variants() []string { return values(func(u URI) string { return u.Variant }) }

func values(of func(URI) string) []string {
	var out []string
	for _, t := range all() {
		out = append(out, of(t.URI))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
