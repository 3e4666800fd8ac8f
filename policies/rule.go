package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"go.yaml.in/yaml/v3"

	"belljar.dev/policies/cond"
)

// The ids that a decision carries where no rule made it.
const (
	ruleDefault    = "default"         // no rule spoke about a part
	ruleProfile    = "unknown-profile" // the profile asked for does not exist
	ruleMixed      = "mixed-profiles"  // the parts are allowed, but not in one profile
	ruleUnreadable = "unreadable"      // a part that no rule can judge
	ruleTenant     = "unknown-tenant"  // the policy names tenants, and not this one
	ruleRequest    = "may-request"     // the tenant may not have the profile
	ruleScope      = "scope"           // the token has no scope for the call
	ruleQuestions  = "no-questions"    // agents may ask nobody
	ruleActs       = "no-acts"         // the profile lets no browser act
)

var reserved = []string{ruleDefault, ruleProfile, ruleMixed, ruleUnreadable, ruleTenant, ruleRequest, ruleScope, ruleQuestions, ruleActs}

// ruleset is what one file says: its rules, and what holds where none of them speaks.
type ruleset struct {
	name     string // of the file
	hash     string
	fallback Verdict // where no rule matches a part
	// unparsable is the most for a script that cannot be read, where no rule matches it.
	unparsable Verdict
	source     Source // of fallback
	asking     asking
	logged     AuditLevel // what the log keeps of a call about which no rule says more
	rules      []rule
	index      *index // of the rules; nil if they are few
	shadows    bool   // some of the rules are not enforced
}

// newRuleset returns the ruleset of a file without rules.
func newRuleset(name string, text []byte, fallback, unparsable Verdict, asks asking) ruleset {
	return ruleset{
		name: name, hash: textHash(text), source: Source{File: name},
		fallback: fallback, unparsable: unparsable, asking: asks, logged: AuditRequest,
	}
}

// ids are the ids of the rules.
func (s *ruleset) ids() []string {
	all := make([]string, len(s.rules))
	for i := range s.rules {
		all[i] = s.rules[i].id
	}
	return all
}

// namesTool reports whether a rule names one of the tools in full, and not by a pattern.
func (s *ruleset) namesTool(tools []string) bool {
	named := func(e element) bool { return !e.any && len(e.choice) == 1 && slices.Contains(tools, e.choice[0]) }
	return slices.ContainsFunc(s.rules, func(r rule) bool { return slices.ContainsFunc(r.match.tools, named) })
}

// rule is one entry of rules.
type rule struct {
	id      string
	source  Source
	verdict Verdict
	mode    Mode
	match   match
	unless  match // has no keys if the rule has no exception
	reason  string
	instead string
	passes  bool       // it is silent about a part that it only may speak about
	profile string     // what an allow grants; empty for the profile asked for
	node    *yaml.Node // of profile, to check the name once all are read
	terms   terms
	when    cond.Condition // nil for none
}

// match says which calls a rule speaks about. A key that is absent matches
// everything. command, path, url and host each judge their own kind of part; a match
// with any of them says nothing about the other kinds. A match with act judges acts alone,
// and path and url are then those of the act.
type match struct {
	tools    []element
	commands []glob
	paths    []glob
	urls     []urlGlob
	hosts    []hostMatch // of URLs too
	flags    []element   // the options that a command may have
	anyFlag  []element   // a command has at least one of these options
	env      []element   // the variables that may be set for a command
	acts     []ActKind   // of a browser
	places   []urlGlob   // the documents on which these happen
	profiles []named
	// About the tool that is called.
	upstreams []element
	hints     []hint
}

// named is a profile's name and where it stands.
type named struct {
	name string
	node *yaml.Node
}

// isZero reports whether the match has no keys.
func (m *match) isZero() bool { return len(m.tools) == 0 && !m.narrow() }

// narrow reports whether the match looks at more than the tool.
func (m *match) narrow() bool { return len(m.profiles)+len(m.upstreams)+len(m.hints) > 0 || m.typed() }

// typed reports whether the match speaks about some kinds of part only.
func (m *match) typed() bool {
	return len(m.commands)+len(m.paths)+len(m.urls)+len(m.hosts)+len(m.acts) > 0
}

// hint is an annotation of a tool and the value that a match wants.
type hint struct {
	key  string
	want bool
}

// hints are the annotations of tools, with the default of each for tools that
// lack it (MCP 2025-11-25, ToolAnnotations).
var hints = map[string]bool{"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true}

// textHash is the SHA-256 of a file.
func textHash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
