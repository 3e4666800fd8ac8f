package config

import (
	"bytes"
	"unicode/utf8"
)

// sort is the type of a value in a file, in any of the languages.
type sort int

const (
	null sort = iota
	boolean
	number // also dates of TOML and YAML
	text
	list
	object
)

// String returns the name of a sort for people.
func (s sort) String() string {
	return [...]string{"null", "true or false", "a number", "a text", "a list", "an object"}[s]
}

// node is a value in a file. The readers of JSON, TOML and YAML all return nodes, so one
// function recognises the shapes of files.
type node struct {
	sort   sort
	text   string // text of a string; a boolean or number as it is written
	items  []*node
	fields []field // fields in the order of the file
	at     place
	spans  []span // parts of the file that contain the value
}

// span is a part of a file: the offsets of its beginning and its end.
type span struct{ from, to int }

// field is a key with its value.
type field struct {
	key   string
	at    place
	value *node
}

// get returns the value of a key, or nil.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// texts returns the strings of a list of texts.
func (n *node) texts() (all []string, ok bool) {
	if n == nil || n.sort != list {
		return nil, false
	}
	all = make([]string, 0, len(n.items))
	for _, item := range n.items {
		if item.sort != text {
			return nil, false
		}
		all = append(all, item.text)
	}
	return all, true
}

// deep reports whether the depth is allowed. It adds an error for a value that is nested
// too deeply.
func (r *report) deep(at place, depth int) bool {
	if depth > maxDepth {
		r.wrong(at, "", "values are nested more than %d levels deep", maxDepth)
		return false
	}
	return true
}

// once adds an error for each key that an object has twice. Which of the two values counts
// differs between readers, so a person who checks the file may see another value than the
// client uses.
func (r *report) once(n *node) {
	seen := make(map[string]bool, len(n.fields))
	for _, f := range n.fields {
		if seen[f.key] {
			r.wrong(f.at, "keep one of them", "the key %s is repeated here", quoted(f.key))
		}
		seen[f.key] = true
	}
}

// cursor converts offsets to places. Ascending offsets cost one pass over the text in
// total, even if it is one long line.
type cursor struct {
	data   []byte
	offset int
	place  place
}

func newCursor(data []byte) *cursor { return &cursor{data: data, place: place{1, 1}} }

// at returns the place of an offset. The column counts characters.
func (c *cursor) at(offset int) place {
	offset = min(max(offset, 0), len(c.data))
	if offset < c.offset { // the offset is before the last one: go back to the start of its line
		line := 1 + bytes.Count(c.data[:offset], []byte("\n"))
		c.offset, c.place = bytes.LastIndexByte(c.data[:offset], '\n')+1, place{line, 1}
	}
	for _, b := range c.data[c.offset:offset] {
		switch {
		case b == '\n':
			c.place.line++
			c.place.col = 1
		case utf8.RuneStart(b):
			c.place.col++
		}
	}
	c.offset = offset
	return c.place
}
