package template

import (
	"fmt"
	"strings"
	"text/template/parse"
)

// filling is a text that is being filled in.
type filling struct {
	b      strings.Builder
	params map[string]any // values are strings and booleans
}

// fill returns a text in the language of text/template, with the parameters in their
// places. It supports only what the texts of this package use: a parameter, slice of a
// parameter, dot, if, with and else. Anything else is an error, and so is a missing
// parameter.
//
// Only the parser comes from the library. The execution of text/template can call any
// method of any value by its name, so the linker would keep every method of every type of
// the whole program (TestNoMethodIsCalledByName of the house).
func fill(name, text string, params map[string]any) (string, error) {
	trees, err := parse.Parse(name, text, "", "", map[string]any{"slice": true})
	if err != nil {
		return "", fmt.Errorf("parse: %w", err)
	}
	if len(trees) != 1 {
		return "", fmt.Errorf("%s defines other templates", name)
	}
	f := filling{params: params}
	if err := f.list(trees[name].Root, nil); err != nil {
		return "", fmt.Errorf("generate %s: %w", name, err)
	}
	return f.b.String(), nil
}

// list writes nodes one after the other. dot is the value of {{.}}.
func (f *filling) list(l *parse.ListNode, dot any) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := f.node(n, dot); err != nil {
			return err
		}
	}
	return nil
}

func (f *filling) node(n parse.Node, dot any) error {
	switch n := n.(type) {
	case *parse.TextNode:
		f.b.Write(n.Text)
		return nil
	case *parse.ActionNode:
		v, err := f.value(n.Pipe, dot)
		if err == nil {
			fmt.Fprint(&f.b, v)
		}
		return err
	case *parse.IfNode:
		return f.branch(&n.BranchNode, dot, false)
	case *parse.WithNode:
		return f.branch(&n.BranchNode, dot, true)
	default:
		return fmt.Errorf("%s is not supported in templates", n)
	}
}

// branch writes the first list if the value is true or a text that is not empty, and the
// second list otherwise.
func (f *filling) branch(n *parse.BranchNode, dot any, with bool) error {
	v, err := f.value(n.Pipe, dot)
	switch {
	case err != nil:
		return err
	case v == "" || v == false:
		return f.list(n.ElseList, dot)
	case with:
		dot = v
	}
	return f.list(n.List, dot)
}

// value returns the value of an action.
func (f *filling) value(p *parse.PipeNode, dot any) (any, error) {
	if len(p.Decl) == 0 && len(p.Cmds) == 1 {
		switch args := p.Cmds[0].Args; len(args) {
		case 1:
			if args[0].Type() == parse.NodeDot && dot != nil {
				return dot, nil
			}
			return f.parameter(args[0])
		case 3:
			if args[0].String() == "slice" {
				return f.slice(args)
			}
		}
	}
	return nil, fmt.Errorf("%s is not supported in templates", p)
}

func (f *filling) parameter(n parse.Node) (any, error) {
	field, ok := n.(*parse.FieldNode)
	if !ok || len(field.Ident) != 1 {
		return nil, fmt.Errorf("%s is not a parameter", n)
	}
	v, ok := f.params[field.Ident[0]]
	switch v.(type) {
	case string, bool:
		return v, nil
	}
	if ok {
		return nil, fmt.Errorf("the parameter %s is neither a text nor a boolean", field.Ident[0])
	}
	return nil, fmt.Errorf("the parameter %s is missing", field.Ident[0])
}

// slice returns a text without its first bytes: {{slice .package 1}}.
func (f *filling) slice(args []parse.Node) (any, error) {
	v, err := f.parameter(args[1])
	if err != nil {
		return nil, err
	}
	text, isText := v.(string)
	from, isNumber := args[2].(*parse.NumberNode)
	if !isText || !isNumber || !from.IsUint || from.Uint64 > uint64(len(text)) {
		return nil, fmt.Errorf("%v cannot be applied to %q", args, v)
	}
	return text[from.Uint64:], nil
}
