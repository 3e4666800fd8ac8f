package graph

import (
	"path"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// dirOf is the directory of a path, empty for that of the project.
func dirOf(name string) string {
	if dir := path.Dir(name); dir != "." {
		return dir
	}
	return ""
}

// in joins a directory of the project and a relative path. It is "" for what lies
// outside of the project.
func in(dir, rel string) string {
	joined := path.Join(dir, rel)
	if joined == ".." || strings.HasPrefix(joined, "../") || joined == "." {
		return ""
	}
	return joined
}

// family groups the languages whose files name each other's declarations.
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

// words returns the text of at most so many tokens of a file, without comments and the
// tokens for ends of lines.
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

// below reports whether a directory is another one or lies in it.
func below(dir, parent string) bool {
	return parent == "" || dir == parent || strings.HasPrefix(dir, parent+"/")
}

// shape returns the part of a name that is compared first: its ends and its length.
func shape(name string) uint16 {
	if name == "" {
		return 0
	}
	return uint16(name[0])<<8 ^ uint16(name[len(name)-1])<<3 ^ uint16(len(name))
}

// notInName reports whether a character ends a name.
func notInName(c rune) bool {
	return c != '_' && c != '$' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c < 0x80
}

// plainPath is the path of an import without quotes and brackets.
func plainPath(p string) string { return strings.Trim(p, "\"'<>` ") }
