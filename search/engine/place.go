package engine

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
)

// place locates a part of a tree: a selector, and after an @ the attribute that is read
// instead of the text. A dot, or nothing before the @, is the node itself in which the
// search begins.
//
// With a + before the selector, the search is in the next siblings of the node, three at
// most: some lists spread one result over several rows.
type place struct {
	selector cascadia.Matcher // nil for the node itself
	attr     string
	after    bool
}

// maxAfter is the number of siblings that a place with a + searches.
const maxAfter = 3

var attrName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_:-]*$`) })

// newPlace parses a place, for example "h2 a@href".
func newPlace(s string) (place, error) {
	var p place
	if at := strings.LastIndexByte(s, '@'); at >= 0 && attrName().MatchString(s[at+1:]) {
		s, p.attr = s[:at], s[at+1:]
	}
	s, p.after = strings.CutPrefix(strings.TrimSpace(s), "+")
	if s = strings.TrimSpace(s); s == "." {
		return p, nil
	}
	if s == "" {
		if p.attr == "" {
			return p, errors.New("it is empty")
		}
		return p, nil
	}
	group, err := cascadia.ParseGroup(s)
	if err != nil {
		return p, fmt.Errorf("read the selector %s: %w", s, err)
	}
	p.selector = group
	if len(group) == 1 {
		p.selector = group[0]
	}
	return p, nil
}

// find returns the first node of a place in n, or nil.
func (p place) find(n *html.Node) *html.Node {
	if p.selector == nil {
		return n
	}
	if p.after {
		seen := 0
		for next := n.NextSibling; next != nil && seen < maxAfter; next = next.NextSibling {
			if next.Type != html.ElementNode {
				continue
			}
			if found := cascadia.Query(next, p.selector); found != nil {
				return found
			}
			seen++
		}
		return nil
	}
	return cascadia.Query(n, p.selector)
}

// findAll returns all nodes of a place in n, in document order.
func (p place) findAll(n *html.Node) []*html.Node {
	if p.selector == nil {
		return []*html.Node{n}
	}
	return cascadia.QueryAll(n, p.selector)
}

// value returns the text or the attribute of a node that was found.
func (p place) value(n *html.Node, most int, drop []matcher) string {
	if p.attr == "" {
		return textOf(n, most, drop)
	}
	words := prose{most: most}
	words.write(attribute(n, p.attr))
	return words.String()
}

// attribute returns the value of an attribute of n, or "".
func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// proof is a place in an answer and a pattern that its text must match: "li.b_no", or "h1
// :: ^No results". For a JSON answer it has a path instead of a place.
type proof struct {
	text string // text of the proof in the file
	at   place
	path path
	like *regexp.Regexp // nil if any text is a proof
}

// splitProof splits a proof into its place and its pattern.
func splitProof(s string) (where string, like *regexp.Regexp, err error) {
	where, pattern, found := strings.Cut(s, " :: ")
	if !found {
		return strings.TrimSpace(s), nil, nil
	}
	like, err = regexp.Compile(strings.TrimSpace(pattern))
	if err != nil {
		return "", nil, fmt.Errorf("read the pattern: %w", err)
	}
	return strings.TrimSpace(where), like, nil
}

// newProof parses a proof for HTML or XML.
func newProof(s string) (proof, error) {
	where, like, err := splitProof(s)
	if err != nil {
		return proof{}, err
	}
	at, err := newPlace(where)
	return proof{text: s, at: at, like: like}, err
}

// newPathProof parses a proof for JSON.
func newPathProof(s string) (proof, error) {
	where, like, err := splitProof(s)
	if err != nil {
		return proof{}, err
	}
	at, err := newPath(where)
	return proof{text: s, path: at, like: like}, err
}

// inTree returns the node below n that has the proof, or nil. A match of the pattern in a
// node for which not returns true does not count.
func (p proof) inTree(n *html.Node, not func(*html.Node) bool) *html.Node {
	if p.like == nil && p.at.attr == "" {
		return p.at.find(n)
	}
	for _, found := range p.at.findAll(n) {
		value := p.at.value(found, maxProof, nil)
		if p.like == nil && value != "" || p.like != nil && p.like.MatchString(value) && !not(found) {
			return found
		}
	}
	return nil
}

// inValue reports whether a JSON value has the proof. Without a pattern, it looks for a
// value that is not null, false, zero or empty. A pattern is matched against texts,
// numbers, truth values and empty lists and objects.
func (p proof) inValue(v any) bool {
	for _, found := range p.path.all(v) {
		text, plain := scalar(found)
		switch {
		case p.like == nil:
			if !plain || text != "null" && text != "false" && text != "0" && text != "" && text != "[]" && text != "{}" {
				return true
			}
		case plain && p.like.MatchString(text):
			return true
		}
	}
	return false
}

// scalar returns the text of a value that contains no other values, and whether it is such
// a value.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case []any:
		return "[]", len(v) == 0
	case map[string]any:
		return "{}", len(v) == 0
	}
	return literal(v), true
}
