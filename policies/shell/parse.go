package shell

import (
	"errors"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// The parsers are kept: making a new one costs more than reading a short command. Each
// parser contains the state of one text, so goroutines do not share one.
var (
	bashParsers  = sync.Pool{New: func() any { return &parser{p: syntax.NewParser(syntax.Variant(syntax.LangBash))} }}
	posixParsers = sync.Pool{New: func() any { return &parser{p: syntax.NewParser(syntax.Variant(syntax.LangPOSIX))} }}
)

type parser struct {
	p   *syntax.Parser
	src shallow
}

// parse returns the statements of a text. For a text with a fault it returns those before
// the fault.
func parse(pool *sync.Pool, text string) ([]*syntax.Stmt, *Error) {
	p, ok := pool.Get().(*parser)
	if !ok {
		panic("shell: a pool of parsers contains something else")
	}
	defer pool.Put(p)
	p.src.reset(text)
	var stmts []*syntax.Stmt
	var fault *Error
	for stmt, err := range p.p.StmtsSeq(&p.src) {
		// StmtsSeq does not stop at a break of the loop after an error.
		switch {
		case fault != nil:
		case err == nil:
			stmts = append(stmts, stmt)
		case errors.Is(err, errDeep):
			fault = deep(len(text))
		default:
			fault = syntaxError(err)
		}
	}
	p.src.reset("")
	return stmts, fault
}

// syntaxError makes an Error of the parser's error.
func syntaxError(err error) *Error {
	e := &Error{Kind: Syntax, Why: "it is not bash"}
	var parse syntax.ParseError
	var lang syntax.LangError
	switch {
	case errors.As(err, &parse):
		// The parser writes foo for any name; readers would not find that name in their
		// script.
		said := strings.NewReplacer("`", "'", "foo(", "NAME(").Replace(parse.Text)
		e.Offset, e.Why = offset(parse.Pos), "bash cannot read it: "+said
	case errors.As(err, &lang):
		e.Offset, e.Why = offset(lang.Pos), "it uses what bash does not know: "+lang.Feature
	}
	return e
}

func offset(p syntax.Pos) int { return int(p.Offset()) }

// dialect returns why another shell than bash may read a text differently, or "": for dash
// ((x)) is two subshells, and &> sends a command to the background.
func dialect(text string) string {
	const why = "a shell other than bash reads its text differently"
	for _, mark := range []string{"((", "[[", "$'", "$\"", "&>", ">&", "|&", "<<<", "<(", ">(", "$[", "{", "coproc", "select", "function", "time", "let", "declare", "+="} {
		if strings.Contains(text, mark) {
			return why
		}
	}
	if _, fault := parse(&posixParsers, text); fault != nil {
		return why
	}
	return ""
}
