package policies

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"belljar.dev/policies/shell"
)

// maxParts bounds the parts of a call in addition to the commands of its script.
const maxParts = 1000

// The doubts about a command whose words do not say all that it does.
const (
	doubtWord  = "a word of it is only known when it runs"
	doubtFile  = "it redirects to or from a file"
	doubtEnv   = "it sets a variable"
	doubtCall  = "the call sets variables for it"
	doubtSets  = "the script sets variables for it"
	doubtWhen  = "its condition looks at all commands of the call, and not all of them are known"
	doubtFlags = "it may have an option that the rule looks for"
)

// maxCallEnv bounds the variables that one call sets.
const maxCallEnv = 1000

// envFault returns why no rule can judge a call with these variables, or "": a
// shell takes functions, files to run and its options from its environment before
// it reads the first word of the command, and these change what the words mean.
func envFault(f Facts) string {
	if len(f.Env) > maxCallEnv {
		return fmt.Sprintf("env sets more than %d variables", maxCallEnv)
	}
	for _, name := range f.Env {
		if shell.EffectOf(name, f.Value(name)) == shell.HoldsCode {
			return fmt.Sprintf("env sets %s, which changes what bash makes of the command", Clip(name, 64))
		}
	}
	return ""
}

// Value returns the value that the call gives to a variable.
func (f *Facts) Value(name string) shell.Word {
	if v, known := f.Values[name]; known {
		return shell.Word{Text: v}
	}
	return shell.Word{Certainty: shell.Any}
}

// commandPieces takes a script apart into the commands that it runs, with the
// variables that the call sets for all of it.
func commandPieces(f Facts) []piece {
	script := f.Command
	s, err := shell.Analyze(script)
	for _, name := range f.Env {
		if shell.EffectOf(name, f.Value(name)) != shell.NoEffect {
			s.Sways = append(s.Sways, name)
		}
	}
	all := scriptPieces(s, f.Env)
	if err != nil {
		why, rest, from := err.Error(), script, 0
		if e, ok := errors.AsType[*shell.Error](err); ok {
			why = e.Why
		}
		if n := len(s.Commands); n > 0 {
			from = s.Commands[n-1].End
			rest = rest[from:]
		}
		all = append(all, piece{kind: aCommand, text: strings.TrimSpace(rest), start: from, end: len(script), doubt: why, opaque: true, unread: true})
	}
	if len(all) == 0 {
		all = append(all, piece{kind: aCommand}) // the script runs nothing
	}
	return all
}

// scriptPieces returns the commands of a script that was read.
func scriptPieces(s shell.Script, env []string) []piece {
	all := make([]piece, 0, len(s.Commands)+1)
	for i := range s.Commands {
		c := &s.Commands[i]
		pc := commandPiece(c)
		for _, name := range s.Sets {
			pc.sets(name, doubtSets)
		}
		for _, name := range env {
			// As with NAME=value before a command: for many programs the environment is
			// code.
			pc.sets(name, doubtCall)
		}
		for _, name := range s.Sways {
			pc.sway(name)
		}
		// A wrapper that starts nothing counts as an ordinary command.
		pc.wrapper = c.Wrapper && i+1 < len(s.Commands) && len(s.Commands[i+1].Via) > len(c.Via)
		all = append(all, pc)
	}
	return all
}

// commandPiece returns one command, without what its script says about all commands.
func commandPiece(c *shell.Command) piece {
	pc := piece{kind: aCommand, text: c.Text, start: c.Start, end: c.End, via: c.Via, opaque: c.Opaque != ""}
	pc.words = make([]word, len(c.Words))
	for i, w := range c.Words {
		pc.words[i] = word{text: w.Text, sure: w.Certainty}
		if w.Certainty != shell.Exact {
			pc.doubt, pc.vague = doubtWord, true
		}
	}
	pc.loose = loose(pc.words)
	for _, d := range c.Redirects {
		if d.Target != (shell.Word{Text: "/dev/null"}) {
			pc.files = append(pc.files, file(d.Target))
			pc.doubt = doubtFile
		}
	}
	for _, a := range c.Assigns {
		pc.sets(a.Name, doubtEnv)
		if a.Effect != shell.NoEffect {
			pc.sway(a.Name)
		}
	}
	if pc.opaque {
		pc.doubt = c.Opaque
	}
	return pc
}

// maxArgv bounds the words of a command that a refusal repeats.
const maxArgv = 32

// argv returns the words of a command that is not let through, if all of them are known and
// they are few.
func (pc *piece) argv(v Verdict) []string {
	if v == Allow || pc.kind != aCommand || pc.vague || pc.unread || len(pc.words) == 0 || len(pc.words) > maxArgv || len(pc.text) > maxSaid {
		return nil
	}
	argv := make([]string, len(pc.words))
	for i, w := range pc.words {
		argv[i] = w.text
	}
	return argv
}

// sets records a variable that is set for a command.
func (pc *piece) sets(name, doubt string) {
	if !slices.Contains(pc.env, name) {
		pc.env = append(pc.env, name)
	}
	if !pc.opaque && (pc.doubt == "" || pc.doubt == doubtWord || pc.doubt == doubtFile) {
		pc.doubt = doubt
	}
}

// sway records a variable that may make the command run more than its words say. For a rule
// that stops, this counts like an unknown word; a rule that lets the command through has to
// name the variable anyway.
func (pc *piece) sway(name string) {
	pc.swayed = true
	if !pc.opaque {
		pc.doubt = shell.SwayDoubt(Clip(name, 64))
	}
}

// loose also gives the program of a command the last segment of its path as a name, so that
// /usr/bin/git is git for a rule that refuses.
func loose(words []word) []word {
	if len(words) == 0 || words[0].sure > shell.Home || !strings.Contains(words[0].text, "/") {
		return words
	}
	words = slices.Clone(words)
	words[0].also = path.Base(words[0].text)
	return words
}

// file returns the target of a redirection as the segments of a path. The directory of a
// relative path is not known: the script may have changed its directory. A target that
// is known only in part can be any path, since "/../" may follow.
func file(w shell.Word) []word {
	var words []word
	text := w.Text
	switch {
	case w.Certainty > shell.Home:
		return []word{{sure: shell.Any}}
	case !path.IsAbs(text), slices.Contains(strings.Split(text, "/"), ".."):
		words = append(words, word{sure: shell.Any})
		if i := strings.LastIndex(text, "../"); i >= 0 {
			text = text[i+len("../"):]
		}
		if w.Certainty == shell.Home {
			_, text, _ = strings.Cut(text, "/")
		}
		text = "/" + text
	}
	return append(words, literals(segments(path.Clean(text)))...)
}
