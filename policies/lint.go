package policies

import (
	"cmp"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"belljar.dev/internal/order"
)

// Severity says how serious a finding is.
type Severity string

// The severities, from the worst down.
const (
	LintError   Severity = "error"   // the text does not do what it says
	LintWarning Severity = "warning" // the text opens more than its reader sees
	LintNote    Severity = "note"    // the text could be better
)

// Finding is something in a policy that is not a fault but is probably not intended.
type Finding struct {
	Check    string   `json:"check"` // id of the check, which never changes
	Severity Severity `json:"severity"`
	Rule     string   `json:"rule,omitempty"`    // the rule that the finding is about
	Profile  string   `json:"profile,omitempty"` // or the profile that it is about
	File     string   `json:"file"`
	Line     int      `json:"line"` // number of the line, from 1
	Col      int      `json:"col"`  // number of the column, from 1, in characters
	Message  string   `json:"message"`
	Why      string   `json:"why"`
	Instead  string   `json:"instead"` // what to do
	Text     string   `json:"text"`    // the source line
}

// String returns the finding in the form for a terminal.
func (f Finding) String() string {
	text := Fault{File: f.File, Line: f.Line, Col: f.Col, Message: string(f.Severity) + " " + f.Check + ": " + f.Message, Hint: f.Why, Text: f.Text}.String()
	return text + "\n  " + strings.Repeat(" ", len(fmt.Sprint(f.Line))) + " = " + f.Instead
}

// Use is what an audit log shows about the rules of a policy, by their ids.
type Use struct {
	Calls int            // number of calls that were looked at
	Spoke map[string]int // number of calls that each rule spoke about
	Asked map[string]int // number of questions that each rule asked
	Kept  map[string]int // number of these questions that were answered with a yes for more than the call
}

// Lint looks for things that are probably not intended in a policy, and in those layers
// that the policy names and files can read. use may be nil. Lint returns a *ParseError if
// the policy has faults.
func Lint(name string, text []byte, files Files, use *Use) ([]Finding, error) {
	texts := map[string][]byte{name: text}
	if read := files.Read; read != nil {
		files.Read = func(name string) ([]byte, error) {
			text, err := read(name)
			if err == nil {
				texts[name] = text
			}
			return text, err
		}
	}
	p, err := Load(name, text, files)
	if err != nil {
		return nil, err
	}
	l := newLinter(p, p.rules, name, text, use)
	l.granting = true
	l.profiles()
	l.upstreams()
	l.all()
	found := l.found
	for _, f := range p.Files()[1:] {
		layer := layerNamed(p, f.Name)
		if layer == nil {
			continue
		}
		below := newLinter(p, layer.rules.rules, f.Name, texts[f.Name], use)
		below.all()
		found = append(found, below.found...)
	}
	order.By(found, func(a, b *Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return found, nil
}

// linter looks at the rules of one file.
type linter struct {
	p        *Policy
	rules    []rule
	file     string
	lines    []string
	root     *yaml.Node
	use      *Use
	granting bool   // the file is the system's: a rule that allows lets a call through
	gone     []bool // rules that can decide nothing
	found    []Finding
}

func newLinter(p *Policy, rules []rule, file string, text []byte, use *Use) *linter {
	d := newDecoder(file, text)
	return &linter{p: p, rules: rules, file: file, lines: d.Lines, root: d.root(text), use: use}
}

// all checks every rule.
func (l *linter) all() {
	for i := range l.rules {
		r := &l.rules[i]
		dead := l.dead(i)
		l.gone = append(l.gone, dead)
		l.idle(i)
		if !dead && l.granting && r.verdict == Allow && !l.ofWall(i) {
			l.opens(i)
		}
		if !dead && r.verdict == Deny && r.mode == ModeEnforce {
			l.textOnly(i)
		}
		if !dead && l.granting && r.mode == ModeEnforce {
			l.claimed(i)
		}
	}
	if l.granting {
		l.tested()
		l.unaskable()
	}
	l.used()
}
