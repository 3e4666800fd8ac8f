package code

import "math"

// File is what was read of one source file. It is not changed once it is made.
type File struct {
	Path     string // from the project's directory, with slashes
	Language Language
	Text     string
	Tokens   []Token // all of the text but blanks, in its order
	Lines    Lines
	Funcs    []Func // in the order of their first lines; what is nested follows what holds it
	Types    []Symbol
	Vars     []Symbol // constants and variables outside functions
	Imports  []Import
	Gaps     []Gap // what of this file could not be measured
	Counted  bool  // the functions have their Halstead
}

// Lines counts the lines of a file. A line with code and a comment is one of code.
type Lines struct{ Code, Comment, Blank int }

// Kind is what a [Token] is.
type Kind uint8

// The kinds of tokens.
const (
	Operator Kind = iota // also brackets and separators
	Name                 // an identifier
	Keyword              // a word that the language keeps for itself
	Number
	String // with its quotes; of one with expressions in it, each piece of text
	Comment
	Newline // where a line's end has a meaning: Python
	Indent  // Python; empty
	Dedent  // Python; empty
)

// Token is a piece of a text: Text[Start:End].
type Token struct {
	Start, End int32
	Line       int32 // of Start, from 1
	Kind       Kind
}

// Symbol is something that a file declares.
type Symbol struct {
	Name     string // as it is declared
	Owner    string // the type or the namespace that holds it; empty at the top
	Kind     string // the language's word: struct, class, trait, const, ...
	Line     int    // of its name
	First    int    // its first line, without comments and attributes before it
	Last     int    // its last line
	Exported bool   // other files or packages can name it
	Bases    []string
}

// Func is a function or a method with a body.
type Func struct {
	Symbol

	Label      string // as a person calls it: Owner.Name, or what the language's tools print
	Start, End int    // its tokens: File.Tokens[Start:End]
	Params     int
	Nesting    int      // of its blocks, at most
	Cyclomatic int      // McCabe's number, 1 without a branch
	Cognitive  int      // as SonarSource's paper on cognitive complexity counts
	Halstead   Halstead // zero until it is counted
	Calls      []Call
	Test       bool // runs only in tests
}

// Call is a call in a function.
type Call struct {
	Name  string // what is called, without what stands before a dot
	Of    string // what stands before the dot: a package, a type, a variable; empty for none
	Line  int
	Token int // index of Name in File.Tokens
}

// Halstead counts the operators and the operands of a function.
type Halstead struct{ Operators, Operands, DistinctOperators, DistinctOperands int }

// Import is a place from which a file takes names.
type Import struct {
	Path string // as it is written
	Name string // by which the file calls it; empty for the usual one
	Line int
	Used []string // names that are taken from it, where the language lists them
}

// Gap is something that was not measured.
type Gap struct {
	Path   string `json:"path,omitempty" jsonschema:"file; absent for the whole project"`
	Field  string `json:"field" jsonschema:"part of the result that lacks it"`
	Reason string `json:"reason" jsonschema:"why it was not measured"`
}

// Of returns the text of a token.
func (f *File) Of(t Token) string { return f.Text[t.Start:t.End] }

// Range is lines of a file.
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
