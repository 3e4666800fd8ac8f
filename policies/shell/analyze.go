package shell

import "strings"

// Analyze lists the commands that a bash script runs. Its errors are of the type *Error:
// then the Script has the commands before the place of the error, and the rest of the text
// may run anything. Analyze is safe for concurrent use; equal texts give equal results.
func Analyze(text string) (Script, error) {
	var s Script
	if err := guard(text); err != nil {
		return s, err
	}
	r := newReader(&s)
	if fault := r.read(text, place{end: len(text), line: 1}); r.err == nil {
		r.err = fault
	}
	if r.err != nil {
		return s, r.err
	}
	return s, nil
}

// Parses reports whether bash can read a script to its end. For the rare texts that bash
// reads differently from the parser, the result may be wrong in both directions. Parses is
// safe for concurrent use.
func Parses(text string) bool {
	if guard(text) != nil {
		return false
	}
	_, fault := parse(&bashParsers, text)
	return fault == nil
}

// Program lists what a program with these words runs: the program itself, and what it
// starts according to its arguments. The first word is the program's name. The errors are
// like those of Analyze.
func Program(argv []string) (Script, error) {
	var s Script
	r := newReader(&s)
	words := make([]Word, len(argv))
	for i, a := range argv {
		words[i] = Word{Text: a}
	}
	r.command(words, nil, nil, nil, strings.Join(argv, " "), place{line: 1, whole: true})
	if r.err != nil {
		return s, r.err
	}
	return s, nil
}
