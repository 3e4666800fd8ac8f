package graph

import (
	"belljar.dev/internal/toolkit/code"
)

// index finds declarations by their names.
type index struct {
	*resolver

	funcs map[string][]ref // by name
	types map[string][]ref // by name
}

// implementation is the kind of a symbol that gives bases to a type that is declared
// elsewhere: the impl of a trait.
const implementation = "impl"

// ref is a declaration: the file and the index in its Funcs or Types.
type ref struct{ file, at int }

func newIndex(files []*code.File) *index {
	x := &index{newResolver(files), make(map[string][]ref), make(map[string][]ref)}
	for i, f := range files {
		for j := range f.Funcs {
			x.funcs[f.Funcs[j].Name] = append(x.funcs[f.Funcs[j].Name], ref{i, j})
		}
		for j := range f.Types {
			if f.Types[j].Kind != implementation {
				x.types[f.Types[j].Name] = append(x.types[f.Types[j].Name], ref{i, j})
			}
		}
	}
	return x
}
