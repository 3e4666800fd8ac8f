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

// place leads to a part of a tree: a selector, and behind an @ the
// attribute that is meant instead of the text. A dot, or nothing before
// the @, is the node that is searched itself.
//
// A + before it looks in the next siblings of the node instead, three at
// most: some lists keep one result in several rows.
type place struct {
	selector cascadia.Matcher // nil is the node itself
	attr     string
	after    bool
}

// maxAfter is how many siblings a place with a + looks at.
const maxAfter = 3

var attrName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_:-]*$`) })

// newPlace reads "h2 a@href".
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

// find is the first node of a place in n, or nil.
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

// findAll are all nodes of a place in n, in their order.
func (p place) findAll(n *html.Node) []*html.Node {
	if p.selector == nil {
		return []*html.Node{n}
	}
	return cascadia.QueryAll(n, p.selector)
}

// value is what stands at a found node.
func (p place) value(n *html.Node, most int, drop []matcher) string {
	if p.attr == "" {
		return textOf(n, most, drop)
	}
	words := prose{most: most}
	words.write(attribute(n, p.attr))
	return words.String()
}

// attribute is the value of an attribute of n, or "".
func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// proof is a place in an answer, and what must be read there: "li.b_no", or
// "h1 :: ^No results". For an answer in JSON it has a path in place of
// the selector.
type proof struct {
	text string // as the file writes it
	at   place
	path path
	like *regexp.Regexp // nil asks only that there is something
}

// split cuts a proof in its place and its pattern.
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

// newProof reads a proof about HTML or XML.
func newProof(s string) (proof, error) {
	where, like, err := splitProof(s)
	if err != nil {
		return proof{}, err
	}
	at, err := newPlace(where)
	return proof{text: s, at: at, like: like}, err
}

// newPathProof reads a proof about JSON.
func newPathProof(s string) (proof, error) {
	where, like, err := splitProof(s)
	if err != nil {
		return proof{}, err
	}
	at, err := newPath(where)
	return proof{text: s, path: at, like: like}, err
}

// inTree is the node in the tree below n that has the proof, or nil. Words in a
// node that not picks prove nothing.
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

// inValue reports whether a JSON value has the proof. Without a pattern it asks
// for something that is not null, false, zero or empty; a pattern is tried on
// texts, numbers, truth values and what is empty.
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

// scalar is the text of a value that holds no others.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case []any:
		return "[]", len(v) == 0
	case map[string]any:
		return "{}", len(v) == 0
	}
	return literal(v), true
}
