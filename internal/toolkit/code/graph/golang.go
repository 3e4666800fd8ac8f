package graph

import (
	"path"
	"slices"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// module is what a go.mod states: the path of the module, and the directories that replace
// other modules.
type module struct {
	dir, path string
	replaced  map[string]string // directories that replace modules, by module path
}

// readModule reads the parts of a go.mod that imports need.
func readModule(dir, text string) module {
	m := module{dir: dir, replaced: make(map[string]string)}
	block := ""
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		w := strings.Fields(line)
		switch {
		case len(w) == 0:
			continue
		case w[0] == ")":
			block = ""
			continue
		case len(w) == 2 && w[1] == "(":
			block = w[0]
			continue
		case block != "":
			w = append([]string{block}, w...)
		}
		switch {
		case w[0] == "module" && len(w) == 2:
			m.path = strings.Trim(w[1], "\"`")
		case w[0] == "replace" && len(w) >= 4:
			old, with := w[1], w[len(w)-1]
			if w[len(w)-2] == "=>" && (strings.HasPrefix(with, "./") || strings.HasPrefix(with, "../")) {
				m.replaced[old] = path.Join(dir, with)
			}
		}
	}
	return m
}

// unitOf returns the package of a file.
func unitOf(f *code.File) unit {
	if ignored(f) {
		return unit{dir: f.Path}
	}
	return unit{dirOf(f.Path), externalTest(f)}
}

// ignored reports whether a file is a program by itself that belongs to no package. By
// convention, such a file has the build condition "ignore".
func ignored(f *code.File) bool {
	return slices.Contains(strings.Fields(condition(f)), "ignore")
}

// condition returns the text of the line that states the condition under which a file is
// compiled.
func condition(f *code.File) string {
	for _, t := range f.Tokens {
		if t.Kind != code.Comment {
			break
		}
		for _, begins := range []string{"//go:build ", "// +build "} {
			if rest, ok := strings.CutPrefix(f.Of(t), begins); ok {
				return rest
			}
		}
	}
	return ""
}

// packageNames returns the names of the packages that the files belong to.
func (x *resolver) packageNames(files []int) (names []string) {
	for _, i := range files {
		if name := packageName(x.files[i]); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// externalTest reports whether a file belongs to the package x_test of its directory.
func externalTest(f *code.File) bool {
	if !strings.HasSuffix(f.Path, "_test.go") {
		return false
	}
	return strings.HasSuffix(packageName(f), "_test")
}

// packageName returns the name after the keyword package.
func packageName(f *code.File) string {
	w := words(f, 2)
	if len(w) == 2 && w[0] == "package" {
		return w[1]
	}
	return ""
}

// moduleOf returns the innermost module that contains a directory.
func (x *resolver) moduleOf(dir string) *module {
	for i := range x.mods {
		if below(dir, x.mods[i].dir) {
			return &x.mods[i]
		}
	}
	return nil
}

// importPath returns the path by which the package of a directory is imported.
func (x *resolver) importPath(dir string) string {
	m := x.moduleOf(dir)
	if m == nil {
		return dir
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(dir, m.dir), "/")
	if m.path == "std" { // the module of the Go distribution
		return rest
	}
	return path.Join(m.path, rest)
}

// goImport finds the package of an import.
func (x *resolver) goImport(file, imported string) target {
	dir := dirOf(file)
	own := x.moduleOf(dir)
	if rel := strings.HasPrefix(imported, "./") || strings.HasPrefix(imported, "../"); rel {
		return x.goPackage(in(dir, imported), Certain)
	}
	// A directory named vendor has precedence, the nearest one above the file first.
	for up := dir; ; up = dirOf(up) {
		if t := x.goPackage(path.Join(up, "vendor", imported), Certain); len(t.files) > 0 {
			return t
		}
		if up == "" {
			break
		}
	}
	if own != nil {
		if rest, ok := inModule(imported, own.path); ok {
			return x.goPackage(path.Join(own.dir, rest), Certain)
		}
		for old, with := range own.replaced {
			if rest, ok := inModule(imported, old); ok {
				return x.goPackage(path.Join(with, rest), Certain)
			}
		}
	}
	for i := range x.mods { // the modules may belong to one workspace
		if m := &x.mods[i]; m != own && m.path != "std" && m.path != "" {
			if rest, ok := inModule(imported, m.path); ok {
				if t := x.goPackage(path.Join(m.dir, rest), Likely); len(t.files) > 0 {
					return t
				}
			}
		}
	}
	if len(x.mods) > 0 {
		return target{}
	}
	// Without a go.mod, a directory matches if the import path ends with its path.
	for tail := imported; strings.Contains(tail, "/"); {
		_, tail, _ = strings.Cut(tail, "/")
		if t := x.goPackage(tail, Likely); len(t.files) > 0 {
			return t
		}
	}
	return target{}
}

// inModule returns the rest of an import path after the module's path. The module std
// contains the packages of the Go distribution.
func inModule(imported, module string) (rest string, ok bool) {
	if module == "std" {
		return imported, true
	}
	if imported == module {
		return "", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// goPackage returns the files of the package in a directory, without those of its tests.
func (x *resolver) goPackage(dir string, sure Sure) target {
	t := target{sure: sure}
	for _, i := range x.goes[unit{dir, false}] {
		if !strings.HasSuffix(x.files[i].Path, "_test.go") {
			t.files = append(t.files, i)
		}
	}
	return t
}
