package question

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Answer is the answer of a person to one question: the labels of options, a text of the
// person, or both. An empty Answer means that the person skipped the question.
type Answer struct {
	Selected []string `json:"selected,omitempty"`
	Other    string   `json:"other,omitempty"`
}

// String returns the answer in one text, with commas between several options.
func (a Answer) String() string {
	parts := a.Selected
	if a.Other != "" {
		parts = append(slices.Clip(parts), a.Other)
	}
	return strings.Join(parts, ", ")
}

// read makes one answer from the words of a person for a question: labels, their numbers
// from 1, or another text.
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
		a.Selected = nil // the person's own text replaces the option
	}
	return a, nil
}

// label returns the label of the option that a word means. The word is the label, the label
// in another case, or the number of the option. A label may be a number too, and two labels
// may differ only in their case: a form sends whole labels, so these come first.
func (q Question) label(word string) string {
	for _, means := range []func(label string, n int) bool{
		func(label string, _ int) bool { return label == word },
		func(label string, _ int) bool { return strings.EqualFold(label, word) },
		func(_ string, n int) bool { return word == fmt.Sprint(n) },
	} {
		for i, o := range q.Options {
			if means(o.Label, i+1) {
				return o.Label
			}
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

// Read makes answers from the words for each question, by the ID of the question. Questions
// without words have no answer. Words for a question that does not exist are an error.
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
