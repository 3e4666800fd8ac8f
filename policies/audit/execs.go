package audit

import (
	"strings"

	"belljar.dev/policies"
)

// Exec is a program that a command started, or that the policy did not let
// start.
type Exec struct {
	Argv    []string `json:"argv"`
	Path    string   `json:"path,omitempty"` // path of the file, if its name is not that of argv[0]
	Cut     bool     `json:"cut,omitempty"`  // some words of argv are missing or cut
	Verdict string   `json:"verdict"`
	Rule    string   `json:"rule,omitempty"`
	Stopped bool     `json:"stopped,omitempty"`
	Count   int      `json:"count"` // how often this happened with the same words
}

// execs writes the programs that a command started, and the number of further programs. The
// words of programs are arguments: below the level request only the number of programs is
// kept.
func (b *body) execs(level policies.AuditLevel, all []Exec, more int) {
	if level < policies.AuditRequest {
		for _, e := range all {
			more += e.Count
		}
		all = nil
	}
	if len(all) > 0 {
		told := make([]Exec, len(all))
		for i, e := range all {
			e.Argv, e.Path = b.r.words(e.Argv), b.r.text(e.Path)
			told[i] = e
		}
		b.anyValue("execs", told)
	}
	b.numIfSet("execs_more", int64(more))
}

// words returns the words of an argv without secrets. An option can show what the word
// after it is: the word after --password is a password.
func (r *redactor) words(argv []string) []string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = r.text(w)
		if i == 0 || !sensitive(argv[i-1]) {
			continue
		}
		if rest, ok := strings.CutPrefix(r.text(argv[i-1]+" "+w), argv[i-1]+" "); ok {
			words[i] = rest
		}
	}
	return words
}
