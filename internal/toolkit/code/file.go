package code

import "math"

// File contains what was read of one source file. It does not change after it was made.
type File struct {
	Path     string // path from the project's directory, with slashes
	Language Language
	Text     string
	Tokens   []Token // all tokens of the text in their order; blanks are not tokens
	Lines    Lines
	Funcs    []Func // sorted by their first lines; a nested function follows the function that contains it
	Types    []Symbol
	Vars     []Symbol // constants and variables outside functions
	Imports  []Import
	Gaps     []Gap // what could not be measured in this file
	Counted  bool  // whether Halstead is set in the functions
}

// Lines counts the lines of a file. A line with code and a comment counts as code.
type Lines struct{ Code, Comment, Blank int }

// Kind is the kind of a [Token].
type Kind uint8

// The kinds of tokens.
const (
	Operator Kind = iota // also brackets and separators
	Name                 // an identifier
	Keyword              // a word that the language reserves
	Number
	String // text with its quotes; a string with expressions in it has a token for each piece of text
	Comment
	Newline // end of a line, if the language gives it a meaning: Python
	Indent  // Python; its text is empty
	Dedent  // Python; its text is empty
)

// Token is a piece of a text: Text[Start:End].
type Token struct {
	Start, End int32
	Line       int32 // line of Start, from 1
	Kind       Kind
}

// Symbol is something that a file declares.
type Symbol struct {
	Name     string // name as it is declared
	Owner    string // type or namespace that contains it; empty at the top level
	Kind     string // word of the language: struct, class, trait, const, ...
	Line     int    // line of the name
	First    int    // first line, without comments and attributes before it
	Last     int
	Exported bool // whether other files or packages can use the name
	Bases    []string
}

// Func is a function or a method with a body.
type Func struct {
	Symbol

	Label      string // name for people: Owner.Name, or what the language's tools print
	Start, End int    // the tokens of the function are File.Tokens[Start:End]
	Params     int
	Nesting    int      // greatest depth of its blocks
	Cyclomatic int      // McCabe's number; 1 without a branch
	Cognitive  int      // number as SonarSource's paper on cognitive complexity counts it
	Halstead   Halstead // zero until it is counted
	Calls      []Call
	Test       bool // whether it runs only in tests
}

// Call is a call in a function.
type Call struct {
	Name  string // name of what is called, without the part before a dot
	Of    string // part before the dot: a package, a type or a variable; empty without a dot
	Line  int
	Token int // index of Name in File.Tokens
}

// Halstead counts the operators and the operands of a function.
type Halstead struct{ Operators, Operands, DistinctOperators, DistinctOperands int }

// Import is a place from which a file takes names.
type Import struct {
	Path string // path as it is written
	Name string // name by which the file calls it; empty for the default name
	Line int
	Used []string // names that are taken from it, if the language lists them
}

// Gap is something that was not measured.
type Gap struct {
	Path   string `json:"path,omitempty" jsonschema:"file; absent for the whole project"`
	Field  string `json:"field" jsonschema:"part of the result that lacks it"`
	Reason string `json:"reason" jsonschema:"why it was not measured"`
}

// Of returns the text of a token.
func (f *File) Of(t Token) string { return f.Text[t.Start:t.End] }

// Range is a range of lines of a file.
type Range struct{ First, Last int }

// Tests returns the lines that run only in tests: by the file's path, or by the functions
// around them.
func (f *File) Tests() (all []Range) {
	if IsTest(f.Path) {
		return []Range{{0, math.MaxInt}}
	}
	for i := range f.Funcs {
		if fn := &f.Funcs[i]; fn.Test {
			all = append(all, Range{fn.First, fn.Last})
		}
	}
	return all
}
