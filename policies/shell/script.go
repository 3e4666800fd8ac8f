package shell

import "fmt"

// Script is the result of reading a text.
type Script struct {
	Commands  []Command // in the order of the text; commands that a command starts follow it
	Functions []string  // names of the functions that the script declares
	Aliases   []string  // names of the aliases that the script declares

	// Sets are the variables that the script sets for all following commands, for example
	// by "PATH=..." on a line of its own or by export. A name that is only known when the
	// script runs is "". Names in lower case that only the shell itself can see, such as
	// those of most loops, are left out.
	Sets []string

	// Sways are the variables in Sets that have the effect Sways.
	Sways []string
}

// Doubt returns why other commands may run than those that are listed, or "": the script is
// opaque, or it sets variables that make programs run or load more.
func (s Script) Doubt() string {
	if why := s.Opaque(); why != "" {
		return why
	}
	for i := range s.Commands {
		for _, a := range s.Commands[i].Assigns {
			if a.Effect != NoEffect {
				return SwayDoubt(a.Name)
			}
		}
	}
	if len(s.Sways) > 0 {
		return SwayDoubt(s.Sways[0])
	}
	return ""
}

// SwayDoubt returns the doubt about a command for which a variable with the effect Sways is
// set.
func SwayDoubt(name string) string {
	return name + " is set for it, which can make programs run or load what their words do not say"
}

// Opaque returns why the script may run commands that are not listed, or "".
func (s Script) Opaque() string {
	for i := range s.Commands {
		if s.Commands[i].Opaque != "" {
			return s.Commands[i].Opaque
		}
	}
	return ""
}

// Command is one command of a script. It has no words if it only sets variables or opens
// files.
type Command struct {
	Words     []Word // the program and its arguments
	Assigns   []Assign
	Redirects []Redirect
	Via       []string // programs that start the command, the outermost first

	// Wrapper says that the command, for example timeout or bash -c, does nothing
	// but start the commands that follow it and name it in their Via.
	Wrapper bool

	// Opaque is why the command may run other commands that are not listed, or "".
	Opaque string

	Text       string // text of the command as written, or the text that another command runs
	Start, End int    // place in the script, in bytes
	Line       int    // line of the script, from 1
}

// Certainty says how much of a word the text shows.
type Certainty int

// The certainties.
const (
	Exact Certainty = iota // Text is the word
	Home                   // Text is the word, but its ~ becomes a directory
	One                    // one word that begins with Text
	Any                    // any number of words, also zero; the first one begins with Text
)

// Word is one word of a command, without quotes and after brace expansion.
type Word struct {
	Text      string
	Certainty Certainty
	Glob      bool // the word is Any because of a wildcard: Text, or files whose names begin with it
}

// Assign is a variable that is set for a command.
type Assign struct {
	Name   string // "" if it is only known when the command runs
	Value  Word
	Effect Effect
}

// Redirect is a file that is opened for a command. Copies of descriptors and
// here-documents do not count.
type Redirect struct {
	Op     string // for example ">", "<>" or "&>>"
	Target Word
	Read   bool
	Write  bool
}

// Kind says why a text could not be read to its end.
type Kind int

// The kinds of Error.
const (
	Syntax  Kind = iota + 1 // not bash, or not the part of bash that this package understands
	TooLong                 // more than MaxText bytes
	TooDeep                 // nested in more than MaxDepth levels
	TooMany                 // more than MaxCommands commands, or too many bytes of nested texts
	Foreign                 // it contains a character that bash and this package read differently
)

// Error is why a text could not be read to its end. The rest of the text may
// contain any commands.
type Error struct {
	Kind   Kind
	Offset int    // in bytes; 0 if it is not known
	Why    string // for example "it contains a NUL byte"
}

// Error returns the reason and its place, in one line.
func (e *Error) Error() string { return fmt.Sprintf("read script at byte %d: %s", e.Offset, e.Why) }
