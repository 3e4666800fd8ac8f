package graph

import (
	"path"
	"strings"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
)

// resolver finds the files that imports lead to.
type resolver struct {
	files   []*code.File
	byPath  map[string]int
	dirs    map[string][]int           // the files of each directory
	base    map[string][]int           // files of C and C++, by the last part of their path
	java    map[string][]int           // files of Java, by package, and by package and class
	mods    []module                   // modules of Go, the longest directory first
	crates  map[string]string          // directory of each crate of Rust, by its name in paths
	scripts map[string]*importSettings // settings of TypeScript and JavaScript, by directory
	goes    map[unit][]int             // the files of each package of Go
}

func newResolver(files []*code.File) *resolver {
	x := &resolver{
		files: files, byPath: make(map[string]int), dirs: make(map[string][]int), base: make(map[string][]int),
		java: make(map[string][]int), crates: make(map[string]string), scripts: make(map[string]*importSettings),
		goes: make(map[unit][]int),
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
		case code.Rust, code.Python, code.TypeScript, code.TSX, code.JavaScript, code.Shell, code.Other:
		}
	}
	for dir := range x.dirs {
		if s := x.scriptSettings(dir); s != nil {
			x.scripts[dir] = s
		}
	}
	order.By(x.mods, func(a, b *module) int { return len(b.dir) - len(a.dir) })
	return x
}

// unit is a package of Go. A directory can contain a package and its external tests, which
// are a unit of their own. A program of one file that go build ignores is also a unit.
type unit struct {
	dir      string // directory of the package; for an ignored program, its path
	external bool   // the unit is the package x_test
}

// target is the files that an import leads to.
type target struct {
	files []int // several for a package of Go or Java; empty if outside of the project
	sure  Sure
}

// settings reads a file that configures how imports of Go or Rust are resolved.
func (x *resolver) settings(f *code.File) {
	dir := dirOf(f.Path)
	switch path.Base(f.Path) {
	case "go.mod":
		x.mods = append(x.mods, readModule(dir, f.Text))
	case "Cargo.toml":
		if name := crateName(f.Text); name != "" {
			x.crates[name] = dir
		}
	}
}

// resolve finds the files that an import of a file leads to.
func (x *index) resolve(file int, im code.Import) []target {
	f := x.files[file]
	switch f.Language {
	case code.Go:
		return one(x.goImport(f.Path, im.Path))
	case code.Rust:
		return x.rustImport(file, im)
	case code.Python:
		return x.pythonImport(f.Path, im)
	case code.TypeScript, code.TSX, code.JavaScript:
		return one(x.scriptImport(f.Path, plainPath(im.Path)))
	case code.C, code.CPP:
		return one(x.include(f.Path, im.Path))
	case code.Java:
		return one(x.javaImport(im))
	case code.Shell, code.Other:
	}
	return nil
}

func one(t target) []target {
	if len(t.files) == 0 {
		return nil
	}
	return []target{t}
}
