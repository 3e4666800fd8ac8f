// Package lex makes a [code.File] of a text: its tokens, lines, functions, types and
// imports, and the metrics of its functions.
//
// Go is read by the standard library's parser, and a shell script by a parser, too.
// Each of the other languages has a lexer of its own that knows tokens, brackets or
// indentation, and what begins a function, but no grammar: it takes time in proportion
// to the text, whatever the text is, and measures the part of a broken file that it
// understands. The generic lexer reads all other texts: comments, strings, names and
// numbers, and no functions.
//
// The files, each calling those below it:
//
//	lex.go          makes a file of a text: limits, and the lexer of each language
//	golang.go       Go
//	goself.go       Go: which calls are of the function itself
//	golex.go        Go: tokens
//	gofunc.go       the metrics and the calls of a function in Go
//	python.go       Python: lines, and the headers of blocks
//	pydef.go        Python: functions, classes, variables, imports
//	pyexpr.go       Python: expressions and calls
//	pyblock.go      Python: the blocks that are open, and the counts of their functions
//	pylex.go        Python: tokens
//	shell.go        shell scripts
//	rust.go         Rust
//	rustdecl.go     Rust: functions, types, modules and imports
//	ruststack.go    Rust: the constructs that are open
//	rustsplit.go    Rust: tokens
//	script.go       TypeScript and JavaScript: statements and expressions
//	scriptoperator.go
//	                their operators
//	scriptdecl.go   their functions, classes, types and imports
//	scriptstack.go  the constructs of a script that are open
//	scripttype.go   where the types of TypeScript end
//	scriptsplit.go  the tokens of scripts, of templates and of JSX
//	clang.go        C and C++: declarations
//	cheader.go      C and C++: where the parts of a declaration end
//	csplit.go       the tokens of C and C++, and the branches of #if
//	java.go         Java
//	flow.go         the statements of C, C++ and Java
//	braces.go       shared by the readers of languages with braces: items, brackets
//	generic.go      texts of other languages
//	halstead.go     the operators and operands of functions
//	lines.go        the lines of a file
//	scan.go         used by all lexers: names, numbers, line numbers, gaps
package lex
