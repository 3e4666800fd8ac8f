package shell

import "strings"

// Analyze lists the commands that a bash script runs. Its errors are of the type
// *Error: then the Script has the commands before the place of the error, and the
// rest of the text may run anything. Safe for concurrent use; equal texts give
// equal answers.
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

// Parses reports whether bash can read a script to its end. It is a guess in both
// directions for the rare texts that bash reads differently from the parser. Safe for
// concurrent use.
func Parses(text string) bool {
	if guard(text) != nil {
		return false
	}
	_, fault := parse(&bashParsers, text)
	return fault == nil
}

// Program lists what a program runs that is given these words, the first of
// which is its name: itself, and what it starts as its arguments say. Errors
// are those of Analyze.
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
