package policies

import (
	"cmp"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"belljar.dev/internal/order"
)

// Severity says how much is wrong.
type Severity string

// The severities, from the worst down.
const (
	LintError   Severity = "error"   // the text does not do what it says
	LintWarning Severity = "warning" // it opens more than its reader sees
	LintNote    Severity = "note"    // it could be better
)

// Finding is something in a policy that is not a fault but is hardly intended.
type Finding struct {
	Check    string   `json:"check"` // its id, which never changes
	Severity Severity `json:"severity"`
	Rule     string   `json:"rule,omitempty"`    // the rule that it is about
	Profile  string   `json:"profile,omitempty"` // or the profile
	File     string   `json:"file"`
	Line     int      `json:"line"` // from 1
	Col      int      `json:"col"`  // from 1, in characters
	Message  string   `json:"message"`
	Why      string   `json:"why"`
	Instead  string   `json:"instead"` // what to do
	Text     string   `json:"text"`    // the source line
}

// String is the finding as a reader of a terminal wants it.
func (f Finding) String() string {
	text := Fault{File: f.File, Line: f.Line, Col: f.Col, Message: string(f.Severity) + " " + f.Check + ": " + f.Message, Hint: f.Why, Text: f.Text}.String()
	return text + "\n  " + strings.Repeat(" ", len(fmt.Sprint(f.Line))) + " = " + f.Instead
}

// Use is what an audit log says of the rules of a policy, by their ids.
type Use struct {
	Calls int            // that were looked at
	Spoke map[string]int // calls that a rule spoke about
	Asked map[string]int // questions that it put
	Kept  map[string]int // those of them that were answered with a yes for more than the call
}

// Lint looks for what is hardly intended in a policy and in those layers that it
// names and files can read. use may be nil. It returns a *ParseError
// where the policy has faults.
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
	granting bool   // it is the system's file: an allow lets through
	gone     []bool // rules that can decide nothing
	found    []Finding
}

func newLinter(p *Policy, rules []rule, file string, text []byte, use *Use) *linter {
	d := newDecoder(file, text)
	return &linter{p: p, rules: rules, file: file, lines: d.Lines, root: d.root(text), use: use}
}

// all looks at every rule.
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
