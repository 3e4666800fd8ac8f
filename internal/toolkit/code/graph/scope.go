package graph

import (
	"path"
	"slices"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// scope is what the names of a file can mean.
type scope struct {
	own    []int             // the files whose names need no import, the file itself first
	names  map[string][]int  // files, by the name under which they were imported
	used   map[string][]int  // files, by a name that was imported from them
	all    []int             // files whose names were all imported
	others map[string]bool   // names of imports that lead out of the project
	real   map[string]string // declared names, by the names that an import gives them
}

// meaning returns what the imports of a file mean.
func (x *index) meaning(file int) *meaning {
	m := &x.meanings[file]
	m.once.Do(func() {
		f := x.files[file]
		m.targets = make([][]target, len(f.Imports))
		for i := range f.Imports {
			m.targets[i] = x.resolve(file, f.Imports[i])
		}
		m.scope = x.scopeOf(file, m.targets)
	})
	return m
}

// scope returns what the names of a file can mean.
func (x *index) scope(file int) *scope { return x.meaning(file).scope }

// scopeOf builds the scope of a file from its imports, whose targets are to.
func (x *index) scopeOf(file int, to [][]target) *scope {
	f := x.files[file]
	s := &scope{own: []int{file}, names: make(map[string][]int), used: make(map[string][]int), others: make(map[string]bool), real: renamed(f)}
	switch f.Language {
	case code.Go:
		s.own = x.goes[unitOf(f)][:1] // stands for the whole package, which is one group
	case code.Java:
		s.own = append(s.own, x.java[javaPackage(f)+".*"]...)
	case code.Rust, code.Python, code.TypeScript, code.TSX, code.JavaScript, code.C, code.CPP, code.Shell, code.Other:
	}
	for k, im := range f.Imports {
		name := importName(f.Language, im)
		targets := to[k]
		if len(targets) == 0 {
			s.others[name] = true
			for _, used := range im.Used {
				s.others[used] = true
			}
			continue
		}
		if f.Language == code.Go && im.Name == "" {
			if names := x.packageNames(targets[0].files); len(names) > 0 {
				name = names[0]
			}
		}
		for _, t := range targets {
			if f.Language == code.Go {
				t.files = t.files[:1]
			}
			switch {
			case name == "." || name == "*" || f.Language == code.C || f.Language == code.CPP:
				s.all = append(s.all, t.files...)
			case f.Language == code.Python && len(im.Used) > 0 && !slices.Contains(im.Used, "*"):
				for _, used := range im.Used {
					s.used[used] = append(s.used[used], t.files...)
					if len(t.files) == 1 && moduleName(x.files[t.files[0]].Path) == used {
						s.names[used] = append(s.names[used], t.files...)
					}
				}
			default:
				s.names[name] = append(s.names[name], t.files...)
				for _, used := range im.Used {
					if used == "*" {
						s.all = append(s.all, t.files...)
					}
					s.used[used] = append(s.used[used], t.files...)
					s.names[used] = append(s.names[used], t.files...) // for example a module of Rust or a class of Java
				}
				if f.Language == code.Rust || f.Language == code.Java {
					s.used[name] = append(s.used[name], t.files...)
				}
			}
		}
	}
	return s
}

// renamed returns the names that the imports of a file change, as in "name as other": the
// declared names by the new ones.
func renamed(f *code.File) map[string]string {
	used := make(map[string]bool)
	real := make(map[string]string)
	last := 0
	for _, im := range f.Imports {
		last = max(last, im.Line)
		for _, name := range im.Used {
			used[name] = true
		}
		if f.Language == code.Rust && im.Name != "" {
			real[im.Name] = im.Path[strings.LastIndexByte(im.Path, ':')+1:]
		}
	}
	if len(used) == 0 {
		return real
	}
	// The two words before the current one, in the lines of the imports.
	before, beforeThat := "", ""
	for _, t := range f.Tokens {
		if int(t.Line) > last+maxImportLines {
			break
		}
		word := f.Of(t)
		if before == "as" && t.Kind == code.Name && used[beforeThat] {
			real[word] = beforeThat
		}
		before, beforeThat = word, before
	}
	return real
}

// maxImportLines is the number of lines after the beginning of the last import that are
// searched for "as".
const maxImportLines = 50

// moduleName is the name of a file's module in Python.
func moduleName(p string) string {
	name := strings.TrimSuffix(strings.TrimSuffix(path.Base(p), ".pyi"), ".py")
	if name == "__init__" {
		return path.Base(dirOf(p))
	}
	return name
}

// importName returns the name by which a file refers to what it imports.
func importName(l code.Language, im code.Import) string {
	if im.Name != "" {
		return im.Name
	}
	p := plainPath(im.Path)
	switch l {
	case code.Go:
		base := path.Base(p)
		if v := strings.TrimPrefix(base, "v"); v != base && strings.Trim(v, "0123456789") == "" && v != "" {
			base = path.Base(path.Dir(p)) // the last part is a major version
		}
		base, _, _ = strings.Cut(base, ".v") // such as gopkg.in/yaml.v3
		return strings.ReplaceAll(strings.TrimPrefix(base, "go-"), "-", "_")
	case code.Rust:
		return p[strings.LastIndexByte(p, ':')+1:]
	case code.Python, code.Java:
		return p[strings.LastIndexByte(p, '.')+1:]
	case code.TypeScript, code.TSX, code.JavaScript, code.C, code.CPP, code.Shell, code.Other:
	}
	return path.Base(p)
}

// method finds the method of a type or of its bases, up to depth steps.
func (x *index) method(s *scope, file int, owner, name string, depth int) ([]ref, Sure) {
	owner = lastPart(owner)
	if owner == "" || depth == 0 {
		return nil, Possible
	}
	types := x.typesNamed(s, x.files[file], owner)
	for _, t := range types {
		if found := x.inFiles([]int{t.file}, name, owner); len(found) > 0 {
			return found, Certain
		}
	}
	// A method can be declared where its type is not: in an impl of Rust, or in a file of
	// C++.
	if found := x.inFiles(s.own, name, owner); len(found) > 0 {
		return found, Certain
	}
	for _, t := range types {
		for _, base := range x.files[t.file].Types[t.at].Bases {
			if found, _ := x.method(s, file, baseName(base), name, depth-1); len(found) > 0 {
				return found, Likely
			}
		}
	}
	return nil, Possible
}

// typesNamed finds the types that a name can mean: the types of the scope, or else the only
// type of the project with this name.
func (x *index) typesNamed(s *scope, f *code.File, name string) (found []ref) {
	all := x.types[name]
	if len(all) == 0 {
		return nil
	}
	for _, files := range [][]int{s.own, s.used[name], s.names[name], s.all} {
		if found = x.typesInFiles(files, name); len(found) > 0 {
			return found
		}
	}
	if len(all) > maxAll {
		return nil
	}
	x.work += len(all)
	for _, r := range all {
		if family(x.files[r.file].Language) == family(f.Language) {
			found = append(found, r)
		}
	}
	if len(found) > 1 {
		return nil
	}
	return found
}

// reaches reports whether a name in a scope can mean a declaration in the file.
func (x *index) reaches(s *scope, name string, file int) bool {
	return x.grouped(s.own, file) || x.grouped(s.used[name], file) || x.grouped(s.names[name], file) || x.grouped(s.all, file)
}

// grouped reports whether a file is in the same group as one of the files.
func (x *index) grouped(files []int, file int) bool {
	x.work += len(files)
	return slices.ContainsFunc(files, func(i int) bool { return x.group[i] == x.group[file] })
}

// imported reports whether a file was imported by any name.
func (x *index) imported(s *scope, file int) bool {
	for _, files := range s.names {
		if x.grouped(files, file) {
			return true
		}
	}
	return false
}

// lastPart returns the part of a name after its last dot or colon.
func lastPart(name string) string {
	for i := len(name); i > 0; i-- {
		if c := name[i-1]; c == '.' || c == ':' {
			return name[i:]
		}
	}
	return name
}

// baseName returns the name of a base without its qualifiers and arguments: vector for
// std::vector<int>, Type for pkg.Type[K].
func baseName(base string) string {
	if i := strings.IndexAny(base, "<[("); i >= 0 {
		base = base[:i]
	}
	return strings.TrimLeft(lastPart(base), "*&' ")
}
