package graph

import (
	"path"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// include finds the file of an #include: next to the file that includes it, or else the
// only file of the project whose path ends with the included path. The directories that a
// compiler searches are not known here.
func (x *resolver) include(file, imported string) target {
	system := strings.HasPrefix(imported, "<")
	name := plainPath(imported)
	if !system {
		if i, ok := x.byPath[in(dirOf(file), name)]; ok {
			return target{files: []int{i}, sure: Certain}
		}
	}
	name = path.Clean(name)
	if name == "." || strings.HasPrefix(name, "../") {
		return target{}
	}
	var found []int
	for _, i := range x.base[path.Base(name)] {
		if p := x.files[i].Path; p == name || strings.HasSuffix(p, "/"+name) {
			found = append(found, i)
		}
	}
	if len(found) != 1 || system && !strings.Contains(name, "/") {
		return target{}
	}
	return target{files: found, sure: Likely}
}

// javaPackage returns the package of a file in Java.
func javaPackage(f *code.File) string {
	w := words(f, 200)
	for i, word := range w {
		if word != "package" {
			continue
		}
		name := ""
		for _, part := range w[i+1:] {
			if part == ";" {
				return name
			}
			name += part
		}
		return ""
	}
	return ""
}

// javaImport finds the files of an import: those of one class, of all classes of a package,
// or of the class that contains a static import's name.
func (x *resolver) javaImport(im code.Import) target {
	name := strings.TrimPrefix(im.Path, "static ")
	sure := Certain
	for range 3 {
		if files := x.java[name]; len(files) > 0 {
			return target{files: files, sure: sure}
		}
		dot := strings.LastIndexByte(name, '.')
		if dot < 0 {
			break
		}
		name = name[:dot] // the last part may be a class within a class, or a method
	}
	return target{}
}
