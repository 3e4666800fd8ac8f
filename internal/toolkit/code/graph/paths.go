package graph

import (
	"path"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// dirOf returns the directory of a path; it is empty for a path in the directory of the
// project.
func dirOf(name string) string {
	if dir := path.Dir(name); dir != "." {
		return dir
	}
	return ""
}

// in joins a directory of the project and a relative path. It returns "" for a path outside
// of the project, and for the directory of the project itself.
func in(dir, rel string) string {
	joined := path.Join(dir, rel)
	if joined == ".." || strings.HasPrefix(joined, "../") || joined == "." {
		return ""
	}
	return joined
}

// family returns one language for all languages whose files name each other's declarations.
func family(l code.Language) code.Language {
	switch l {
	case code.TSX, code.JavaScript:
		return code.TypeScript
	case code.CPP:
		return code.C
	case code.Go, code.Rust, code.Python, code.TypeScript, code.C, code.Java, code.Shell, code.Other:
	}
	return l
}

// words returns the text of the first tokens of a file, at most the given number, without
// comments and the tokens for ends of lines.
func words(f *code.File, most int) (all []string) {
	for _, t := range f.Tokens {
		if len(all) == most {
			break
		}
		if t.Kind != code.Comment && t.Start < t.End {
			all = append(all, f.Of(t))
		}
	}
	return all
}

// below reports whether dir is the directory parent or lies in it.
func below(dir, parent string) bool {
	return parent == "" || dir == parent || strings.HasPrefix(dir, parent+"/")
}

// shape returns a number made of a name's first and last character and its length. It is
// compared before the whole name is.
func shape(name string) uint16 {
	if name == "" {
		return 0
	}
	return uint16(name[0])<<8 ^ uint16(name[len(name)-1])<<3 ^ uint16(len(name))
}

// notInName reports whether a character cannot be part of a name.
func notInName(c rune) bool {
	return c != '_' && c != '$' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c < 0x80
}

// plainPath returns the path of an import without quotes and brackets.
func plainPath(p string) string { return strings.Trim(p, "\"'<>` ") }
