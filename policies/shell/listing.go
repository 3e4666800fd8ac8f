package shell

import (
	"reflect"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// reader reads one script and the texts in it.
type reader struct {
	wordReader

	inherited []Assign // variables that the starting program sets for all commands of the text
	depth     int      // nesting depth of texts in texts
	taken     int      // bytes of nested texts so far
	stmts     []*syntax.Stmt
	rounds    int      // how often the body of the enclosing loops is read
	free      *freedom // freedom of stmts; nil until it is needed
	risky     bool     // an enclosing text contains what risk looks for
}

func newReader(out *Script) reader {
	return reader{wordReader: wordReader{listing: listing{out: out}}}
}

// wordReader finds the words into which the shell changes a word of the text.
type wordReader struct {
	listing

	made int // bytes of the words that braces have made
}

// listing contains what was found so far, and what is known about the text that is read.
type listing struct {
	out *Script
	err *Error

	place        // place of the text that is read
	text  string // the text that is read
	via   []string
	loops map[string]string // values of loop variables that are known
}

// place is the place of a text in the script. The text in a word of another command has
// only one place, as a whole.
type place struct {
	start, end, line int
	whole            bool
}

// stop ends the reading of the script.
func (r *listing) stop(kind Kind, why string) {
	if r.err == nil {
		r.err = &Error{Kind: kind, Offset: r.start, Why: why}
	}
}

// emit adds a command and returns its index, or -1 if the reading has ended.
func (r *listing) emit(c Command, at place) int {
	if r.err != nil {
		return -1
	}
	if len(r.out.Commands) == MaxCommands {
		r.err = &Error{Kind: TooMany, Offset: at.start, Why: "it contains more than 1000 commands"}
		return -1
	}
	c.Start, c.End, c.Line = at.start, at.end, at.line
	if len(r.loops) > 0 {
		same := func(o Command) bool {
			return o.Start == c.Start && o.End == c.End && reflect.DeepEqual(o.Words, c.Words)
		}
		if i := slices.IndexFunc(r.out.Commands, same); i >= 0 {
			return i // the same command was found in the round before
		}
	}
	r.out.Commands = append(r.out.Commands, c)
	return len(r.out.Commands) - 1
}

// opaque adds an opaque command: something at a place may run commands that are not listed.
func (r *listing) opaque(why string, from, to int, line uint) {
	text := ""
	if from >= 0 && to <= len(r.text) && from <= to {
		text = strings.TrimSpace(r.text[from:to])
	}
	r.emit(Command{Words: []Word{{Certainty: Any}}, Via: r.via, Opaque: why, Text: text}, r.at(from, to, line))
}

// at returns the place of the text between two positions.
func (r *listing) at(from, to int, line uint) place {
	if r.whole {
		return r.place
	}
	from = min(max(from, 0), len(r.text))
	return place{start: from, end: min(max(to, from), len(r.text)), line: int(line)}
}

func (r *listing) slice(from, to int) string {
	if from < 0 || to > len(r.text) || from > to {
		return ""
	}
	return strings.TrimSpace(r.text[from:to])
}

// sets records a variable that is set for the following commands, in whatever way. It
// returns why that makes the script opaque, or "". name may have a subscript, and is "" if
// it is not known.
func (r *listing) sets(name string, value Word) (why string) {
	name, _, _ = strings.Cut(name, "[")
	if !local(name) {
		r.exports(name)
	}
	return r.affects(name, EffectOf(name, value))
}

// affects records the effect of a variable that is set for the following commands. It
// returns why that makes the script opaque, or "".
func (r *listing) affects(name string, e Effect) (why string) {
	switch e {
	case HoldsCode:
		if name == "" {
			return "it sets a variable whose name is only known when it runs, and may be one whose text the shell runs"
		}
		return "it sets " + name + ", whose text the shell runs"
	case Sways:
		if !slices.Contains(r.out.Sways, name) {
			r.out.Sways = append(r.out.Sways, name)
		}
	case NoEffect:
	}
	return ""
}

// setsAt does the same as sets, for the text between two positions, and adds an opaque
// command if necessary.
func (r *listing) setsAt(name string, value Word, from, to int, line uint) {
	if why := r.sets(name, value); why != "" {
		r.opaque(why, from, to, line)
	}
}

// exports records a variable that programs can see, whatever its name is.
func (r *listing) exports(name string) {
	if !slices.Contains(r.out.Sets, name) {
		r.out.Sets = append(r.out.Sets, name)
	}
}

// bound returns the value that an enclosing loop gives to a variable.
func (r *listing) bound(p *syntax.ParamExp) (string, bool) {
	if len(r.loops) == 0 || p.Param == nil || p.Excl || p.Length || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 || p.Exp != nil {
		return "", false
	}
	v, ok := r.loops[p.Param.Value]
	return v, ok
}

// unknown is a value that is only known when the script runs.
var unknown = Word{Certainty: Any}

// local reports whether only the shell sees a variable with that name unless it is
// exported. By custom, these are names in lower case, except the variables of proxies
// and of npm.
func local(name string) bool {
	return name != "" && strings.ToLower(name) == name && !strings.Contains(name, "proxy") && !strings.HasPrefix(name, "npm_")
}
