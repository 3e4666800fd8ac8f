package policies

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// add adds a finding about a rule, at one of the rule's places.
func (l *linter) add(i int, at *yaml.Node, check string, severity Severity, message, why, instead string) {
	l.note(at, Finding{Check: check, Severity: severity, Rule: l.rules[i].id, Message: message, Why: why, Instead: instead})
}

func (l *linter) note(at *yaml.Node, f Finding) {
	if at == nil {
		at = l.root
	}
	f.File, f.Line, f.Col = l.file, at.Line, at.Column
	if f.Line <= len(l.lines) {
		f.Text = strings.TrimSuffix(l.lines[f.Line-1], "\r")
	}
	l.found = append(l.found, f)
}

// at returns the place of a key of a rule, or of an entry in its list. If the rule has no
// such key, it returns the place of the rule.
func (l *linter) at(i, number int, keys ...string) *yaml.Node {
	n := l.entry(i)
	for _, k := range keys {
		below := valueOf(n, k)
		if below == nil {
			return n
		}
		n = below
	}
	if n != nil && n.Kind == yaml.SequenceNode && number >= 0 && number < len(n.Content) {
		return n.Content[number]
	}
	return n
}

// entry returns the mapping of a rule.
func (l *linter) entry(i int) *yaml.Node {
	rules := valueOf(l.root, "rules")
	if rules == nil || i >= len(rules.Content) {
		return nil
	}
	return rules.Content[i]
}

// where names a rule for a message about another rule of the same file.
func (r *rule) where() string {
	return fmt.Sprintf("rule %s on line %d", r.id, r.source.Line)
}

// names reports whether the element stands for a program, by its bare name or by its path.
func (e element) names(program string) bool {
	return slices.ContainsFunc(e.choice, func(c string) bool {
		return star(c, program) || !strings.HasSuffix(c, "*") && star(path.Base(c), program)
	})
}

// open reports whether the words after the program may be, or contain, any option.
func (g glob) open() bool {
	for _, e := range g.elements[1:] {
		if e.any || slices.ContainsFunc(e.choice, func(c string) bool { return strings.HasPrefix(c, "*") || c == "-*" || c == "--*" }) {
			return true
		}
	}
	return false
}

// program returns the element for the program in a pattern of commands, and false if the
// program may be any.
func (g glob) program() (element, bool) {
	if len(g.elements) == 0 || g.elements[0].any {
		return element{}, false
	}
	return g.elements[0], true
}

// firstOf returns the first of some texts that fits, or "".
func firstOf(all []string, fits func(string) bool) string {
	if i := slices.IndexFunc(all, fits); i >= 0 {
		return all[i]
	}
	return ""
}

// layerNamed returns the layer of a policy that was read from a file, or nil.
func layerNamed(p *Policy, name string) *Layer {
	for _, l := range p.allLayers() {
		if l.Name() == name {
			return l
		}
	}
	return nil
}
