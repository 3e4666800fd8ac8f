package template

import (
	"errors"
	"fmt"
	"strings"
)

// Scheme begins every URI of a template.
const Scheme = "template://"

// Limits of a URI, in bytes.
const (
	maxURI  = 256
	maxPart = 32
)

// ErrURI is the error for a text that does not have the form of a template URI. It does not
// depend on whether a template exists.
var ErrURI = errors.New("not a template URI")

// URI is the parts of a template's URI.
type URI struct{ Category, Toolchain, Variant string }

// String returns the URI as it is written.
func (u URI) String() string { return Scheme + u.Category + "/" + u.Toolchain + "/" + u.Variant }

// ParseURI parses a URI. It accepts three parts of lower-case letters, digits and hyphens,
// and nothing else: no escape and no dot, so that no part can lead to another path.
func ParseURI(text string) (URI, error) {
	if len(text) > maxURI {
		return URI{}, fmt.Errorf("%w: it has %d bytes, and at most %d are allowed", ErrURI, len(text), maxURI)
	}
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return URI{}, fmt.Errorf("%w: %q does not begin with %s", ErrURI, text, Scheme)
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 3 {
		return URI{}, fmt.Errorf("%w: %q has %d parts, and must have three: %sCATEGORY/TOOLCHAIN/VARIANT", ErrURI, text, len(parts), Scheme)
	}
	for i, name := range []string{"category", "toolchain", "variant"} {
		if !isPart(parts[i]) {
			return URI{}, fmt.Errorf("%w: the %s of %q must be 1 to %d lower-case letters, digits and hyphens", ErrURI, name, text, maxPart)
		}
	}
	return URI{parts[0], parts[1], parts[2]}, nil
}

// isPart reports whether a text can be a part of a URI.
func isPart(s string) bool {
	if s == "" || len(s) > maxPart {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
