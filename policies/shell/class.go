package shell

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// Class says what kind of program a program is, by what it does with its arguments.
type Class int

// The classes.
const (
	Plain       Class = iota // it does what its name says, as far as is known here
	Shell                    // it runs scripts
	Interpreter              // it runs programs in another language
	Wrapper                  // it starts the program that its operands name
	Runner                   // it runs commands in ways that are not analyzed, or on another machine
)

// String returns the class in words, with its article, for messages.
func (k Class) String() string {
	switch k {
	case Shell:
		return "a shell"
	case Interpreter:
		return "an interpreter"
	case Wrapper:
		return "a wrapper"
	case Runner:
		return "a runner"
	case Plain:
	}
	return "a program"
}

const (
	shells        = "bash sh dash ash rbash"
	foreignShells = "zsh ksh mksh ksh93 lksh pdksh oksh yash fish csh tcsh elvish nu pwsh xonsh rc es"
	awks          = "awk gawk mawk nawk original-awk"
	otherWrappers = "env xargs watch busybox toybox"
)

// ClassOf returns the class of a program, which may be named with its path.
func ClassOf(program string) Class {
	name := path.Base(program)
	short := versionless(name)
	if _, ok := wrappers[name]; ok || slices.Contains(fields(otherWrappers), name) {
		return Wrapper
	}
	if slices.Contains(fields(shells+" "+foreignShells), short) {
		return Shell
	}
	for list := range interpreters {
		if slices.Contains(fields(list), short) {
			return Interpreter
		}
	}
	switch {
	case slices.Contains(fields(awks), short), short == "sqlite":
		return Interpreter
	case name == "find": // it runs others only with some options
		return Plain
	case program != "" && Runs(program):
		return Runner
	}
	return Plain
}

// Known returns the programs whose class is not Plain, in order.
func Known() []string {
	all := slices.Concat(fields(shells), fields(foreignShells), fields(awks), fields(otherWrappers), slices.Collect(maps.Keys(wrappers)), slices.Collect(maps.Keys(programs())))
	all = slices.DeleteFunc(all, func(name string) bool { return ClassOf(name) == Plain || strings.HasPrefix(name, ".") })
	slices.Sort(all)
	return slices.Compact(all)
}
