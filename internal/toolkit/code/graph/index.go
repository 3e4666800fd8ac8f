package graph

import (
	"sync"

	"belljar.dev/internal/toolkit/code"
)

// Project is the files of a project, with what finds their declarations. What a file imports
// is resolved among the files alone: a go.mod, a Cargo.toml, a tsconfig.json and assembly
// belong to them: files of languages without a lexer. Its methods may be called at the
// same time.
type Project struct {
	*resolver

	index func() *index // made once it is needed
}

// NewProject looks where files stand.
func NewProject(files []*code.File) *Project {
	p := &Project{resolver: newResolver(files)}
	p.index = sync.OnceValue(func() *index { return newIndex(p.resolver) })
	return p
}

// index finds declarations by their names.
type index struct {
	*resolver

	funcs   map[string][]ref // by name
	types   map[string][]ref // by name
	group   []int            // of each file: the first file of its package of Go, else the file
	funcsIn map[owned][]ref
	typesIn map[groupName][]ref
	work    int // how many declarations were looked at

	inlines  [][]inline  // of each file of Rust, the modules that it contains
	declared [][]modDecl // of each file of Rust, the modules that it declares
	meanings []meaning   // of each file
}

// meaning is what the imports of a file mean, once somebody asks for it.
type meaning struct {
	once    sync.Once
	targets [][]target // of each import
	scope   *scope
}

// groupName is a name in a group of files.
type groupName struct {
	group int
	name  string
}

// owned is the name of a function and of what holds it, in a group of files.
type owned struct {
	group       int
	owner, name string
}

// Limits of a search for declarations. A name that more have is not resolved.
const (
	maxSame = 64          // in one group of files
	maxAll  = 2000        // in the project, for a name that says no more
	maxWork = 300_000_000 // declarations that one graph looks at
)

// implementation is the kind of a symbol that gives bases to a type that is declared
// elsewhere: the impl of a trait.
const implementation = "impl"

// ref is a declaration: the file and the index in its Funcs or Types.
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
			if all := x.funcsIn[key]; len(all) <= maxSame { // of more, none is found
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

// inFiles finds the functions of a name and one of the owners in files and what is in a
// group with them.
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

// typesInFiles finds the types of a name in files and what is in a group with them.
func (x *index) typesInFiles(files []int, name string) (found []ref) {
	x.work += len(files)
	for _, i := range files {
		if found = append(found, x.typesIn[groupName{x.group[i], name}]...); len(found) > maxSame {
			return nil
		}
	}
	return found
}

// everywhere are the functions of a name in the whole project; none for a name that too
// many have.
func (x *index) everywhere(name string) []ref {
	all := x.funcs[name]
	if len(all) > maxAll {
		return nil
	}
	x.work += len(all)
	return all
}
