package engine

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// json returns the value of the body, or the value after the text a.after.
func (b *body) json(a *answer) (any, bool) {
	if a != nil && a.after != "" {
		_, text, _ := strings.Cut(b.text, a.after)
		v, err := decode(text, false)
		return v, err == nil
	}
	if b.value == nil && b.broken == nil {
		b.value, b.broken = decode(b.text, true)
	}
	return b.value, b.broken == nil
}

// decode reads one JSON value. If alone is set, text after the value is an error.
func decode(text string, alone bool) (any, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); alone && !errors.Is(err, io.EOF) {
		return nil, errors.New("read JSON: more text follows the value")
	}
	return v, nil
}

// readValue takes the results from a JSON value.
func (b *body) readValue(a *answer) {
	v, ok := b.json(a)
	if !ok {
		return
	}
	if a.columns {
		b.readColumns(a, v)
		return
	}
	for _, f := range a.items {
		for _, item := range f.path.all(v) {
			if _, object := item.(map[string]any); !object || proven(item, a.skip) || len(b.parsed.Hits) >= maxHits {
				continue
			}
			b.hit(b.wordsOf(item, a.title, maxTitle), b.wordsOf(item, a.url, maxURL),
				b.wordsOf(item, a.snippet, maxSnippet), b.wordsOf(item, a.date, maxTitle))
		}
		if len(b.parsed.Hits) > 0 {
			break
		}
	}
	if len(b.parsed.Hits) > 0 {
		b.parsed.Suggestion = b.wordsOf(v, a.suggestion, maxTitle)
		b.parsed.Answer = b.wordsOf(v, a.reply, maxSnippet)
	}
}

// readColumns takes results that are stored as a list for each field.
func (b *body) readColumns(a *answer, v any) {
	column := func(alternatives []finder) []any {
		for _, f := range alternatives {
			for _, found := range f.path.all(v) {
				if list, ok := found.([]any); ok {
					return list
				}
			}
		}
		return nil
	}
	titles, links, snippets := column(a.title), column(a.url), column(a.snippet)
	for i := range min(len(titles), len(links), maxHits) {
		snippet := ""
		if i < len(snippets) {
			snippet = plain(path{}.words(snippets[i]), maxSnippet)
		}
		b.hit(plain(path{}.words(titles[i]), maxTitle), plain(path{}.words(links[i]), maxURL), snippet, "")
	}
}

// wordsOf returns the text of the first alternative that has one.
func (b *body) wordsOf(item any, alternatives []finder, most int) string {
	for _, f := range alternatives {
		s := ""
		if f.text == nil {
			s = f.path.words(item)
		} else {
			s, _ = f.text.expand(func(p piece) string {
				if p.name == "origin" {
					return b.base.Scheme + "://" + b.base.Host
				}
				return p.path.words(item)
			})
		}
		if s = plain(s, most); s != "" {
			return s
		}
	}
	return ""
}

// proven reports whether a value has one of the proofs.
func proven(v any, proofs []proof) bool {
	for _, p := range proofs {
		if p.inValue(v) {
			return true
		}
	}
	return false
}
