package graph

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
)

// Confidence is how sure it is that nothing reaches a function.
type Confidence string

// The confidences that nothing reaches a function.
const (
	High   Confidence = "high"   // no way to the function is known
	Medium Confidence = "medium" // something that the text does not show could reach the function
	Low    Confidence = "low"    // code outside the project's text can call the function: it is exported, its class has a base, or it is in testdata
)

// Unreached is a function that nothing in the project reaches.
type Unreached struct {
	Path       string
	Name       string // label of the function
	Line       int    // line of its name
	First      int
	Last       int
	Confidence Confidence
	Reason     string // why nothing reaches it, and what could reach it nevertheless
}

// Dead finds the functions that nothing reaches, those of high confidence first. It needs
// all files of the project, because each may contain the name of a function.
//
// It follows names from the roots: the entry points, the tests, the text outside of
// functions, and the functions of low confidence. A function counts as reached if a reached
// function contains its name where the name can mean this function: in Go as nameKey says,
// in other languages anywhere in the code or in a string of less than 4 KiB. So a function that
// is used as a value counts as reached, and a function that nothing reaches can count as reached
// because another function has the same name.
func Dead(ctx context.Context, files []*code.File) ([]Unreached, error) {
	return NewProject(files).Dead(ctx)
}

// Dead finds the functions that nothing reaches, as the function [Dead] does.
func (p *Project) Dead(ctx context.Context) ([]Unreached, error) {
	d := &dead{resolver: p.resolver}
	d.declare()
	if err := d.readAll(ctx); err != nil {
		return nil, err
	}
	d.walk()
	return d.list(), ctx.Err()
}

// nameKey is a name and the place that declares it. In Go the place is a package; in other
// languages it is all files of languages that can name each other's functions.
type nameKey struct {
	where string
	name  string
}

// methods is the place of all methods of Go: which method a name means depends on types.
const methods = "go methods"

// dead is one search for functions that nothing reaches.
type dead struct {
	*resolver

	funcs  []candidate
	first  []int             // the index in funcs of each file's first function
	byName map[nameKey]int32 // index in keys
	keys   []named
	names  map[string]bool // names of all functions
	shapes []bool          // set for the shape of each name in names; most words have another shape
	roots  []roots         // roots of each file
}

// roots is what the text of a file reaches outside of its functions.
type roots struct {
	names []string // names in assembly and in linker directives
	keys  []int32  // indexes in keys of the names in its text outside of functions
}

// candidate is a function with the names that it contains.
type candidate struct {
	file, at int
	key      int32   // index in dead.keys of its own name
	names    []int32 // indexes in dead.keys of the names that it contains
	reached  bool
	cap      Confidence // highest confidence that its report can have
	why      string     // reason for cap; may be empty
}

// named is a name in one place.
type named struct {
	funcs   []int32 // functions that have the name
	by      []int32 // functions that contain the name
	outside bool    // text outside of functions contains it
}

// declare collects the functions.
func (d *dead) declare() {
	n := 0
	for _, f := range d.files {
		n += len(f.Funcs)
	}
	d.byName, d.names, d.shapes = make(map[nameKey]int32, n), make(map[string]bool, n), make([]bool, 1<<16)
	d.funcs, d.keys = make([]candidate, 0, n), make([]named, 0, n)
	for i, f := range d.files {
		d.first = append(d.first, len(d.funcs))
		where := d.where(i)
		for j := range f.Funcs {
			fn := &f.Funcs[j]
			id := int32(len(d.funcs))
			key := nameKey{where, fn.Name}
			if f.Language == code.Go && fn.Owner != "" {
				key.where = methods
			}
			at, known := d.byName[key]
			if !known {
				at = int32(len(d.keys))
				d.byName[key] = at
				d.keys = append(d.keys, named{})
			}
			d.keys[at].funcs = append(d.keys[at].funcs, id)
			d.names[fn.Name] = true
			d.shapes[shape(fn.Name)] = true
			d.funcs = append(d.funcs, candidate{file: i, at: j, key: at})
		}
	}
}

// where returns the place of the functions of a file, as in a nameKey.
func (d *dead) where(file int) string {
	f := d.files[file]
	if f.Language != code.Go {
		return string(family(f.Language))
	}
	u := unitOf(f)
	if u.external {
		return "go tests " + u.dir
	}
	return "go " + u.dir
}

// readAll reads the files, as many at the same time as there are processors.
func (d *dead) readAll(ctx context.Context) error {
	d.roots = make([]roots, len(d.files))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(d.files)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(d.files) && ctx.Err() == nil; i = next.Add(1) - 1 {
				d.read(int(i))
			}
		})
	}
	wg.Wait()
	for id := range d.funcs {
		for _, at := range d.funcs[id].names {
			d.keys[at].by = append(d.keys[at].by, int32(id))
		}
	}
	for _, r := range d.roots {
		for _, at := range r.keys {
			d.keys[at].outside = true
		}
	}
	return ctx.Err()
}

// read collects the names that the functions of a file contain, and the roots of the file.
// It changes only what belongs to this file.
func (d *dead) read(file int) {
	f := d.files[file]
	own := &d.roots[file]
	own.names = outward(f)
	if !f.Language.Lexed() {
		return
	}
	r := reader{dead: d, file: f, where: d.where(file), id: d.first[file]}
	if f.Language == code.Go {
		r.imports = make(map[string]string)
		for _, im := range f.Imports {
			found := d.goImport(f.Path, im.Path).files
			if len(found) == 0 {
				continue
			}
			where := "go " + dirOf(d.files[found[0]].Path)
			switch im.Name {
			case "":
				for _, name := range d.packageNames(found) {
					r.imports[name] = where
				}
			case ".":
				r.dots = append(r.dots, where)
			default:
				r.imports[im.Name] = where
			}
		}
	}
	r.tokens()
	own.keys = r.outside
	for j := range f.Funcs {
		c := &d.funcs[d.first[file]+j]
		c.cap, c.why, c.reached = standing(f, &f.Funcs[j])
	}
}

// reader reads the tokens of one file.
type reader struct {
	*dead

	file    *code.File
	where   string
	id      int               // index in dead.funcs of the file's first function
	imports map[string]string // Go: places of imported packages, by the name of the import
	dots    []string          // Go: places whose names need no package name
	open    []int             // functions that contain the token, the innermost last
	loose   []bool            // for each function in open: it contains an interface
	outside []int32           // indexes in keys of the names in text outside of functions
}

// tokens reads the tokens of the file.
func (r *reader) tokens() {
	f := r.file
	next := 0
	before, beforeThat := "", ""
	own := false // the innermost function's own name has been read
	for at, t := range f.Tokens {
		for len(r.open) > 0 && at >= f.Funcs[r.open[len(r.open)-1]].End {
			r.open, r.loose = r.open[:len(r.open)-1], r.loose[:len(r.loose)-1]
		}
		for next < len(f.Funcs) && f.Funcs[next].Start <= at {
			if f.Funcs[next].End > at {
				r.open, r.loose = append(r.open, next), append(r.loose, false)
				own = false
			}
			next++
		}
		if t.Kind == code.Comment || t.Start >= t.End {
			continue
		}
		word := f.Of(t)
		switch {
		case t.Kind == code.Name || t.Kind == code.Keyword:
			if word == "interface" && len(r.loose) > 0 {
				r.loose[len(r.loose)-1] = true
			}
			if !r.shapes[shape(word)] || !r.names[word] {
				break
			}
			if n := len(r.open); n > 0 && !own && before != "." && f.Funcs[r.open[n-1]].Name == word {
				own = true // the function's own name in its declaration
				break
			}
			r.named(word, before, beforeThat)
		case f.Language != code.Go && t.Kind == code.String && t.End-t.Start < 4096:
			for name := range strings.FieldsFuncSeq(word, notInName) {
				if r.shapes[shape(name)] && r.names[name] {
					r.named(name, "", "")
				}
			}
		}
		before, beforeThat = word, before
	}
}

// named records that a word names each function that it can mean.
func (r *reader) named(word, before, beforeThat string) {
	if r.file.Language != code.Go {
		r.reach(nameKey{r.where, word})
		return
	}
	if before == "." {
		r.reach(nameKey{methods, word})
		if where, ok := r.imports[beforeThat]; ok {
			r.reach(nameKey{where, word})
		}
		return
	}
	r.reach(nameKey{r.where, word})
	for _, where := range r.dots {
		r.reach(nameKey{where, word})
	}
	if len(r.open) == 0 || r.loose[len(r.loose)-1] { // the word may be a method of an interface
		r.reach(nameKey{methods, word})
	}
}

// reach records that the innermost function contains the name. Outside of functions, the
// file itself contains it.
func (r *reader) reach(key nameKey) {
	at, known := r.byName[key]
	if !known {
		return
	}
	if len(r.open) == 0 {
		if n := len(r.outside); n == 0 || r.outside[n-1] != at {
			r.outside = append(r.outside, at)
		}
		return
	}
	from := int32(r.id + r.open[len(r.open)-1])
	if c := &r.funcs[from]; len(c.names) == 0 || c.names[len(c.names)-1] != at {
		c.names = append(c.names, at)
	}
}

// walk follows the names from the roots.
func (d *dead) walk() {
	out := make(map[string]bool)
	for _, r := range d.roots {
		for _, name := range r.names {
			out[name] = true
		}
	}
	var queue []int32
	for id := range d.funcs {
		c := &d.funcs[id]
		fn := &d.files[c.file].Funcs[c.at]
		c.reached = c.reached || out[fn.Name] || d.keys[c.key].outside
		if c.reached || c.cap == Low { // a function that others can call reaches the functions that it calls
			queue = append(queue, int32(id))
		}
	}
	seen := make([]bool, len(d.keys))
	for len(queue) > 0 {
		id := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, key := range d.funcs[id].names {
			if seen[key] {
				continue
			}
			seen[key] = true
			for _, to := range d.keys[key].funcs {
				if c := &d.funcs[to]; !c.reached {
					c.reached = true
					if c.cap != Low { // else it is in the queue already
						queue = append(queue, to)
					}
				}
			}
		}
	}
}

// list returns the functions that were not reached.
func (d *dead) list() (all []Unreached) {
	for id := range d.funcs {
		c := &d.funcs[id]
		if c.reached {
			continue
		}
		fn := &d.files[c.file].Funcs[c.at]
		u := Unreached{Path: d.files[c.file].Path, Name: cmp.Or(fn.Label, fn.Name), Line: fn.Line, First: fn.First, Last: fn.Last, Confidence: c.cap, Reason: "nothing in the project names it"}
		others := 0 // functions that contain the name, without the function itself
		for _, from := range d.keys[c.key].by {
			if int(from) == id {
				continue
			}
			u.Reason = "only functions that nothing reaches name it"
			switch {
			case u.Confidence != High:
			case others == maxSame:
				u.Confidence = Medium
				u.Reason += ", and they are too many to examine all of them"
			case d.funcs[from].cap != High:
				u.Confidence = Medium
				u.Reason += ", and one of them could be reached after all"
			}
			if others++; u.Confidence != High {
				break
			}
		}
		if c.why != "" {
			u.Reason += "; " + c.why
		}
		all = append(all, u)
	}
	rank := func(c Confidence) int { return slices.Index([]Confidence{High, Medium, Low}, c) }
	order.By(all, func(a, b *Unreached) int {
		return cmp.Or(rank(a.Confidence)-rank(b.Confidence), cmp.Compare(a.Path, b.Path), a.Line-b.Line)
	})
	return all
}
