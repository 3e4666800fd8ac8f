package graph

import (
	"context"
	"slices"

	"belljar.dev/internal/toolkit/code"
)

// maxByName is the largest number of declarations that a call is linked to by its name
// alone. If more declarations have the name, the call is not resolved.
const maxByName = 5

// calls links functions to the functions that they call.
func (b *builder) calls(ctx context.Context) error {
	for i, f := range b.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(f.Funcs) == 0 {
			continue
		}
		if b.work > maxWork {
			b.tired = true
			break
		}
		s := b.scope(i)
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
	of := lastPart(c.Of)
	if of != "" && len(x.funcs[c.Name]) == 0 { // most calls lead out of the project
		return nil, Possible
	}
	if of == "" {
		name := c.Name
		if real := s.real[name]; real != "" {
			name = real
		}
		return x.plain(f, fn, s, name)
	}
	if real := s.real[of]; real != "" && s.names[of] == nil {
		of = real
	}
	if of == "super" && isSelf(f.Language, of) {
		return x.inherited(s, file, fn.Owner, c.Name)
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
		if found := x.inFiles(files, c.Name, "", of); len(found) > 0 {
			return found, Certain
		}
		if f.Language == code.Go {
			return nil, Possible // a conversion, or a function that only another build has
		}
	}
	if s.others[of] {
		return nil, Possible
	}
	if found, sure := x.method(s, file, of, c.Name, 8); len(found) > 0 { // for example Type::new or Class.method
		return found, sure
	}
	// The name before the dot is a value, whose type is not known here.
	return x.methods(c.Name, family(f.Language)), Possible
}

// methods returns the functions of a name that belong to types, in languages of a family;
// nil if too many functions have the name.
func (x *index) methods(name string, of code.Language) []ref {
	var found [maxByName]ref
	n := 0
	for _, r := range x.everywhere(name) {
		if other := x.files[r.file]; other.Funcs[r.at].Owner != "" && family(other.Language) == of {
			if n == len(found) {
				return nil
			}
			found[n] = r
			n++
		}
	}
	return slices.Clone(found[:n])
}

// inherited finds the method that a type has from its bases.
func (x *index) inherited(s *scope, file int, owner, name string) ([]ref, Sure) {
	for _, t := range x.typesNamed(s, x.files[file], owner) {
		for _, base := range x.files[t.file].Types[t.at].Bases {
			base = baseName(base)
			if real := s.real[base]; real != "" {
				base = real
			}
			if found, _ := x.method(s, file, base, name, 8); len(found) > 0 {
				return found, Likely
			}
		}
	}
	return nil, Possible
}

// plain finds the functions that a name without a dot can mean.
func (x *index) plain(f *code.File, fn *code.Func, s *scope, name string) ([]ref, Sure) {
	if len(x.funcs[name]) == 0 && len(x.types[name]) == 0 {
		return nil, Possible
	}
	if found := x.inFiles(s.own, name, ""); len(found) > 0 {
		return found, Certain
	}
	// The name can be a method of the same type, a function of the same inline module, or a
	// function that is declared in this function.
	var owners []string
	if f.Language == code.Java || f.Language == code.CPP || f.Language == code.Rust {
		owners = append(owners, fn.Owner)
	}
	for _, outer := range []string{fn.Name, fn.Label} {
		if f.Language != code.Go && outer != "" && !slices.Contains(owners, outer) {
			owners = append(owners, outer)
		}
	}
	if found := x.inFiles(s.own, name, owners...); len(found) > 0 {
		return found, Certain
	}
	if found := x.inFiles(s.used[name], name, ""); len(found) > 0 {
		return found, Certain
	}
	if found := x.inFiles(s.all, name, ""); len(found) > 0 {
		return found, Certain
	}
	if s.others[name] {
		return nil, Possible
	}
	// The name can be a type: then the call is of its constructor.
	for _, r := range x.typesNamed(s, f, name) {
		var found []ref
		for _, made := range []string{"__init__", "constructor", name} {
			found = append(found, x.inFiles([]int{r.file}, made, name)...)
		}
		if len(found) > 0 {
			return found, Likely
		}
	}
	if f.Language == code.C || f.Language == code.CPP { // a function of another file, which the linker finds
		var found []ref
		for _, r := range x.everywhere(name) {
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

// variables returns the types of the receiver and the parameters of a function of Go, by
// their names. For other languages it returns nil, because they write types in too many
// ways.
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
			name = "-" // a type of another form, for example a slice or a map
		case t.Kind == code.Name && depth == 1 && name == "":
			name = word
		case t.Kind == code.Name && depth == 1 && name != "-":
			known[name] = word // the last name after a dot is kept
		}
	}
	return known
}
