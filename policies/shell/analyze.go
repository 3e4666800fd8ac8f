package shell

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// Analyze lists the commands that a bash script runs. Its errors are of the type
// *Error: then the Script has the commands before the place of the error, and the
// rest of the text may run anything. Safe for concurrent use; equal texts give
// equal answers.
func Analyze(text string) (Script, error) {
	var s Script
	if err := guard(text); err != nil {
		return s, err
	}
	r := newReader(&s)
	if fault := r.read(text, place{end: len(text), line: 1}); r.err == nil {
		r.err = fault
	}
	if r.err != nil {
		return s, r.err
	}
	return s, nil
}

// reader reads one script and the texts in it.
type reader struct {
	wordReader

	inherited []Assign // set for all commands of the text by whatever runs it
	depth     int      // texts in texts
	taken     int      // bytes of texts in texts so far
	stmts     []*syntax.Stmt
	rounds    int      // times that the body of the loops around is read
	free      *freedom // of stmts; nil until asked for
	risky     bool     // a text around this one holds what risk looks for
}

func newReader(out *Script) reader {
	return reader{wordReader: wordReader{listing: listing{out: out}}}
}

// wordReader says which words the shell makes of a word of the text.
type wordReader struct {
	listing

	made int // bytes that braces made
}

// listing is what was found so far, and what is known of the text that is read.
type listing struct {
	out *Script
	err *Error

	place        // where the text that is read stands
	text  string // that text
	via   []string
	loops map[string]string // variables of loops whose value is known
}

// place is where in the script a text stands. The text of another command's
// word has one place as a whole.
type place struct {
	start, end, line int
	whole            bool
}

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
		panic("shell: a pool of parsers holds something else")
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

// read reads a text, and returns what is wrong with it.
func (r *reader) read(text string, at place) *Error {
	stmts, fault := parse(&bashParsers, text)
	r.text, r.place, r.stmts, r.free = text, at, stmts, nil
	r.list(stmts)
	return fault
}

// nested reads the text that a command is given, and says why it may run more
// than is listed then. extra are variables that the command sets for it.
func (r *reader) nested(text string, via []string, at place, extra []Assign, sameShell bool) string {
	r.taken += len(text)
	switch {
	case r.taken > maxNested:
		r.stop(TooMany, "its texts in texts are longer than 256 KiB together")
		return "it holds too much text"
	case r.depth >= MaxDepth/2:
		r.stop(TooDeep, "it nests texts in texts too deeply")
		return "it nests too deeply"
	}
	if err := guard(text); err != nil {
		return "the text that it is given cannot be read: " + err.Why
	}
	inner := newReader(r.out)
	inner.via, inner.inherited, inner.risky = via, extra, r.risk()
	inner.depth, inner.taken, inner.made = r.depth+1, r.taken, r.made
	fault := inner.read(text, place{start: at.start, end: at.end, line: at.line, whole: true})
	r.taken, r.made = inner.taken, inner.made
	if inner.err != nil && r.err == nil {
		r.err = inner.err
	}
	if sameShell {
		r.loops = nil // it may have set them
	}
	if fault != nil {
		return "the text that it is given cannot be read: " + fault.Why
	}
	return ""
}

// stop ends the reading of the script.
func (r *listing) stop(kind Kind, why string) {
	if r.err == nil {
		r.err = &Error{Kind: kind, Offset: r.start, Why: why}
	}
}

// sets notes a variable that is set for what follows, in whatever way, and is
// why that makes the script opaque, or "". The name may have a subscript, and is
// "" where it is not known.
func (r *listing) sets(name string, value Word) (why string) {
	name, _, _ = strings.Cut(name, "[")
	if !local(name) {
		r.exports(name)
	}
	return r.affects(name, EffectOf(name, value))
}

// affects notes what a variable changes that is set for what follows.
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

// setsAt is sets for what stands between two positions of the text.
func (r *listing) setsAt(name string, value Word, from, to int, line uint) {
	if why := r.sets(name, value); why != "" {
		r.opaque(why, from, to, line)
	}
}

// exports notes a variable that programs will see, whatever its name.
func (r *listing) exports(name string) {
	if !slices.Contains(r.out.Sets, name) {
		r.out.Sets = append(r.out.Sets, name)
	}
}

// unknown is a value that is only known when the script runs.
var unknown = Word{Certainty: Any}

// local reports whether only the shell sees a variable of that name unless it
// is exported: by custom, one of small letters. Those of proxies and of npm are
// the exceptions.
func local(name string) bool {
	return name != "" && strings.ToLower(name) == name && !strings.Contains(name, "proxy") && !strings.HasPrefix(name, "npm_")
}

// at is the place of what stands between two positions of the text.
func (r *listing) at(from, to int, line uint) place {
	if r.whole {
		return r.place
	}
	from = min(max(from, 0), len(r.text))
	return place{start: from, end: min(max(to, from), len(r.text)), line: int(line)}
}

// emit adds a command and returns its index, or -1 if the reading has ended.
func (r *listing) emit(c Command, at place) int {
	if r.err != nil {
		return -1
	}
	if len(r.out.Commands) == MaxCommands {
		r.err = &Error{Kind: TooMany, Offset: at.start, Why: "it holds more than 1000 commands"}
		return -1
	}
	c.Start, c.End, c.Line = at.start, at.end, at.line
	if len(r.loops) > 0 {
		same := func(o Command) bool {
			return o.Start == c.Start && o.End == c.End && reflect.DeepEqual(o.Words, c.Words)
		}
		if i := slices.IndexFunc(r.out.Commands, same); i >= 0 {
			return i // as in the round before
		}
	}
	r.out.Commands = append(r.out.Commands, c)
	return len(r.out.Commands) - 1
}

// opaque notes that something at a place may run commands that are not listed.
func (r *listing) opaque(why string, from, to int, line uint) {
	text := ""
	if from >= 0 && to <= len(r.text) && from <= to {
		text = strings.TrimSpace(r.text[from:to])
	}
	r.emit(Command{Words: []Word{{Certainty: Any}}, Via: r.via, Opaque: why, Text: text}, r.at(from, to, line))
}
