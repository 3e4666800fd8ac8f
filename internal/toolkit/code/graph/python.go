package graph

import (
	"path"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// pythonImport finds the modules of an import. Each name that the import takes can also be
// a module of the package.
func (x *resolver) pythonImport(file string, im code.Import) (all []target) {
	dots := len(im.Path) - len(strings.TrimLeft(im.Path, "."))
	rest := strings.ReplaceAll(im.Path[dots:], ".", "/")
	for _, root := range x.pythonRoots(file, dots) {
		at := path.Join(root, rest)
		whole, ok := x.pythonModule(at)
		others := false
		for _, used := range im.Used {
			if i, is := x.pythonModule(path.Join(at, used)); is {
				all = append(all, target{files: []int{i}, sure: Certain})
			} else {
				others = true
			}
		}
		if ok && (others || len(im.Used) == 0 || len(all) == 0) {
			all = append(all, target{files: []int{whole}, sure: Certain})
		}
		if len(all) > 0 {
			break
		}
	}
	return all
}

// pythonRoots returns the directories in which a file's imports are searched, the nearest
// first. For an import without dots, the directory of a package is not among them, because
// a package is imported by its name.
func (x *resolver) pythonRoots(file string, dots int) (roots []string) {
	dir := dirOf(file)
	if dots > 0 {
		for ; dots > 1; dots-- {
			if dir == "" {
				return nil // the import leads above the project
			}
			dir = dirOf(dir)
		}
		return []string{dir}
	}
	for ; ; dir = dirOf(dir) {
		if _, pkg := x.byPath[path.Join(dir, "__init__.py")]; !pkg {
			roots = append(roots, dir)
		}
		if dir == "" {
			return append(roots, "src", "lib")
		}
	}
}

// pythonModule finds the file of a module or a package.
func (x *resolver) pythonModule(at string) (int, bool) {
	if at == "" {
		return 0, false
	}
	for _, name := range []string{at + ".py", at + "/__init__.py", at + ".pyi", at + "/__init__.pyi"} {
		if i, ok := x.byPath[name]; ok {
			return i, true
		}
	}
	return 0, false
}
