package graph

import (
	"path"
	"slices"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// index finds files and declarations by their names.
type index struct {
	files  []*code.File
	byPath map[string]int
	dirs   map[string][]int    // the files of each directory
	base   map[string][]int    // files of C and C++ by the last part of the path
	java   map[string][]int    // files by package, and by package and class
	mods   []module            // of Go, the longest directory first
	crates map[string]string   // the directory of each crate of Rust, by the name in paths
	paths  map[string]*project // tsconfig.json and deno.json, by directory
	funcs  map[string][]ref    // by name
	types  map[string][]ref    // by name
	goes   map[unit][]int      // the files of each package of Go

	inlines  map[int][]inline  // the modules that a file of Rust contains
	declared map[int][]modDecl // and those that it declares
}

// implementation is the kind of a symbol that gives bases to a type that is declared
// elsewhere: the impl of a trait.
const implementation = "impl"

// ref is a declaration: the file and the index in its Funcs or Types.
type ref struct{ file, at int }

// unit is a package of Go: a directory can contain one, and its external tests. A
// program of one file that go build ignores is one by itself.
type unit struct {
	dir      string // of such a program its path
	external bool   // package x_test
}

func newIndex(files []*code.File) *index {
	x := &index{
		files: files, byPath: make(map[string]int), dirs: make(map[string][]int), base: make(map[string][]int),
		java: make(map[string][]int), crates: make(map[string]string), paths: make(map[string]*project),
		funcs: make(map[string][]ref), types: make(map[string][]ref), goes: make(map[unit][]int),
		inlines: make(map[int][]inline), declared: make(map[int][]modDecl),
	}
	for i, f := range files {
		x.byPath[f.Path] = i
		dir := dirOf(f.Path)
		x.dirs[dir] = append(x.dirs[dir], i)
		x.settings(f)
		switch f.Language {
		case code.Go:
			x.goes[unitOf(f)] = append(x.goes[unitOf(f)], i)
		case code.C, code.CPP:
			name := path.Base(f.Path)
			x.base[name] = append(x.base[name], i)
		case code.Java:
			pkg := javaPackage(f)
			x.java[pkg+".*"] = append(x.java[pkg+".*"], i)
			class := strings.TrimSuffix(path.Base(f.Path), ".java")
			x.java[pkg+"."+class] = append(x.java[pkg+"."+class], i)
		case code.Rust:
			x.inlines[i], x.declared[i] = modulesIn(f)
		case code.Python, code.TypeScript, code.TSX, code.JavaScript, code.Shell, code.Other:
		}
		for j := range f.Funcs {
			x.funcs[f.Funcs[j].Name] = append(x.funcs[f.Funcs[j].Name], ref{i, j})
		}
		for j := range f.Types {
			if f.Types[j].Kind == implementation {
				continue
			}
			x.types[f.Types[j].Name] = append(x.types[f.Types[j].Name], ref{i, j})
		}
	}
	slices.SortFunc(x.mods, func(a, b module) int { return len(b.dir) - len(a.dir) })
	return x
}

// settings reads a file that says how imports are resolved.
func (x *index) settings(f *code.File) {
	dir := dirOf(f.Path)
	switch path.Base(f.Path) {
	case "go.mod":
		x.mods = append(x.mods, readModule(dir, f.Text))
	case "Cargo.toml":
		if name := crateName(f.Text); name != "" {
			x.crates[name] = dir
		}
	case "tsconfig.json", "jsconfig.json", "deno.json", "deno.jsonc":
		if p := readProject(f.Text); p != nil {
			x.paths[dir] = p
		}
	}
}

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

// words returns the text of the tokens of a file but comments and what stands for the
// ends of lines, up to a number of tokens.
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
