package graph

import (
	"context"
	"path"
	"slices"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// maxByName is how many declarations of one name a call is linked to that says no more
// than the name. A call of a name that more have is not resolved.
const maxByName = 5

// scope is what the names of a file can mean.
type scope struct {
	own    []int            // the files whose names need no import, the file itself first
	names  map[string][]int // files by the name under which they were imported
	used   map[string][]int // files by a name that was taken from them
	all    []int            // files of which all names were taken
	others map[string]bool  // names of imports that lead out of the project
}

// scopeOf reads the imports of a file.
func (x *index) scopeOf(file int) *scope {
	f := x.files[file]
	s := &scope{own: []int{file}, names: make(map[string][]int), used: make(map[string][]int), others: make(map[string]bool)}
	switch f.Language {
	case code.Go:
		s.own = x.goes[unitOf(f)]
	case code.Java:
		s.own = append(s.own, x.java[javaPackage(f)+".*"]...)
	case code.Rust, code.Python, code.TypeScript, code.TSX, code.JavaScript, code.C, code.CPP, code.Shell, code.Other:
	}
	for _, im := range f.Imports {
		name := importName(f.Language, im)
		targets := x.resolve(file, im)
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
					s.names[used] = append(s.names[used], t.files...) // a module of Rust, a class of Java
				}
				if f.Language == code.Rust || f.Language == code.Java {
					s.used[name] = append(s.used[name], t.files...)
				}
			}
		}
	}
	return s
}

// moduleName is the name of a file's module in Python.
func moduleName(p string) string {
	name := strings.TrimSuffix(strings.TrimSuffix(path.Base(p), ".pyi"), ".py")
	if name == "__init__" {
		return path.Base(dirOf(p))
	}
	return name
}

// importName is the name by which a file calls what it imports.
func importName(l code.Language, im code.Import) string {
	if im.Name != "" {
		return im.Name
	}
	p := plainPath(im.Path)
	switch l {
	case code.Go:
		base := path.Base(p)
		if v := strings.TrimPrefix(base, "v"); v != base && strings.Trim(v, "0123456789") == "" && v != "" {
			base = path.Base(path.Dir(p)) // a major version
		}
		base, _, _ = strings.Cut(base, ".v") // gopkg.in/yaml.v3
		return strings.ReplaceAll(strings.TrimPrefix(base, "go-"), "-", "_")
	case code.Rust:
		return p[strings.LastIndexByte(p, ':')+1:]
	case code.Python, code.Java:
		return p[strings.LastIndexByte(p, '.')+1:]
	case code.TypeScript, code.TSX, code.JavaScript, code.C, code.CPP, code.Shell, code.Other:
	}
	return path.Base(p)
}

// calls links functions to those that they call.
func (b *builder) calls(ctx context.Context) error {
	for i, f := range b.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(f.Funcs) == 0 {
			continue
		}
		s := b.scopeOf(i)
		for j := range f.Funcs {
			fn := &f.Funcs[j]
			known := variables(f, fn)
			for _, c := range fn.Calls {
				found, sure := b.callee(i, fn, s, known, c)
				if len(found) == 0 {
					b.g.Unresolved++
				}
				for _, to := range found {
					b.link(b.funcNodes[i][j], b.funcNodes[to.file][to.at], "calls", sure, c.Line)
				}
			}
		}
	}
	return nil
}

// callee finds the functions that a call can mean.
func (x *index) callee(file int, fn *code.Func, s *scope, known map[string]string, c code.Call) ([]ref, Sure) {
	f := x.files[file]
	of := c.Of[strings.LastIndexAny(c.Of, ".:")+1:]
	if of == "" {
		return x.plain(f, fn, s, c.Name)
	}
	if owner := known[of]; owner != "" || isSelf(f.Language, of) {
		if owner == "" {
			owner = fn.Owner
		}
		if found, sure := x.method(s, file, owner, c.Name, 8); len(found) > 0 {
			return found, sure
		}
	}
	if files, imported := s.names[of]; imported {
		if found := x.inFiles(files, c.Name, func(owner string) bool { return owner == "" || owner == of }); len(found) > 0 {
			return found, Certain
		}
		if f.Language == code.Go {
			return nil, Possible // a conversion, or a function of another build
		}
	}
	if s.others[of] {
		return nil, Possible
	}
	if found, sure := x.method(s, file, of, c.Name, 8); len(found) > 0 { // Type::new, Class.method
		return found, sure
	}
	// A value, whose type is not known here.
	var found []ref
	for _, r := range x.funcs[c.Name] {
		if other := x.files[r.file]; family(other.Language) == family(f.Language) && other.Funcs[r.at].Owner != "" {
			if found = append(found, r); len(found) > maxByName {
				return nil, Possible
			}
		}
	}
	return found, Possible
}

// plain finds the functions that a name without a dot can mean.
func (x *index) plain(f *code.File, fn *code.Func, s *scope, name string) ([]ref, Sure) {
	top := func(owner string) bool { return owner == "" }
	if found := x.inFiles(s.own, name, top); len(found) > 0 {
		return found, Certain
	}
	if f.Language == code.Java || f.Language == code.CPP {
		if found := x.inFiles(s.own, name, func(owner string) bool { return owner == fn.Owner }); len(found) > 0 {
			return found, Certain
		}
	}
	if found := x.inFiles(s.used[name], name, top); len(found) > 0 {
		return found, Certain
	}
	if found := x.inFiles(s.all, name, top); len(found) > 0 {
		return found, Certain
	}
	if s.others[name] {
		return nil, Possible
	}
	// A constructor.
	for _, r := range x.typesNamed(s, f, name) {
		var found []ref
		for _, made := range []string{"__init__", "constructor", name} {
			found = append(found, x.inFiles([]int{r.file}, made, func(owner string) bool { return owner == name })...)
		}
		if len(found) > 0 {
			return found, Likely
		}
	}
	if f.Language == code.C || f.Language == code.CPP { // linked from another file
		var found []ref
		for _, r := range x.funcs[name] {
			if other := x.files[r.file]; family(other.Language) == code.C && other.Funcs[r.at].Owner == "" && other.Funcs[r.at].Exported {
				found = append(found, r)
			}
		}
		switch {
		case len(found) == 1:
			return found, Likely
		case len(found) <= maxByName:
			return found, Possible
		}
	}
	return nil, Possible
}

// inFiles finds the functions of a name in files, with an owner that fits.
func (x *index) inFiles(files []int, name string, fits func(owner string) bool) (found []ref) {
	if len(files) == 0 {
		return nil
	}
	for _, r := range x.funcs[name] {
		if slices.Contains(files, r.file) && fits(x.files[r.file].Funcs[r.at].Owner) {
			found = append(found, r)
		}
	}
	return found
}

// method finds the method of a type, or of those that it is based on, up to a depth.
func (x *index) method(s *scope, file int, owner, name string, depth int) ([]ref, Sure) {
	owner = owner[strings.LastIndexAny(owner, ".:")+1:]
	if owner == "" || depth == 0 {
		return nil, Possible
	}
	types := x.typesNamed(s, x.files[file], owner)
	for _, t := range types {
		places := x.placesOf(t.file)
		if found := x.inFiles(places, name, func(of string) bool { return of == owner }); len(found) > 0 {
			return found, Certain
		}
	}
	// Methods can stand where the type does not: an impl of Rust, a file of C++.
	if found := x.inFiles(s.own, name, func(of string) bool { return of == owner }); len(found) > 0 {
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

// placesOf is the files that contain the methods of a type of a file.
func (x *index) placesOf(file int) []int {
	f := x.files[file]
	if f.Language == code.Go {
		return x.goes[unitOf(f)]
	}
	return []int{file}
}

// typesNamed finds the types that a name can mean: those of the scope, else the one of
// the project.
func (x *index) typesNamed(s *scope, f *code.File, name string) (found []ref) {
	all := x.types[name]
	for _, files := range [][]int{s.own, s.used[name], s.names[name], s.all} {
		for _, r := range all {
			if slices.Contains(files, r.file) {
				found = append(found, r)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
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

// isSelf reports whether a name is that of the value or the type of the method itself.
func isSelf(l code.Language, name string) bool {
	switch name {
	case "self", "Self":
		return l == code.Rust || l == code.Python
	case "cls":
		return l == code.Python
	case "this", "super":
		return family(l) == code.TypeScript || l == code.Java || l == code.CPP
	}
	return false
}

// variables are the types of the receiver and the parameters of a function of Go, by
// their names. Other languages say them in too many ways.
func variables(f *code.File, fn *code.Func) map[string]string {
	if f.Language != code.Go || fn.Start < 0 || fn.End > len(f.Tokens) {
		return nil
	}
	known := make(map[string]string)
	depth := 0
	var name string
	for _, t := range f.Tokens[fn.Start:min(fn.End, fn.Start+300)] {
		word := f.Of(t)
		switch {
		case word == "{" && depth == 0:
			return known
		case word == "(":
			depth++
			name = ""
		case word == ")":
			depth--
			name = ""
		case word == ",":
			name = ""
		case word == "[" || word == "func" || word == "map" || word == "chan" || word == "interface" || word == "struct":
			name = "-" // of another form
		case t.Kind == code.Name && depth == 1 && name == "":
			name = word
		case t.Kind == code.Name && depth == 1 && name != "-":
			known[name] = word // behind a dot the last one stays
		}
	}
	return known
}
