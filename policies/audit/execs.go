package audit

import "belljar.dev/policies"

// Exec is a program that a command started, or that the policy did not let
// start.
type Exec struct {
	Argv    []string `json:"argv"`
	Path    string   `json:"path,omitempty"` // the file, where its name is not that of argv[0]
	Cut     bool     `json:"cut,omitempty"`  // there were more words, or longer ones
	Verdict string   `json:"verdict"`
	Rule    string   `json:"rule,omitempty"`
	Stopped bool     `json:"stopped,omitempty"`
	Count   int      `json:"count"` // how often, with the same words
}

// execs are what a command started, and how many more. Words are arguments:
// below the level request only the number is kept.
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
			words := make([]string, len(e.Argv))
			for k, w := range e.Argv {
				words[k] = b.r.text(w)
			}
			e.Argv, e.Path = words, b.r.text(e.Path)
			told[i] = e
		}
		b.other("execs", told)
	}
	b.count("execs_more", int64(more))
}
