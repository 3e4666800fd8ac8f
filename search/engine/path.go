package engine

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// path locates a part of a JSON value: names with dots between them. After a name, "[]"
// means every entry of a list, "[2]" the third entry, and "[key=value]" the objects of a
// list that have this key and value; a value may end in a star, which matches any rest. "."
// is the value itself.
type path []step

// step is one name of a path, or one pair of brackets.
type step struct {
	name  string
	index int    // index in a list
	key   string // key that the objects of a list must have, with value
	value string
	kind  stepKind
}

type stepKind int

const (
	stepName stepKind = iota
	stepEach
	stepIndex
	stepWhere
)

var pathPiece = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([^.\[\]{}\s]*)((?:\[[^\[\]]*\])*)$`) })

// newPath parses a path.
func newPath(s string) (path, error) {
	if s == "." {
		return path{}, nil
	}
	var p path
	for i, piece := range splitPath(s) {
		m := pathPiece().FindStringSubmatch(piece)
		if m == nil || m[1] == "" && (i > 0 || m[2] == "") {
			return nil, fmt.Errorf("read the path %q: %q is not a name with brackets", s, piece)
		}
		if m[1] != "" {
			p = append(p, step{name: m[1], kind: stepName})
		}
		for inner := range strings.SplitSeq(strings.Trim(m[2], "[]"), "][") {
			if m[2] == "" {
				break
			}
			st, err := newBracket(inner)
			if err != nil {
				return nil, fmt.Errorf("read the path %q: %w", s, err)
			}
			p = append(p, st)
		}
	}
	return p, nil
}

// splitPath splits s at the dots outside of brackets.
func splitPath(s string) []string {
	var pieces []string
	from, inside := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '[':
			inside++
		case ']':
			inside--
		case '.':
			if inside == 0 {
				pieces = append(pieces, s[from:i])
				from = i + 1
			}
		}
	}
	return append(pieces, s[from:])
}

func newBracket(s string) (step, error) {
	if s == "" {
		return step{kind: stepEach}, nil
	}
	if key, value, ok := strings.Cut(s, "="); ok && key != "" {
		return step{kind: stepWhere, key: key, value: value}, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return step{}, fmt.Errorf("[%s] is neither empty, a number from 0, nor key=value", s)
	}
	return step{kind: stepIndex, index: n}, nil
}

// maxFound bounds the values that one path finds.
const maxFound = 1000

// all returns the values at the path in v. A missing value is left out; null is a value.
func (p path) all(v any) []any {
	found := []any{v}
	for _, s := range p {
		var next []any
		for _, f := range found {
			next = s.apply(next, f)
			if len(next) >= maxFound {
				next = next[:maxFound]
				break
			}
		}
		found = next
	}
	return found
}

// apply adds the values to which the step leads from v to found.
func (s step) apply(found []any, v any) []any {
	if s.kind == stepName {
		if object, ok := v.(map[string]any); ok {
			if at, ok := object[s.name]; ok {
				found = append(found, at)
			}
		}
		return found
	}
	list, ok := v.([]any)
	if !ok {
		return found
	}
	switch s.kind {
	case stepEach:
		found = append(found, list...)
	case stepIndex:
		if s.index < len(list) {
			found = append(found, list[s.index])
		}
	case stepWhere:
		for _, e := range list {
			if s.holds(e) {
				found = append(found, e)
			}
		}
	case stepName:
	}
	return found
}

// holds reports whether e is an object with the key and value of the step.
func (s step) holds(e any) bool {
	object, ok := e.(map[string]any)
	if !ok {
		return false
	}
	have, ok := object[s.key]
	if !ok {
		return false
	}
	text := literal(have)
	if start, open := strings.CutSuffix(s.value, "*"); open {
		return strings.HasPrefix(text, start)
	}
	return text == s.value
}

// maxProof bounds the text of a node or a value that a pattern is matched against, in
// bytes.
const maxProof = 8 << 10

// literal returns a value as text of at most maxProof bytes: a string as it is, all else as
// JSON.
func literal(v any) string {
	var s string
	switch v := v.(type) {
	case string:
		s = v
	case json.Number:
		s = v.String()
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		s = encode(v)
	default:
		s = encode(v)
	}
	return s[:min(len(s), maxProof)]
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}

// words returns the texts at the path, joined with spaces: some engines cut a title into
// pieces.
func (p path) words(v any) string {
	var b strings.Builder
	for _, f := range p.all(v) {
		var s string
		switch f := f.(type) {
		case string:
			s = f
		case json.Number:
			s = f.String()
		default:
			continue
		}
		if b.Len() > 0 && s != "" {
			b.WriteByte(' ')
		}
		b.WriteString(s)
		if b.Len() > maxProof {
			break
		}
	}
	return b.String()
}
