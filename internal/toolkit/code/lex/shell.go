package lex

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
)

// Limits of what the shell's parser gets. The parser calls itself for each level of
// nesting, and has no limit of its own.
const (
	maxScript   = 64 << 10 // bytes
	maxBrackets = 64       // brackets nested in each other
)

// parseShell reads a shell script with a parser of bash: its functions and what they call,
// without metrics. For a script that is too long, too deeply nested or not bash, it makes
// only tokens.
func parseShell(f *code.File) {
	why := guard(f.Text)
	var tree *syntax.File
	if why == "" {
		tree, why = parsedShell(f)
	}
	if why != "" {
		f.Tokens = generic(f.Text, &code.Plain{Line: []string{"#"}, Spaced: true, Quotes: `"'`})
		gap(f, "functions", why)
		return
	}
	s := &shFile{f: f}
	f.Tokens = s.tokens(tree)
	s.functions(tree)
}

// guard returns why the parser must not get a text, or "" if it may.
func guard(text string) string {
	if len(text) > maxScript {
		return "longer than 64 KiB, the most that is read of a shell script"
	}
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{':
			if depth++; depth > maxBrackets {
				return "brackets more than 64 levels deep"
			}
		case ')', '}':
			depth = max(depth-1, 0)
		}
	}
	return ""
}

// parsedShell returns the syntax tree of a script. If it cannot, it returns the reason.
func parsedShell(f *code.File) (*syntax.File, string) {
	variant := syntax.LangBash
	switch path.Ext(f.Path) {
	case ".bats":
		variant = syntax.LangBats
	case ".ksh":
		variant = syntax.LangMirBSDKorn
	}
	tree, err := syntax.NewParser(syntax.Variant(variant), syntax.KeepComments(true)).Parse(strings.NewReader(f.Text), "")
	var parse syntax.ParseError
	var lang syntax.LangError
	switch {
	case errors.As(err, &parse):
		return nil, "not valid bash: line " + strconv.Itoa(int(parse.Pos.Line())) + ": " + parse.Text
	case errors.As(err, &lang):
		return nil, "not valid bash: line " + strconv.Itoa(int(lang.Pos.Line())) + ": " + lang.Feature
	case err != nil:
		return nil, "not valid bash: " + err.Error()
	}
	return tree, ""
}

// shFile reads the syntax tree of a script.
type shFile struct{ f *code.File }

// mark is a comment or a string, with the ends that the parser reports.
type mark struct {
	span

	kind code.Kind
}

// tokens returns the tokens of a script: comments, quotes and here-documents as the parser
// found them, and words and operators for the text between them.
func (s *shFile) tokens(tree *syntax.File) []code.Token {
	var marks []mark
	add := func(n syntax.Node, kind code.Kind) {
		m := mark{span{s.offset(n.Pos()), s.offset(n.End())}, kind}
		if m.start < m.end {
			marks = append(marks, m)
		}
	}
	syntax.Walk(tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Comment:
			add(n, code.Comment)
		case *syntax.SglQuoted, *syntax.DblQuoted:
			add(n, code.String)
			return false
		case *syntax.Redirect:
			if n.Hdoc != nil {
				add(n.Hdoc, code.String)
			}
		}
		return true
	})
	order.By(marks, func(a, b *mark) int { return a.start - b.start })
	t := newTokenizer(s.f.Text)
	for _, m := range append(marks, mark{span{len(s.f.Text), len(s.f.Text)}, code.Comment}) {
		if m.start < t.at {
			continue // it lies within another mark
		}
		plain(t, m.start)
		if m.end > t.at {
			t.take(m.kind, m.end)
		}
	}
	return t.done()
}

// plain makes tokens of the names, numbers and operators up to an offset.
func plain(t *tokenizer, end int) {
	for t.at < end {
		c := t.text[t.at]
		switch {
		case isBlank(c):
			t.to(t.at + 1)
		case startsName(c):
			stop := min(t.name(t.at), end)
			kind := code.Name
			if isShellKeyword(t.text[t.at:stop]) {
				kind = code.Keyword
			}
			t.take(kind, stop)
		case isDigit(c):
			t.take(code.Number, min(t.number(t.at), end))
		default:
			t.take(code.Operator, t.at+1)
		}
	}
}

func isShellKeyword(word string) bool {
	switch word {
	case "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "function", "select", "time", "coproc":
		return true
	}
	return false
}

// offset returns the offset of a position in the text.
func (s *shFile) offset(p syntax.Pos) int {
	return min(int(p.Offset()), len(s.f.Text))
}

// token returns the index of the first token at or after an offset.
func (s *shFile) token(at int) int {
	i, _ := slices.BinarySearchFunc(s.f.Tokens, at, func(t code.Token, at int) int { return int(t.Start) - at })
	return i
}

// functions adds the functions of a script, the commands that each of them calls, and the
// scripts that the script reads.
func (s *shFile) functions(tree *syntax.File) {
	var open []int // indexes in File.Funcs of the functions that are open
	var nodes []bool
	syntax.Walk(tree, func(n syntax.Node) bool {
		if n == nil {
			if nodes[len(nodes)-1] {
				open = open[:len(open)-1]
			}
			nodes = nodes[:len(nodes)-1]
			return true
		}
		began := false
		switch n := n.(type) {
		case *syntax.FuncDecl:
			if n.Name != nil && len(open) < MaxFuncDepth {
				open = append(open, len(s.f.Funcs))
				s.f.Funcs = append(s.f.Funcs, s.function(n))
				began = true
			}
		case *syntax.CallExpr:
			s.call(n, open)
		}
		nodes = append(nodes, began)
		return true
	})
}

func (s *shFile) function(n *syntax.FuncDecl) code.Func {
	line := func(p syntax.Pos) int { return int(p.Line()) }
	return code.Func{
		Symbol: code.Symbol{
			Name:     n.Name.Value,
			Kind:     "function",
			Line:     line(n.Name.Pos()),
			First:    line(n.Pos()),
			Last:     line(n.End()),
			Exported: true,
		},
		Label: n.Name.Value,
		Start: s.token(s.offset(n.Pos())),
		End:   s.token(s.offset(n.End())),
		Test:  path.Ext(s.f.Path) == ".bats",
	}
}

// call adds a command to the innermost function if the command's name is written literally.
func (s *shFile) call(n *syntax.CallExpr, open []int) {
	if len(n.Args) == 0 {
		return
	}
	name := n.Args[0].Lit()
	if (name == "source" || name == ".") && len(n.Args) > 1 {
		if from := n.Args[1].Lit(); from != "" {
			s.f.Imports = append(s.f.Imports, code.Import{Path: from, Line: int(n.Args[1].Pos().Line())})
		}
	}
	at := s.token(s.offset(n.Pos()))
	if len(open) == 0 || at >= len(s.f.Tokens) || s.f.Of(s.f.Tokens[at]) != name {
		return // the name has several tokens, such as a path or a name with a dash
	}
	fn := &s.f.Funcs[open[len(open)-1]]
	fn.Calls = append(fn.Calls, code.Call{Name: name, Line: int(s.f.Tokens[at].Line), Token: at})
}
