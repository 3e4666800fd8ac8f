package shell

import (
	"path"
	"strings"
)

// Runs reports whether a program is known to run other programs, or text from its
// arguments: shells, interpreters, wrappers and similar programs. The name and the words of
// such a program do not say what it does, so a yes to one call is not a yes to the next
// call that looks the same.
func Runs(program string) bool {
	name := path.Base(program)
	if program == "" {
		return false
	}
	if _, ok := wrappers[name]; ok {
		return true
	}
	switch short := versionless(name); short {
	case "git", "sed", "gsed": // these are marked if they run others
		return false
	default:
		_, ok := programs()[short]
		return ok && !builtins[short] || strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl")
	}
}

// builtins are the programs that only change the shell itself, unless they are marked.
var builtins = map[string]bool{
	"set": true, "hash": true, "enable": true, "jobs": true, "read": true, "mapfile": true, "readarray": true, "printf": true, "unset": true,
	"shopt": true, "getopts": true, "let": true, "wait": true, "test": true, "[": true, "declare": true, "typeset": true, "local": true, "export": true, "readonly": true,
}
