package question

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Answer is what a person says to one question: options by their labels, a text
// of their own, or both. Neither is a question that was passed over.
type Answer struct {
	Selected []string `json:"selected,omitempty"`
	Other    string   `json:"other,omitempty"`
}

// String is the answer in one text, several options with commas between them.
func (a Answer) String() string {
	parts := a.Selected
	if a.Other != "" {
		parts = append(slices.Clip(parts), a.Other)
	}
	return strings.Join(parts, ", ")
}

// read makes one answer of the words that a person gave to a question: labels,
// their numbers from 1, or something of their own.
func (q Question) read(words []string) (a Answer, err error) {
	for _, word := range words {
		word = Clean(word, q.Kind == Text)
		if word == "" {
			continue
		}
		label := q.label(word)
		switch {
		case label == "" && q.Kind == YesNo:
			return a, fmt.Errorf("question %s: answer yes or no", q.ID)
		case label == "" && utf8.RuneCountInString(word) > maxText:
			return a, fmt.Errorf("question %s: the answer has more than %d characters", q.ID, maxText)
		case label == "" && a.Other != "":
			return a, fmt.Errorf("question %s: two answers are not among its options", q.ID)
		case label == "":
			a.Other = word
		case !slices.Contains(a.Selected, label):
			a.Selected = append(a.Selected, label)
		}
	}
	if !q.Many && len(a.Selected) > 1 {
		return a, fmt.Errorf("question %s: choose one", q.ID)
	}
	if !q.Many && len(a.Selected) == 1 && a.Other != "" {
		a.Selected = nil // a word of one's own is what one means
	}
	return a, nil
}

// label is the option that a word means: its label in any case, or its number.
func (q Question) label(word string) string {
	for i, o := range q.Options {
		if strings.EqualFold(o.Label, word) || word == fmt.Sprint(i+1) {
			return o.Label
		}
	}
	if q.Kind == YesNo {
		switch strings.ToLower(word) {
		case "y", "true":
			return "yes"
		case "n", "false":
			return "no"
		}
	}
	return ""
}

// Read makes answers of the words to each question, by its id. Questions that
// are not there, or have no words, are passed over.
func (s Sheet) Read(words map[string][]string) (map[string]Answer, error) {
	answers := make(map[string]Answer)
	for _, q := range s.Questions {
		a, err := q.read(words[q.ID])
		if err != nil {
			return nil, err
		}
		if a.String() != "" {
			answers[q.ID] = a
		}
	}
	for id := range words {
		if !slices.ContainsFunc(s.Questions, func(q Question) bool { return q.ID == id }) {
			return nil, fmt.Errorf("question %q does not exist", clip(Clean(id, false), maxLabel))
		}
	}
	return answers, nil
}
