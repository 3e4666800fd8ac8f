package shell

import (
	"errors"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// The parsers are kept: a new one costs more than a short command's reading.
// Each is a machine with a text of its own in it, so no two goroutines share one.
var (
	bashParsers  = sync.Pool{New: func() any { return &parser{p: syntax.NewParser(syntax.Variant(syntax.LangBash))} }}
	posixParsers = sync.Pool{New: func() any { return &parser{p: syntax.NewParser(syntax.Variant(syntax.LangPOSIX))} }}
)

type parser struct {
	p   *syntax.Parser
	src shallow
}

// parse reads a text, and what it could read of one that is wrong.
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
		// StmtsSeq does not stop at a break after an error.
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

// syntaxError makes an Error of what the parser says.
func syntaxError(err error) *Error {
	e := &Error{Kind: Syntax, Why: "it is not bash"}
	var parse syntax.ParseError
	var lang syntax.LangError
	switch {
	case errors.As(err, &parse):
		// The parser writes foo for any name; readers would look for it in vain.
		said := strings.NewReplacer("`", "'", "foo(", "NAME(").Replace(parse.Text)
		e.Offset, e.Why = offset(parse.Pos), "bash cannot read it: "+said
	case errors.As(err, &lang):
		e.Offset, e.Why = offset(lang.Pos), "it uses what bash does not know: "+lang.Feature
	}
	return e
}

func offset(p syntax.Pos) int { return int(p.Offset()) }

// dialect says why another shell than bash may read a text otherwise, or "":
// to dash ((x)) is two subshells, and &> sends a command to the background.
func dialect(text string) string {
	const why = "another shell than bash reads its text otherwise"
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
