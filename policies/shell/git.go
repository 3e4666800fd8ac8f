package shell

import (
	"slices"
	"strings"
)

var gitOptions = grammar{
	flags: "pPhv", values: "Cc",
	long:   "version help html-path man-path info-path paginate no-pager no-replace-objects no-lazy-fetch no-optional-locks no-advice bare literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs exec-path",
	valued: "git-dir work-tree namespace config-env super-prefix attr-source list-cmds",
}

// git finds the subcommand behind git's own options: it finds "git push" in "git -C /x
// push". It also looks for settings that contain commands.
func git(r *reader, i int, words []Word, at place) {
	c := &r.out.Commands[i]
	_, via := r.via1(i, words)
	options, rest, why := gitOptions.read(words[1:])
	if why != "" {
		c.Opaque = why
		return
	}
	if has(options, "c", "config-env", "exec-path") {
		c.Opaque = "its settings can name programs"
	}
	assigns := c.Assigns
	for _, o := range options {
		key, value, _ := strings.Cut(o.value.Text, "=")
		if o.name == "c" && strings.HasPrefix(strings.ToLower(key), "alias.") && strings.HasPrefix(value, "!") && o.value.Certainty == Exact {
			r.nested(value[1:], via, at, assigns, false)
		}
	}
	switch {
	case len(rest) == 0:
		return
	case rest[0].Certainty == Any && !rest[0].Glob || rest[0].Certainty == One:
		return // the subcommand is not known: the command is listed as it is
	}
	gitText(r, i, rest, via, at)
	if len(options) == 0 {
		return
	}
	plain := true
	for _, o := range options {
		switch o.name {
		case "P", "no-pager", "no-optional-locks", "no-replace-objects", "literal-pathspecs", "no-advice", "no-lazy-fetch":
		default:
			plain = false
		}
	}
	c = &r.out.Commands[i]
	c.Wrapper = plain && installed(words[0].Text)
	program := c.Words[:1:1]
	j := r.emit(Command{Words: append(program, rest...), Assigns: assigns, Via: via, Text: c.Text}, at)
	if j >= 0 && plain {
		r.out.Commands[j].Opaque = r.out.Commands[i].Opaque
	}
}

// gitText reads the subcommands that have a command among their arguments.
func gitText(r *reader, i int, rest []Word, via []string, at place) {
	assigns := r.out.Commands[i].Assigns
	why := ""
	switch rest[0].Text {
	case "bisect":
		if len(rest) > 2 && rest[1].Text == "run" {
			r.started(rest[2:], assigns, via, at)
		}
	case "submodule":
		for k, w := range rest {
			if w.Text == "foreach" {
				operands := rest[k+1:]
				for len(operands) > 0 && strings.HasPrefix(operands[0].Text, "-") {
					operands = operands[1:]
				}
				why = r.gitShell(join(operands), via, at, assigns)
				break
			}
		}
	case "rebase":
		for k, w := range rest {
			switch {
			case (w.Text == "-x" || w.Text == "--exec") && k+1 < len(rest):
				why = r.gitShell(rest[k+1], via, at, assigns)
			case strings.HasPrefix(w.Text, "-x"), strings.HasPrefix(w.Text, "--ex"):
				why = "it is given a command"
			}
		}
	case "filter-branch", "daemon", "shell", "remote-ext", "upload-pack", "receive-pack", "credential", "difftool", "mergetool", "for-each-repo":
		why = "it runs commands that are given to it in ways that are not known here"
	}
	if why == "" && slices.ContainsFunc(rest[1:], func(w Word) bool { return namesProgram(rest[0].Text, w) }) {
		why = "it is given a command"
	}
	if why != "" {
		r.out.Commands[i].Opaque = why
	}
}

// gitPrograms are the options of subcommands that name a program that git runs.
var gitPrograms = map[string]wordList{
	"grep":  "-O --open-files-in-pager",
	"clone": "-u --upload-pack", "fetch": "--upload-pack", "pull": "--upload-pack",
	"fetch-pack": "--upload-pack --exec", "ls-remote": "--upload-pack --exec",
	"push": "--receive-pack --exec", "send-pack": "--receive-pack --exec", "archive": "--exec",
	"send-email": "--smtp-server --sendmail-cmd --to-cmd --cc-cmd --header-cmd",
}

// namesProgram reports whether a word of a subcommand is an option in gitPrograms: in full,
// abbreviated, or with its value behind it.
func namesProgram(subcommand string, w Word) bool {
	return slices.ContainsFunc(gitPrograms[subcommand].names(), func(option string) bool {
		name, _, _ := strings.Cut(w.Text, "=")
		if !strings.HasPrefix(option, "--") {
			return strings.HasPrefix(name, option)
		}
		return len(name) > len("--o") && strings.HasPrefix(option, name)
	})
}

func (r *reader) gitShell(text Word, via []string, at place, assigns []Assign) string {
	if text.Certainty != Exact {
		return "the text that it has a shell run is only known when it runs"
	}
	if why := r.nested(text.Text, via, at, assigns, false); why != "" {
		return why
	}
	return dialect(text.Text)
}
