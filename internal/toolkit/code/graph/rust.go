package graph

import (
	"path"
	"slices"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// crateName reads the name of a crate from a Cargo.toml and returns it in the form that
// paths contain.
func crateName(text string) string {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if ok && section == "[package]" && strings.TrimSpace(key) == "name" {
			return strings.ReplaceAll(strings.Trim(strings.TrimSpace(value), `"'`), "-", "_")
		}
	}
	return ""
}

// inline is a module that a file of Rust contains: mod name { ... }
type inline struct {
	name        string
	first, last int // its lines
}

// modDecl is the declaration of a module with a file of its own, where the import alone
// does not lead to the file: it has a path attribute or stands within another module.
type modDecl struct {
	name, path string // path: value of the path attribute; empty if it has none
	inside     string // names of the modules that contain it, joined by a slash
	line       int
}

// maxInline bounds the nesting of modules.
const maxInline = 64

// modulesIn returns the modules that a file of Rust contains, the outer ones first, and the
// modules that it declares.
func modulesIn(f *code.File) (contained []inline, declared []modDecl) {
	type block struct{ at, depth int } // at: index in contained
	var around []block
	depth := 0
	for i := range f.Tokens {
		t := &f.Tokens[i]
		switch size := t.End - t.Start; {
		case t.Kind == code.Operator && size == 1 && f.Text[t.Start] == '{':
			depth++
		case t.Kind == code.Operator && size == 1 && f.Text[t.Start] == '}':
			depth--
			if n := len(around); n > 0 && around[n-1].depth > depth {
				contained[around[n-1].at].last = int(t.Line)
				around = around[:n-1]
			}
		case t.Kind == code.Keyword && size == 3 && f.Of(*t) == "mod":
			at := codeBehind(f, i)
			if at < 0 || f.Tokens[at].Kind != code.Name {
				continue
			}
			behind := codeBehind(f, at)
			if behind < 0 {
				continue
			}
			name := strings.TrimPrefix(f.Of(f.Tokens[at]), "r#")
			switch f.Of(f.Tokens[behind]) {
			case "{":
				if len(around) < maxInline {
					around = append(around, block{len(contained), depth + 1})
					contained = append(contained, inline{name, int(t.Line), 1 << 30})
				}
			case ";":
				m := modDecl{name: name, line: int(t.Line), path: pathAttribute(f, i)}
				for _, b := range around {
					m.inside = path.Join(m.inside, contained[b.at].name)
				}
				if m.path != "" || m.inside != "" { // else the lexer reports it as an import
					declared = append(declared, m)
				}
			}
		}
	}
	return contained, declared
}

// codeBehind returns the index of the next token after at that is not a comment, or -1.
func codeBehind(f *code.File, at int) int {
	for at++; at < len(f.Tokens); at++ {
		if f.Tokens[at].Kind != code.Comment {
			return at
		}
	}
	return -1
}

// maxAttribute is the number of tokens before a declaration that are searched for its
// attribute and its visibility.
const maxAttribute = 32

// pathAttribute returns the path of #[path = "..."] before the declaration that begins at a
// token; empty if it has no such attribute.
func pathAttribute(f *code.File, at int) string {
	var before []string // the nearest first
	for at--; at >= 0 && len(before) < maxAttribute; at-- {
		if t := f.Tokens[at]; t.Kind != code.Comment {
			before = append(before, f.Of(t))
		}
	}
	for len(before) > 0 && slices.Contains([]string{"pub", ")", "crate", "(", "super", "in"}, before[0]) {
		before = before[1:]
	}
	if len(before) < 6 || before[0] != "]" || before[3] != "path" || before[2] != "=" {
		return ""
	}
	return strings.Trim(before[1], `"`)
}

// rustRoot reports whether a file is the root of a crate: the library, a program, a
// test, an example or a benchmark.
func rustRoot(file string) bool {
	dir, name := path.Split(file)
	dir = path.Base(path.Clean("/" + dir))
	switch name {
	case "lib.rs", "main.rs", "build.rs":
		return true
	}
	return dir == "bin" || dir == "tests" || dir == "examples" || dir == "benches"
}

// rustHome returns the directory that contains the modules of a file.
func rustHome(file string) string {
	if rustRoot(file) || path.Base(file) == "mod.rs" {
		return dirOf(file)
	}
	return strings.TrimSuffix(file, ".rs")
}

// rustChild finds the file of a module that a file declares.
func (x *resolver) rustChild(file string, m modDecl) []int {
	if m.path != "" {
		if i, ok := x.byPath[in(dirOf(file), m.path)]; ok {
			return []int{i}
		}
		return nil
	}
	return x.rustModule(path.Join(rustHome(file), m.inside, m.name))
}

// rustModule finds the file of a module by its path without the extension.
func (x *resolver) rustModule(at string) []int {
	for _, name := range []string{at + ".rs", at + "/mod.rs"} {
		if i, ok := x.byPath[name]; ok {
			return []int{i}
		}
	}
	return nil
}

// rustImport finds the modules that a use leads to. Of each path, this is the longest part
// that is a module.
func (x *index) rustImport(at int, im code.Import) (all []target) {
	file, home := x.files[at].Path, rustHome(x.files[at].Path)
	for _, m := range x.inlines[at] {
		if m.first <= im.Line && im.Line <= m.last {
			home = path.Join(home, m.name)
		}
	}
	paths := []string{im.Path}
	if len(im.Used) > 0 {
		paths = paths[:0]
		for _, used := range im.Used {
			paths = append(paths, im.Path+"::"+used)
		}
	}
	seen := make(map[int]bool)
	for _, p := range paths {
		for _, i := range x.rustPath(file, home, p) {
			if x.files[i].Path != file && !seen[i] {
				seen[i] = true
				all = append(all, target{files: []int{i}, sure: Certain})
			}
		}
	}
	return all
}

// rustPath finds the file of the module that a path begins with. home is the directory of
// the module that contains the path.
func (x *resolver) rustPath(file, home, p string) []int {
	segments := strings.FieldsFunc(p, func(r rune) bool { return r == ':' || r == ' ' || r == '{' || r == '}' })
	if len(segments) == 0 || len(segments) > 64 {
		return nil
	}
	var root []int
	switch first := segments[0]; first {
	case "crate":
		home, root = x.crateOf(file)
		segments = segments[1:]
	case "self":
		segments = segments[1:]
	case "super":
		for len(segments) > 0 && segments[0] == "super" {
			home, segments = dirOf(home), segments[1:]
		}
		if root = x.rustModule(home); root == nil {
			_, root = x.rustRootIn(home)
		}
	default:
		if x.rustModule(path.Join(home, first)) == nil {
			dir, known := x.crates[first]
			if !known {
				return nil
			}
			home = path.Join(dir, "src")
			_, root = x.rustRootIn(home)
			segments = segments[1:]
		}
	}
	found := root
	for _, s := range segments {
		home = path.Join(home, s)
		if i := x.rustModule(home); i != nil {
			found = i
		} else if len(x.dirs[home]) == 0 {
			break
		}
	}
	return found
}

// crateOf returns the directory of the root of a file's crate, and the root.
func (x *resolver) crateOf(file string) (home string, root []int) {
	if rustRoot(file) {
		return dirOf(file), []int{x.byPath[file]}
	}
	for dir := dirOf(file); ; dir = dirOf(dir) {
		if at, i := x.rustRootIn(dir); i != nil {
			return at, i
		}
		if dir == "" {
			return "", nil
		}
	}
}

// rustRootIn finds the root of a crate in a directory.
func (x *resolver) rustRootIn(dir string) (home string, root []int) {
	for _, name := range []string{"lib.rs", "main.rs"} {
		if i, ok := x.byPath[path.Join(dir, name)]; ok {
			return dir, []int{i}
		}
	}
	return dir, nil
}
