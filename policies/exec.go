package policies

import (
	"path"
	"slices"
	"strings"
)

// ExecMode says what is done about each program that a command starts. It is a point at
// which programs are seen and decided about, not the wall: see docs/policy.md.
type ExecMode int

// The modes. The zero value looks at no program and allows nothing more: only the box
// decides what a program can do.
const (
	ExecOff     ExecMode = iota
	ExecObserve          // each program is recorded
	ExecEnforce          // the policy decides about each program; a program that it does not allow is not started
)

// DefaultExec is the mode of a profile that states none.
const DefaultExec = ExecObserve

// String returns the mode as policies spell it.
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

// Exec is a program that is about to be started: what the kernel gets.
type Exec struct {
	Path   string   // path of the file, as the caller named it
	Target string   // path of the file that links lead to; "" if it is Path
	Argv   []string // the first one is a name that the caller chose
	Cut    bool     // words are missing in Argv, or a word is cut
	Then   *Exec    // program that is started instead: the interpreter of a script, or the program that a loader gets

	written bool // the box can write the file: by its profile, or because it is in the workspace
}

// ofSystem reports whether the program is one of the system's that the box cannot write.
func (e Exec) ofSystem() bool { return OfSystem(e.Path) && !e.written }

// OfSystem reports whether a program is in a directory of the system's programs, of the host
// or of an image. A box can write there only where its profile mounts something writable, or
// where the workspace lies on the host.
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

// name returns argv[0], the name under which the program is started, or its path if argv[0]
// is empty.
func (e Exec) name() string {
	if len(e.Argv) == 0 || e.Argv[0] == "" {
		return e.Path
	}
	return e.Argv[0]
}

// text returns the words in one line, for people: words that are not plain are quoted.
func (e Exec) text() string {
	words := slices.Clone(e.Argv)
	if !e.ofSystem() || len(words) == 0 {
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
			break // a longer text is never shown
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
