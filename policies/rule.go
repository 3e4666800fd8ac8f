package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"go.yaml.in/yaml/v3"

	"belljar.dev/policies/cond"
)

// The ids in a decision that no rule made.
const (
	ruleDefault    = "default"         // no rule spoke about a part
	ruleProfile    = "unknown-profile" // the profile that the call asks for does not exist
	ruleMixed      = "mixed-profiles"  // the parts are allowed, but not in one profile
	ruleUnreadable = "unreadable"      // a part that no rule can judge
	ruleTenant     = "unknown-tenant"  // the policy names tenants, and not this one
	ruleRequest    = "may-request"     // the tenant may not have the profile
	ruleScope      = "scope"           // the token has no scope for the call
	ruleQuestions  = "no-questions"    // agents may not ask anyone
	ruleActs       = "no-acts"         // the profile lets no browser act
)

var reserved = []string{ruleDefault, ruleProfile, ruleMixed, ruleUnreadable, ruleTenant, ruleRequest, ruleScope, ruleQuestions, ruleActs}

// ruleset is what one file says: its rules, and what applies if no rule speaks about a
// part.
type ruleset struct {
	name     string // name of the file
	hash     string
	fallback Verdict // verdict if no rule matches a part
	// unparsable is the highest verdict for a script that cannot be read, if no rule
	// matches the script.
	unparsable Verdict
	source     Source // place of fallback in the file
	asking     asking
	logged     AuditLevel // what the log keeps of a call if no rule says more
	rules      []rule
	index      *index // index of the rules; nil if they are few
	shadows    bool   // some of the rules are not enforced
}

// newRuleset returns the ruleset of a file without rules.
func newRuleset(name string, text []byte, fallback, unparsable Verdict, asks asking) ruleset {
	return ruleset{
		name: name, hash: textHash(text), source: Source{File: name},
		fallback: fallback, unparsable: unparsable, asking: asks, logged: AuditRequest,
	}
}

// ids returns the ids of the rules.
func (s *ruleset) ids() []string {
	all := make([]string, len(s.rules))
	for i := range s.rules {
		all[i] = s.rules[i].id
	}
	return all
}

// namesTool reports whether a rule contains the full name of one of the tools, and not a
// pattern.
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
	passes  bool       // the rule is silent about a part that it only may speak about
	profile string     // profile that an allow grants; empty for the profile that the call asks for
	node    *yaml.Node // node of profile, to check the name after all profiles were read
	terms   terms
	when    cond.Condition // nil if the rule has no condition
}

// match says which calls a rule speaks about. A missing key matches everything. command,
// path, url and host each judge their own kind of part; a match with any of them says
// nothing about the other kinds. A match with act judges only acts, and path and url are
// then those of the act.
type match struct {
	tools    []element
	commands []glob
	paths    []glob
	urls     []urlGlob
	hosts    []hostMatch // also the hosts of URLs
	flags    []element   // the options that a command may have
	anyFlag  []element   // a command has at least one of these options
	env      []element   // the variables that may be set for a command
	acts     []ActKind   // acts of a browser
	places   []urlGlob   // documents on which the acts happen
	profiles []named
	// Keys about the tool that is called.
	upstreams []element
	hints     []hint
}

// named is a profile's name and its place.
type named struct {
	name string
	node *yaml.Node
}

// isZero reports whether the match has no keys.
func (m *match) isZero() bool { return len(m.tools) == 0 && !m.narrow() }

// narrow reports whether the match looks at more than the tool.
func (m *match) narrow() bool { return len(m.profiles)+len(m.upstreams)+len(m.hints) > 0 || m.typed() }

// typed reports whether the match speaks only about some kinds of part.
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

// textHash returns the SHA-256 of a file.
func textHash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
