package graph

import (
	"context"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// inheritance links types to the types that they extend, implement or embed.
func (b *builder) inheritance(ctx context.Context) error {
	for i, f := range b.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		var s *scope
		for j, t := range f.Types {
			for _, base := range t.Bases {
				if s == nil {
					s = b.scope(i)
				}
				found, sure := b.typeNamed(i, s, base)
				if len(found) == 0 {
					b.leave(base, i)
				}
				from := b.typeNodes[i][j]
				if t.Kind == implementation {
					if of := b.typesNamed(s, f, baseName(t.Name)); len(of) > 0 {
						from = b.typeNodes[of[0].file][of[0].at]
					}
				}
				for _, to := range found {
					b.link(from, b.typeNodes[to.file][to.at], "inherits", sure, t.Line)
				}
			}
		}
	}
	return nil
}

// typeNamed finds the types that a name with its package can mean.
func (x *index) typeNamed(file int, s *scope, full string) ([]ref, Sure) {
	f, name := x.files[file], baseName(full)
	if real := s.real[name]; real != "" && name == full {
		name, full = real, real
	}
	before := strings.TrimRight(full[:max(0, strings.LastIndex(full, name))], ".:")
	before = before[strings.LastIndexAny(before, ".:*&( ")+1:]
	if before != "" {
		found := x.typesInFiles(s.names[before], name)
		switch {
		case len(found) > 0:
			return found, Certain
		case f.Language == code.Go || s.others[before]:
			return nil, Possible // a type of a package outside of the project
		}
	}
	if s.others[name] {
		return nil, Possible
	}
	found := x.typesNamed(s, f, name)
	for _, r := range found {
		if !x.reaches(s, name, r.file) {
			return found, Possible
		}
	}
	if f.Language == code.C || f.Language == code.CPP {
		return found, Likely
	}
	return found, Certain
}

// uses links functions to the types that they name.
func (b *builder) uses(ctx context.Context) error {
	shapes := make([]bool, 1<<16) // set for the shape of each type's name; most names have another shape
	for name := range b.types {
		shapes[shape(name)] = true
	}
	for i, f := range b.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(f.Funcs) == 0 || len(b.types) == 0 {
			continue
		}
		if b.work > maxWork {
			b.tired = true
			break
		}
		s := b.scope(i)
		seen := make(map[string][]ref) // types, by the names that this file contains
		for j := range f.Funcs {
			fn := &f.Funcs[j]
			for at := max(fn.Start, 0); at < min(fn.End, len(f.Tokens)); at++ {
				t := f.Tokens[at]
				if t.Kind != code.Name {
					continue
				}
				name := f.Of(t)
				if !shapes[shape(name)] {
					continue
				}
				found, known := seen[name]
				if !known {
					all := b.types[name]
					if len(all) > maxAll {
						all = nil
					}
					for _, r := range all {
						if family(b.files[r.file].Language) == family(f.Language) && b.reaches(s, name, r.file) || b.imported(s, r.file) {
							found = append(found, r)
						}
					}
					if len(found) > maxByName {
						found = nil
					}
					seen[name] = found
				}
				for _, r := range found {
					b.link(b.funcNodes[i][j], b.typeNodes[r.file][r.at], "uses", Likely, int(t.Line))
				}
			}
		}
	}
	return nil
}
