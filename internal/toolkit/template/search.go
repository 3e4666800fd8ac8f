package template

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"belljar.dev/internal/order"
)

// Scores of a template: for a query that is its whole name or URI, and for each word of the
// query that is in the name, in the description or in a parameter.
const (
	scoreExact       = 10
	scoreName        = 5
	scoreDescription = 3
	scoreParameter   = 1
)

// Limits of a query.
const (
	maxQuery = 256 // length in bytes
	maxWords = 16
)

// Found is a template that a search has found, with its score.
type Found struct {
	Template
	Score int
}

// Search returns the templates of a toolchain that contain every word of the query, the
// highest score first. Upper and lower case do not matter. The score is 10 if the query is
// the name, the category or the URI. Otherwise each word adds 5 if it is in the name or the
// URI, 3 if it is in the description, and 1 if it is in a parameter. An empty toolchain
// means all toolchains. The error is an [*Invalid].
func Search(query, toolchain string) ([]Found, error) {
	query = strings.ToLower(strings.TrimSpace(query))
	words := strings.Fields(query)
	switch {
	case query == "":
		return nil, &Invalid{Faults: []Fault{{"query", "must not be empty"}}}
	case len(query) > maxQuery || len(words) > maxWords:
		return nil, &Invalid{Faults: []Fault{{"query", fmt.Sprintf("has %d bytes and %d words, and at most %d and %d are allowed", len(query), len(words), maxQuery, maxWords)}}}
	}
	var found []Found
	for _, t := range List(toolchain, "") {
		if s := t.score(query, words); s > 0 {
			found = append(found, Found{t, s})
		}
	}
	order.By(found, func(a, b *Found) int { return cmp.Compare(b.Score, a.Score) })
	return found, nil
}

// score returns the score of a template; zero if the template lacks a word.
func (t Template) score(query string, words []string) int {
	name, uri, description := strings.ToLower(t.Name), t.URI.String(), strings.ToLower(t.Description)
	if query == name || query == uri || query == t.URI.Category {
		return scoreExact
	}
	sum := 0
	for _, word := range words {
		score := 0
		if strings.Contains(name, word) || strings.Contains(uri, word) {
			score += scoreName
		}
		if strings.Contains(description, word) {
			score += scoreDescription
		}
		if slices.ContainsFunc(t.Parameters, func(p Parameter) bool { return p.about(word) }) {
			score += scoreParameter
		}
		if score == 0 {
			return 0
		}
		sum += score
	}
	return sum
}

// about reports whether the name or the description of a parameter contains a word.
func (p Parameter) about(word string) bool {
	return strings.Contains(p.Name, word) || strings.Contains(strings.ToLower(p.Description), word)
}
