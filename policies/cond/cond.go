// Package cond reads and evaluates conditions: what a rule of a policy says under when.
// Compile makes a Condition of a text, or returns the faults of the text and their places;
// Holds evaluates the Condition for one call.
//
// The language is CEL (cel.dev); this package exports none of CEL's types. A condition
// loops only over lists, its size and its work are bounded, and it reads nothing but its
// Input. CEL is set up when the first condition is compiled.
package cond

import (
	"slices"
	"time"
)

// Condition is a compiled condition. It never changes; its methods are safe for
// concurrent use.
type Condition interface {
	// Holds reports whether the condition is true of a call. It returns an error if that is
	// not known: a value is missing or of another type, or the condition needs more work
	// than its bound. Holds does not change in, but computes the parts of it that it needs.
	Holds(in *Input) (bool, error)
	// Uses reports whether the condition looks at a variable.
	Uses(variable string) bool
	// String returns the text of the condition.
	String() string
}

// Input is what a condition can look at. The name of each variable is in
// parentheses.
type Input struct {
	Tool, Tenant, Session, Profile, Upstream string // (tool, tenant, session, profile, upstream)

	Args        map[string]any    // (args) as decoded from JSON
	Commands    func() [][]string // (commands) the words of each command of the script
	Paths, URLs []string          // (paths, urls)
	Hosts       []string          // (hosts) with those of the URLs
	Annotations map[string]bool   // (annotations)
	Now         time.Time         // (now) zero if it is not known
}

// The variables whose values are computed or may be missing.
const (
	Commands = "commands"
	Now      = "now"
	args     = "args"
)

// Type is the type of an argument.
type Type int

// The types. An argument that a call leaves out reads as the zero value: 0, false, an empty
// text, list or mapping, and null for Any.
const (
	Any Type = iota
	Bool
	Int
	Text
	Texts // a list of texts
	Named // texts by their names
)

// Args are the arguments that a condition may read, by name. Nil means that the arguments
// of the tool are not known: then a condition may read any name, of any type, and
// evaluation fails if the call does not have it.
type Args map[string]Type

// Bounds of a condition.
const (
	MaxText  = 4096 // bytes of the text
	maxNodes = 1000
	maxDepth = 32
	// maxCost bounds the work of one evaluation, in CEL's unit, which is about a
	// comparison. A list of 1000 commands can be looked through a few times.
	maxCost = 50_000
	// maxRegex bounds the program of one regular expression, in instructions.
	maxRegex = 1000
)

// Fault is one thing that is wrong with a condition.
type Fault struct {
	Line, Col int    // place in the text, from 1; Col counts characters
	Message   string // message in one line
	Hint      string // what to do about it; may be empty
	Name      string // the unknown word, if the fault is an unknown word
	Known     []string
}

// names returns the names of the arguments, in order.
func (a Args) names() []string {
	all := make([]string, 0, len(a))
	for name := range a {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
