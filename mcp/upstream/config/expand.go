package config

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Lookup finds the values that the texts of a file may refer to. A nil function finds no
// value, and an empty directory does not exist.
//
// The caller decides which values an entry may get: for a file that agents can write,
// Variable must return only variables that a person has agreed to (see References).
type Lookup struct {
	Variable  func(name string) (string, bool) // value of a variable in the operator's environment
	Input     func(id string) (string, bool)   // answer to an input; not called for passwords
	Secret    func(name string) bool           // reports whether a secret exists
	Workspace string                           // value of ${workspaceFolder}
	Home      string                           // value of ~, %USERPROFILE% and ${userHome}
}

// Expand fills in the values that the texts of an entry refer to, and checks the result.
// Secrets stay references. If there is an error among the faults, the returned entry is
// empty and must not be used.
func Expand(e Entry, l Lookup) (Entry, []Fault) {
	x := &expander{report{file: e.Source.File, entry: e.Name}, l, e.Inputs}
	e.Args = slices.Clone(e.Args)
	e.Env = slices.Clone(e.Env)
	e.Headers = slices.Clone(e.Headers)
	if e.Sandbox != nil {
		s := *e.Sandbox
		s.AllowWrite, s.DenyRead, s.DenyWrite = slices.Clone(s.AllowWrite), slices.Clone(s.DenyRead), slices.Clone(s.DenyWrite)
		e.Sandbox = &s
	}
	for what, t := range e.texts() {
		*t = x.text(*t, what)
	}
	for _, t := range []*Text{&e.Command, &e.Cwd, &e.EnvFile} {
		*t = x.home(*t)
	}
	if x.worse {
		return Entry{}, x.sorted()
	}
	x.checkExpanded(&e)
	if x.worse {
		return Entry{}, x.sorted()
	}
	return e, x.sorted()
}

// References returns the references of an entry to values outside its file, sorted, as
// files write them: ${VAR}, ${input:ID}, ${secret:NAME}. A person who is asked about the
// entry should see them, since the server gets their values.
func References(e Entry) []string {
	found := map[string]bool{}
	for _, t := range e.texts() {
		for _, ref := range t.References() {
			found[ref] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// texts returns all texts of an entry, each with its name in faults.
func (e *Entry) texts() iter.Seq2[string, *Text] {
	return func(yield func(string, *Text) bool) {
		type named struct {
			what string
			text *Text
		}
		all := []named{{"command", &e.Command}, {"envFile", &e.EnvFile}, {"cwd", &e.Cwd}, {"url", &e.URL}}
		for i := range e.Args {
			all = append(all, named{fmt.Sprintf("argument %d", i+1), &e.Args[i]})
		}
		for i := range e.Env {
			all = append(all, named{"the variable " + quoted(e.Env[i].Name), &e.Env[i].Value})
		}
		for i := range e.Headers {
			all = append(all, named{"the header " + quoted(e.Headers[i].Name), &e.Headers[i].Value})
		}
		if e.Sandbox != nil {
			for _, paths := range [][]Text{e.Sandbox.AllowWrite, e.Sandbox.DenyRead, e.Sandbox.DenyWrite} {
				for i := range paths {
					all = append(all, named{"a path of the sandbox", &paths[i]})
				}
			}
		}
		for _, n := range all {
			if !yield(n.what, n.text) {
				return
			}
		}
	}
}

type expander struct {
	report
	lookup Lookup
	inputs []Input
}

// text fills in the values that a text refers to.
func (x *expander) text(t Text, what string) Text {
	t.pieces = slices.Clone(t.pieces)
	for i := range t.pieces {
		p := &t.pieces[i]
		if p.known {
			continue
		}
		p.known = true
		switch p.ref {
		case literal:
		case variable:
			x.variable(p, t.at, what)
		case input:
			x.input(p, t.at, what)
		case secret:
			x.secret(p.name, t.at, what)
		case folder:
			x.folder(p, t.at, what)
		}
	}
	return t
}

// variable fills in a variable. As in a shell, a default also stands for an empty value.
func (x *expander) variable(p *piece, at place, what string) {
	value, ok := "", false
	if x.lookup.Variable != nil && !Reserved(p.name) {
		value, ok = x.lookup.Variable(p.name)
	}
	switch {
	case p.hasDefault && value == "":
		value = p.fallback
	case !ok:
		x.wrong(at, "set it for belljar, or write ${"+p.name+":-DEFAULT}", "%s needs the variable %s, which is not set", what, p.name)
	}
	p.text = value
}

func (x *expander) input(p *piece, at place, what string) {
	i := slices.IndexFunc(x.inputs, func(in Input) bool { return in.ID == p.name })
	if i >= 0 && x.inputs[i].Password {
		p.ref = secret
		x.secret(p.name, at, what)
		return
	}
	if x.lookup.Input != nil {
		if answer, ok := x.lookup.Input(p.name); ok {
			p.text = answer
			return
		}
	}
	switch {
	case i < 0:
		x.wrong(at, "declare it in inputs", "%s needs the input %s, which the file does not declare", what, quoted(p.name))
	case x.inputs[i].HasDefault:
		p.text = x.inputs[i].Default
	default:
		x.wrong(at, "answer it in belljar's settings of this server, or give it a default", "%s needs the input %s, which has no answer", what, quoted(p.name))
	}
}

func (x *expander) secret(name string, at place, what string) {
	if x.lookup.Secret == nil || !x.lookup.Secret(name) {
		x.wrong(at, "name it in secrets of this server in the policy: upstreams.servers.NAME.secrets", "%s needs the secret %s, which the policy does not give to this server", what, quoted(name))
	}
}

func (x *expander) folder(p *piece, at place, what string) {
	switch p.name {
	case "workspaceFolder":
		p.text = x.lookup.Workspace
	case "workspaceFolderBasename":
		p.text = x.lookup.Workspace[strings.LastIndexByte(x.lookup.Workspace, '/')+1:]
	case "userHome":
		p.text = x.lookup.Home
	default:
		p.text = "/"
	}
	if p.text == "" {
		x.wrong(at, "write the whole path", "%s needs ${%s}, which does not exist here", what, p.name)
	}
}

// home fills in the home directory if a path begins with ~ or %USERPROFILE%.
func (x *expander) home(t Text) Text {
	if t.Empty() || t.pieces[0].ref != literal {
		return t
	}
	const profile = "%USERPROFILE%"
	first, rest := t.pieces[0].text, ""
	switch {
	case first == "~" && len(t.pieces) == 1, strings.HasPrefix(first, "~/"):
		rest = first[1:]
	case len(first) >= len(profile) && strings.EqualFold(first[:len(profile)], profile):
		rest = strings.ReplaceAll(first[len(profile):], `\`, "/")
	default:
		return t
	}
	if x.lookup.Home == "" {
		x.wrong(t.at, "write the whole path", "a path begins with the home directory, which does not exist here")
	}
	t.pieces = slices.Clone(t.pieces)
	t.pieces[0].text = x.lookup.Home + rest
	return t
}

// checkExpanded checks the expanded texts: the value of a variable or an input may contain
// anything.
func (x *expander) checkExpanded(e *Entry) {
	for what, t := range e.texts() {
		for _, p := range t.pieces {
			if strings.IndexByte(p.text, 0) >= 0 {
				x.wrong(t.at, "", "%s contains a NUL character", what)
			}
		}
	}
	if e.Kind == Stdio {
		if command, plain := e.Command.Plain(); plain && command == "" {
			x.wrong(e.Command.at, "", "the command is empty")
		}
		return
	}
	if e.Kind == HTTP || e.Kind == SSE {
		x.checkURL(e.URL, len(e.Headers) > 0)
		for _, v := range e.Headers {
			x.checkHeaderValue(v)
		}
	}
}
