package graph

import (
	"sync"

	"belljar.dev/internal/toolkit/code"
)

// Project is the files of a project, with the means to find their declarations. An import
// is resolved only among these files. So they must include the files of languages without a
// lexer that imports and calls depend on: go.mod, Cargo.toml, tsconfig.json and assembly.
// The methods may be called at the same time.
type Project struct {
	*resolver

	index func() *index // built at the first call
}

// NewProject returns a project and records the directories of its files.
func NewProject(files []*code.File) *Project {
	p := &Project{resolver: newResolver(files)}
	p.index = sync.OnceValue(func() *index { return newIndex(p.resolver) })
	return p
}

// index finds declarations by their names.
type index struct {
	*resolver

	funcs   map[string][]ref // functions by name
	types   map[string][]ref // types by name
	group   []int            // for each file: the first file of its package of Go, else the file itself
	funcsIn map[owned][]ref
	typesIn map[groupName][]ref
	work    int // number of declarations that were examined

	inlines  [][]inline  // for each file of Rust, the modules that it contains
	declared [][]modDecl // for each file of Rust, the modules that it declares
	meanings []meaning   // meaning of each file's imports
}

// meaning is what the imports of a file mean. It is computed at the first use.
type meaning struct {
	once    sync.Once
	targets [][]target // targets of each import
	scope   *scope
}

// groupName is the name of a type in a group of files.
type groupName struct {
	group int
	name  string
}

// owned is the name of a function and of its owner, in a group of files.
type owned struct {
	group       int
	owner, name string
}

// Limits of a search for declarations. A name is not resolved if more declarations have it.
const (
	maxSame = 64          // declarations of one name in one group of files
	maxAll  = 2000        // declarations of one name in the project, if only the name is known
	maxWork = 300_000_000 // declarations that are examined for one graph
)

// implementation is the kind of a symbol that gives bases to a type that is declared
// elsewhere, such as the impl of a trait.
const implementation = "impl"

// ref is a declaration: the index of its file, and its index in the file's Funcs or Types.
type ref struct{ file, at int }

func newIndex(r *resolver) *index {
	x := &index{
		resolver: r, funcs: make(map[string][]ref), types: make(map[string][]ref),
		funcsIn: make(map[owned][]ref), typesIn: make(map[groupName][]ref),
		inlines: make([][]inline, len(r.files)), declared: make([][]modDecl, len(r.files)), meanings: make([]meaning, len(r.files)),
	}
	for i, f := range r.files {
		group := i
		if f.Language == code.Go {
			group = x.goes[unitOf(f)][0]
		}
		if f.Language == code.Rust {
			x.inlines[i], x.declared[i] = modulesIn(f)
		}
		x.group = append(x.group, group)
		for j := range f.Funcs {
			name := f.Funcs[j].Name
			x.funcs[name] = append(x.funcs[name], ref{i, j})
			key := owned{group, f.Funcs[j].Owner, name}
			if all := x.funcsIn[key]; len(all) <= maxSame { // a name with more functions than maxSame is not resolved
				x.funcsIn[key] = append(all, ref{i, j})
			}
		}
		for j := range f.Types {
			if name := f.Types[j].Name; f.Types[j].Kind != implementation {
				x.types[name] = append(x.types[name], ref{i, j})
				if all := x.typesIn[groupName{group, name}]; len(all) <= maxSame {
					x.typesIn[groupName{group, name}] = append(all, ref{i, j})
				}
			}
		}
	}
	return x
}

// inFiles finds the functions that have a name and one of the owners. It searches the files
// and their groups.
func (x *index) inFiles(files []int, name string, owners ...string) (found []ref) {
	x.work += len(files)
	for _, i := range files {
		for _, owner := range owners {
			found = append(found, x.funcsIn[owned{x.group[i], owner, name}]...)
			if len(found) > maxSame {
				return nil
			}
		}
	}
	return found
}

// typesInFiles finds the types of a name in the files and in their groups.
func (x *index) typesInFiles(files []int, name string) (found []ref) {
	x.work += len(files)
	for _, i := range files {
		if found = append(found, x.typesIn[groupName{x.group[i], name}]...); len(found) > maxSame {
			return nil
		}
	}
	return found
}

// everywhere returns the functions of a name in the whole project; nil if too many
// functions have the name.
func (x *index) everywhere(name string) []ref {
	all := x.funcs[name]
	if len(all) > maxAll {
		return nil
	}
	x.work += len(all)
	return all
}
