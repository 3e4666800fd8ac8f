// Package shell reads shell text and says which commands it runs.
//
// Analyze lists every command of a script: those in substitutions, here
// documents, functions and blocks, and those that another command starts
// (sudo, env, xargs, find -exec, bash -c and some fifty more). It runs nothing
// and looks nothing up, so a word that depends on a variable, a file or another
// command stays unknown, and a command that can run what its text does not show
// is marked with the reason.
//
// The contract, which the tests check with bash: when a shell runs the script, the
// words that it passes to a program are those of one of the Commands, or one of the
// Commands is opaque, or Analyze returned an error. The analysis does not see what
// a program does with its words and its files: a script that is run by its path, a
// Makefile, or a number in a variable of the environment that is not a number.
//
// The files, each calling only those below it:
//
//	analyze.go     the commands of a script, and of a program
//	class.go       what kinds of programs there are
//	runs.go        programs that run other programs or texts
//	walk.go        statements
//	expand.go      what a word runs while it is expanded
//	program.go     what a program starts, by its arguments
//	git.go         git, which starts programs by its settings
//	interpreter.go shells and the interpreters of other languages
//	builtin.go     builtins of the shell
//	wrapper.go     programs that start another
//	nested.go      a text in the text of another command
//	sed.go         programs of sed
//	names.go       the files that words name
//	loop.go        loops whose values are known
//	words.go       the words that the shell makes of a word
//	brace.go       braces in a word
//	ansi.go        escapes in a word
//	parse.go       from a text to statements
//	guard.go       refuses texts before the parser reads them
//	listing.go     what was found so far
//	variable.go    what a variable changes
//	literal.go     programs that do only what their words say
//	option.go      options of a program
//	script.go      the result: a script and its commands
//
// Four calls go up this list, since every word of a command can contain another text of
// the shell: a word and a nested text contain statements, and a wrapper starts a program.
package shell
