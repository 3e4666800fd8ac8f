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
	src shallow // the text, for p
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
		switch {
		case fault != nil: // no break: StmtsSeq can yield again after an error, and would panic
		case err == nil:
			stmts = append(stmts, stmt)
		case errors.Is(err, errDeep):
			fault = deep(p.src.at) // the place is in the last kilobyte before this
		default:
			fault = syntaxError(err)
		}
	}
	p.src.reset("") // the pool must not keep the text
	return stmts, fault
}

// syntaxError makes an Error of the parser's error.
func syntaxError(err error) *Error {
	e := &Error{Kind: Syntax, Why: "it is not bash"}
	var unread syntax.ParseError
	var lang syntax.LangError
	switch {
	case errors.As(err, &unread):
		// The parser calls every function foo; readers would not find that name in their
		// script.
		said := strings.NewReplacer("`", "'", "foo(", "NAME(").Replace(unread.Text)
		e.Offset, e.Why = offset(unread.Pos), "bash cannot read it: "+said
	case errors.As(err, &lang):
		e.Offset, e.Why = offset(lang.Pos), "it uses what bash does not know: "+lang.Feature
	}
	return e
}

func offset(p syntax.Pos) int { return int(p.Offset()) }

// dialect returns why a shell other than bash may read a text differently, or "". For
// example, dash reads ((x)) as two subshells, and the & of &> as the end of a command that
// runs in the background.
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
