package shell

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// literals are the programs that do what their words say, and nothing else: none of them
// runs another program, reads settings from a file that a box can write, or has a word that
// makes it do so. A yes to any other program is valid only once: what git, npm, curl or
// terraform do with the same words depends on hooks, on settings in files or on the
// project, which may differ at the next call.
var literals = sync.OnceValue(func() []string {
	return fields(`
	: basename cat cd chgrp chmod chown cksum cmp comm cp cut date dd df dirname du echo expand expr factor false fold head hostname id
	join kill link ln ls md5sum mkdir mkfifo mktemp mv nl nproc od paste pathchk printenv printf pwd readlink realpath rm rmdir
	seq sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf sleep stat sum sync tac tail tee test [ touch tr true truncate tsort tty
	uname unexpand uniq unlink uptime wc whoami yes`)
})

// Literal reports whether a program is one of literals.
func Literal(program string) bool { return slices.Contains(literals(), program) }

// ofShell are commands of the shell that do not run other commands.
const ofShell wordList = "[[ break continue declare dirs exit export getopts let local mapfile popd pushd read readarray readonly return set shift shopt times type typeset ulimit umask unset wait"

// OfShell reports whether a command is the shell's own, and does not run other commands.
func OfShell(name string) bool { return ofShell.has(name) }

func literal(to []cell, text string) []cell {
	for i := range len(text) {
		to = append(to, cell{text[i], quoted})
	}
	return to
}

// fields has a short name, which keeps the tables short.
func fields(s string) []string { return strings.Fields(s) }

// join joins words with blanks, like eval.
func join(words []Word) Word {
	texts := make([]string, len(words))
	w := Word{}
	for i, part := range words {
		texts[i] = part.Text
		w.Certainty = max(w.Certainty, part.Certainty)
	}
	w.Text = strings.Join(texts, " ")
	return w
}

// installed reports whether a program is named as one of the system's: by its bare name, or
// in a directory of the system. Another file with the same name may do anything in addition
// to starting other programs.
func installed(program string) bool {
	switch dir, _ := path.Split(program); dir {
	case "", "/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/", "/usr/local/bin/":
		return true
	}
	return false
}
