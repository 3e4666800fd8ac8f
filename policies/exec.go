package policies

import (
	"path"
	"slices"
	"strings"
)

// ExecMode says what is done about each program that a command starts. It is a
// point to look at and to decide, not the wall: see docs/policy.md.
type ExecMode int

// The modes. The zero value looks at no program and allows nothing more: the box
// decides what a program can do.
const (
	ExecOff     ExecMode = iota
	ExecObserve          // each program is recorded
	ExecEnforce          // the policy decides about each program; one that it does not allow is not started
)

// DefaultExec is the mode of a profile that names none.
const DefaultExec = ExecObserve

// String is the mode as policies spell it.
func (m ExecMode) String() string {
	switch m {
	case ExecObserve:
		return "observe"
	case ExecEnforce:
		return "enforce"
	case ExecOff:
	}
	return "off"
}

// Exec is a program that is about to be started: what the kernel is given.
type Exec struct {
	Path   string   // the file, as it was named
	Target string   // the file that links lead to; "" where that is Path
	Argv   []string // the first one is a name that the caller chose
	Cut    bool     // there are more, or one is longer
	Then   *Exec    // what is started in its place: the interpreter of a script, the program that a loader is given
}

// OfSystem reports whether a program is in a directory that no box can write:
// the system's, or an image's.
func OfSystem(name string) bool {
	if path.Clean(name) != name {
		return false
	}
	for _, dir := range []string{"/usr/", "/bin/", "/sbin/"} {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	return false
}

// name is argv[0], the name under which the program is started, or else its path.
func (e Exec) name() string {
	if len(e.Argv) == 0 || e.Argv[0] == "" {
		return e.Path
	}
	return e.Argv[0]
}

// text is the words in one line, for people: what is not plain is quoted.
func (e Exec) text() string {
	words := slices.Clone(e.Argv)
	if !OfSystem(e.Path) || len(words) == 0 {
		words = append([]string{e.Path}, words[min(1, len(words)):]...)
	}
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_/.,:=+@%"
	left := maxPart
	var b strings.Builder
	if base := path.Base(e.Path); base != path.Base(words[0]) {
		b.WriteString(e.Path + " as ")
	}
	for i, w := range words {
		if left <= 0 {
			break // nobody is shown more
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		if w == "" || strings.Trim(w, plain) != "" {
			w = "'" + strings.ReplaceAll(w[:min(len(w), maxPart)], "'", `'\''`) + "'"
		}
		b.WriteString(w)
		left -= len(w) + 1
	}
	if e.Cut || left <= 0 {
		b.WriteString(" ...")
	}
	return b.String()
}
