package config

import (
	"bytes"
	"unicode/utf8"
)

// sort is what a value of a file is, in any of its languages.
type sort int

const (
	null sort = iota
	boolean
	number // and dates of TOML
	text
	list
	object
)

// String names a sort for people.
func (s sort) String() string {
	return [...]string{"null", "true or false", "a number", "a text", "a list", "an object"}[s]
}

// node is a value of a file. The readers of JSON, TOML and YAML all make these, so one
// function recognises the shapes of files.
type node struct {
	sort   sort
	text   string // of a text; of a boolean or number as it is written
	items  []*node
	fields []field // in the order of the file
	at     place
	spans  []span // where the file has it
}

// span is a part of a file, by offsets.
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

// deep notes an error where values are nested too deep.
func (r *report) deep(at place, depth int) bool {
	if depth > maxDepth {
		r.wrong(at, "", "values are nested more than %d levels deep", maxDepth)
		return false
	}
	return true
}

// once notes keys that an object has twice: which of them counts differs from reader
// to reader, so a person who checks the file may see another one than the client does.
func (r *report) once(n *node) {
	seen := make(map[string]bool, len(n.fields))
	for _, f := range n.fields {
		if seen[f.key] {
			r.wrong(f.at, "keep one of them", "the key %s stands here a second time", quoted(f.key))
		}
		seen[f.key] = true
	}
}

// cursor turns offsets into places. Offsets that ascend cost one walk through the text,
// also where it is one long line.
type cursor struct {
	data   []byte
	offset int
	place  place
}

func newCursor(data []byte) *cursor { return &cursor{data: data, place: place{1, 1}} }

// at returns the place of an offset, in characters.
func (c *cursor) at(offset int) place {
	offset = min(max(offset, 0), len(c.data))
	if offset < c.offset { // one step back: to the start of its line
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
