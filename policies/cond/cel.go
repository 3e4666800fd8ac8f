package cond

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// variables returns the variables of a condition except args, whose type depends on the
// tool.
func variables() map[string]*cel.Type {
	texts := cel.ListType(cel.StringType)
	return map[string]*cel.Type{
		"tool": cel.StringType, "tenant": cel.StringType, "session": cel.StringType, "profile": cel.StringType, "upstream": cel.StringType,
		Commands: cel.ListType(texts), "paths": texts, "urls": texts, "hosts": texts,
		"annotations": cel.MapType(cel.StringType, cel.BoolType), Now: cel.TimestampType,
	}
}

// bounds returns the options that all languages of conditions have.
func bounds() []cel.EnvOption {
	return []cel.EnvOption{
		cel.ParserExpressionSizeLimit(MaxText),
		cel.ParserRecursionLimit(maxDepth),
		cel.ExpressionNodeLimit(maxNodes),
		cel.RegexProgramSizeLimit(maxRegex),
		cel.CrossTypeNumericComparisons(true), // numbers of JSON are doubles
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	}
}

// base is the language without args. It is made at the first use: a program
// without conditions must not pay for it.
var base = sync.OnceValues(func() (*cel.Env, error) {
	options := bounds()
	for name, t := range variables() {
		options = append(options, cel.Variable(name, t))
	}
	return cel.NewEnv(options...)
})

// language is the language with the arguments of a tool.
func language(a Args) (*cel.Env, error) {
	env, err := base()
	if err != nil {
		return nil, err
	}
	if a == nil {
		return env.Extend(cel.Variable(args, cel.MapType(cel.StringType, cel.DynType)))
	}
	return env.Extend(
		cel.CustomTypeProvider(provider{Provider: env.CELTypeProvider(), args: a}),
		cel.Variable(args, cel.ObjectType(argsType)),
	)
}

// Compile reads a condition that may look at the arguments a. It returns the Condition, or
// all faults of the text.
func Compile(text string, a Args) (Condition, []Fault) {
	if len(text) > MaxText {
		return nil, []Fault{{Line: 1, Col: 1, Message: fmt.Sprintf("has %d bytes, more than %d", len(text), MaxText), Hint: "make several rules of it"}}
	}
	env, err := language(a)
	if err != nil {
		return nil, []Fault{{Line: 1, Col: 1, Message: err.Error()}}
	}
	tree, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, faults(issues, a)
	}
	c := &condition{text: text, uses: make(map[string]bool)}
	if wrong := c.walk(tree.NativeRep()); len(wrong) > 0 {
		return nil, wrong
	}
	var wrong []Fault
	c.program, wrong = newProgram(env, tree, "args.wait_ms > 0")
	if len(wrong) > 0 {
		return nil, wrong
	}
	return c, nil
}

// newProgram makes the program of a condition, or returns its faults. example is a
// condition that the hint shows if the result is not true or false.
func newProgram(env *cel.Env, tree *cel.Ast, example string) (cel.Program, []Fault) {
	if t := tree.OutputType(); !t.IsEquivalentType(cel.BoolType) && !t.IsEquivalentType(cel.DynType) {
		return nil, []Fault{{Line: 1, Col: 1, Message: fmt.Sprintf("is of the type %s, and a condition is true or false", t), Hint: "compare it with something, as in " + example}}
	}
	p, err := env.Program(tree, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost))
	if err != nil {
		return nil, []Fault{{Line: 1, Col: 1, Message: err.Error()}}
	}
	return p, nil
}

// holds evaluates the program of a condition. CEL turns panics of its own into errors.
func holds(p cel.Program, variables any) (bool, error) {
	v, _, err := p.Eval(variables)
	if err != nil {
		return false, errors.New(oneLine(err.Error()))
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("its value is a %s, and not true or false", v.Type().TypeName())
	}
	return bool(b), nil
}

// condition makes a program of CEL a Condition.
type condition struct {
	text    string
	program cel.Program
	uses    map[string]bool
}

func (c *condition) String() string            { return c.text }
func (c *condition) Uses(variable string) bool { return c.uses[variable] }

// Holds evaluates the condition.
func (c *condition) Holds(in *Input) (bool, error) {
	if c.uses[Now] && in.Now.IsZero() {
		return false, errors.New("it looks at the time, which is not known")
	}
	return holds(c.program, &activation{in})
}

// activation gives CEL the variables of an Input that CEL needs.
type activation struct{ in *Input }

func (a *activation) Parent() cel.Activation { return nil }

func (a *activation) ResolveName(name string) (any, bool) {
	in := a.in
	switch name {
	case "tool":
		return in.Tool, true
	case "tenant":
		return in.Tenant, true
	case "session":
		return in.Session, true
	case "profile":
		return in.Profile, true
	case "upstream":
		return in.Upstream, true
	case args:
		if in.Args == nil {
			return map[string]any{}, true
		}
		return in.Args, true
	case Commands:
		if in.Commands == nil {
			return [][]string{}, true
		}
		return in.Commands(), true
	case "paths":
		return in.Paths, true
	case "urls":
		return in.URLs, true
	case "hosts":
		return in.Hosts, true
	case "annotations":
		return in.Annotations, true
	case Now:
		return in.Now, true
	}
	return nil, false
}

// walk notes which variables a condition reads. It refuses two things that CEL
// accepts: a regular expression that comes with the call, because an attacker can
// write one that takes long, and the construction of objects, because the input
// has nothing to compare them with.
func (c *condition) walk(tree *ast.AST) []Fault {
	var wrong []Fault
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() { //nolint:exhaustive // the walk goes into all other kinds, which need no check
		case ast.IdentKind:
			c.uses[e.AsIdent()] = true
		case ast.StructKind:
			at := tree.SourceInfo().GetStartLocation(e.ID())
			wrong = append(wrong, Fault{Line: at.Line(), Col: at.Column() + 1, Message: "a condition cannot make objects", Hint: "compare the fields one by one"})
		case ast.CallKind:
			call := e.AsCall()
			if call.FunctionName() != "matches" {
				return
			}
			if pattern := call.Args()[len(call.Args())-1]; pattern.Kind() != ast.LiteralKind {
				at := tree.SourceInfo().GetStartLocation(pattern.ID())
				wrong = append(wrong, Fault{Line: at.Line(), Col: at.Column() + 1, Message: "matches takes a regular expression that is written here, not one that is computed", Hint: `write it in quotes; to look for a text use contains`})
			}
		default:
		}
	}))
	return wrong
}

var (
	noField    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^undefined field '([^']*)'$`) })
	noVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^undeclared reference to '([^']*)'`) })
	notRead    = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^Syntax error: (?:mismatched input|extraneous input|no viable alternative at input|token recognition error at:) ' ?(.*?) ?'(?: expecting .*)?$`)
	})
	noOverload = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
	})
)

// faults returns the messages of the compiler in the words of policies.
func faults(issues *cel.Issues, a Args) []Fault {
	var all []Fault
	for _, e := range issues.Errors() {
		f := Fault{Line: max(e.Location.Line(), 1), Col: max(e.Location.Column(), 0) + 1, Message: oneLine(e.Message)}
		if m := noField().FindStringSubmatch(f.Message); m != nil {
			f.Message, f.Name, f.Known = fmt.Sprintf("the tool has no argument %q", m[1]), m[1], a.names()
			f.Col++ // after the dot
		} else if m := noVariable().FindStringSubmatch(f.Message); m != nil {
			f.Message, f.Name, f.Known = fmt.Sprintf("%q does not exist", m[1]), m[1], known()
		} else if m := noOverload().FindStringSubmatch(f.Message); m != nil {
			f.Message = fmt.Sprintf("%s cannot be applied to %s", operator(m[1]), m[2])
		} else if m := notRead().FindStringSubmatch(f.Message); m != nil {
			f.Message, f.Hint = fmt.Sprintf("%q is not expected here", m[1]), instead[m[1]]
			if m[1] == "<EOF>" {
				f.Message = "ends where more is expected"
			}
		}
		all = append(all, f)
	}
	return all
}

// instead contains the hints for operators of other languages.
var instead = map[string]string{"and": "write &&", "or": "write ||", "not": "write !", "=": "write =="}

// known returns the names of the variables, in order.
func known() []string {
	all := []string{args}
	for name := range variables() {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// operator returns how an operator is written.
func operator(name string) string {
	if shown, ok := operators.FindReverse(name); ok && shown != "" {
		return shown
	}
	return name
}

// oneLine returns a message of CEL without its excerpt of the text.
func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.TrimSpace(s)
}
