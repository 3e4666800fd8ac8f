// Package cond reads and evaluates conditions: what a rule of a policy says
// under when. Compile makes a Condition of a text, or says what is wrong with
// it and where; Holds asks it about one call.
//
// The language is CEL (cel.dev); this package exports none of CEL's types. A
// condition loops only over lists, its size and its work are bounded, and it
// reads nothing but its Input. CEL is set up when the first condition is
// compiled.
package cond

import (
	"slices"
	"time"
)

// Condition is a compiled condition. It never changes; its methods are safe for
// concurrent use.
type Condition interface {
	// Holds says whether the condition is true of a call. An error says that it
	// is not known: a value is missing or of another type, or there was too much
	// to look at. It changes nothing of in, but works out the parts of it that
	// it needs.
	Holds(in *Input) (bool, error)
	// Uses reports whether the condition looks at a variable.
	Uses(variable string) bool
	// String is the text of the condition.
	String() string
}

// Input is what a condition can look at. The name of each variable is in
// brackets.
type Input struct {
	Tool, Tenant, Session, Profile, Upstream string // (tool, tenant, session, profile, upstream)

	Args        map[string]any    // (args) as decoded from JSON
	Commands    func() [][]string // (commands) the words of each command of the script
	Paths, URLs []string          // (paths, urls)
	Hosts       []string          // (hosts) of the URLs too
	Annotations map[string]bool   // (annotations)
	Now         time.Time         // (now) zero if nobody knows
}

// The variables whose values are worked out or may be missing.
const (
	Commands = "commands"
	Now      = "now"
	args     = "args"
)

// Type is what an argument is.
type Type int

// The types. An argument that a call leaves out reads as the zero value: 0,
// false, an empty text, list or mapping; of Any, null.
const (
	Any Type = iota
	Bool
	Int
	Text
	Texts // a list of texts
	Named // texts by name
)

// Args are the arguments that a condition may read, by name. Nil is for a tool
// whose arguments are not known: then a condition may read any name, of any type,
// and evaluation fails if the call lacks it.
type Args map[string]Type

// Bounds of a condition.
const (
	MaxText  = 4096 // bytes
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
	Line, Col int    // in the text, from 1; Col in characters
	Message   string // in one line
	Hint      string // what to do about it; may be empty
	Name      string // the unknown word, if the fault is one
	Known     []string
}

// names are the names of the arguments, in order.
func (a Args) names() []string {
	all := make([]string, 0, len(a))
	for name := range a {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
