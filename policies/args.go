package policies

import (
	"slices"
	"sync"

	"belljar.dev/policies/cond"
)

// tool is a row of toolTable: a tool of this server, with the kinds of parts that its calls
// can have, and its arguments for conditions. Browser has no kinds here: its parts are acts.
type tool struct {
	name  string
	parts []string
	args  []argument
}

// argument is one argument of a tool. It is a struct because the compiler lays out a table
// of structs in the program; maps would be made at every start.
type argument struct {
	name string
	is   cond.Type
}

// knownTools are the names of this server's tools, which a rule may misspell. A name that
// is far from all of them may be the name of a proxied tool.
var knownTools = func() (all []string) {
	for _, t := range toolTable {
		all = append(all, t.name)
	}
	return all
}()

// toolArgs returns the arguments of each tool, by its name.
var toolArgs = sync.OnceValue(func() map[string]cond.Args {
	all := make(map[string]cond.Args)
	for _, t := range toolTable {
		args := make(cond.Args)
		for _, a := range t.args {
			args[a.name] = a.is
		}
		all[t.name] = args
	}
	return all
})

// KnownTools returns the names of this server's tools, sorted.
func KnownTools() []string { return slices.Clone(knownTools) }

// TakesText reports whether an argument of a tool of this server is a text.
func TakesText(tool, argument string) bool { return toolArgs()[tool][argument] == cond.Text }
