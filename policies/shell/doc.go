// Package shell reads shell text and says which commands it runs.
//
// Analyze lists every command of a script: those in substitutions, here
// documents, functions and blocks, and those that another command starts
// (sudo, env, xargs, find -exec, bash -c and some fifty more). It runs nothing
// and looks nothing up, so a word that depends on a variable, a file or another
// command stays unknown, and a command that can run what its text does not show
// is marked with the reason.
//
// The contract, which the tests check with bash: when a shell runs the script,
// the words that it passes to a program are those of one of the Commands, or one
// of the Commands is opaque, or Analyze returned an error. What a program does with
// its words and its files is not seen: a script that is run by its path, a
// Makefile, or a number in a variable of the environment that is not a number.
package shell
