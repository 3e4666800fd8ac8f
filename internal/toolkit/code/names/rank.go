package names

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
)

// Limits of a ranking. Entries beyond them are left out, with a gap.
const (
	maxName    = 128     // letters of a name
	maxNames   = 1 << 17 // different names
	maxTop     = 1000
	maxSymbols = 20 // symbols with one name that a hit lists
)

// Scope names the symbols that are compared.
type Scope string

// The scopes. The zero value means all of them.
const (
	All       Scope = "all"
	Functions Scope = "functions"
	Types     Scope = "types"
	Variables Scope = "variables"
)

// Options say what is ranked. The zero value means the defaults.
type Options struct {
	TopK     int  // number of hits, at most 1000; 0 means 10
	Phonetic bool // compare sounds, too
	Scope    Scope
}

// Symbol is a name with its place.
type Symbol struct {
	Name  string `json:"name" jsonschema:"its name"`
	Path  string `json:"path" jsonschema:"path from project_path"`
	Line  int    `json:"line" jsonschema:"where it is declared"`
	Scope Scope  `json:"scope" jsonschema:"functions, types or variables"`
	Owner string `json:"owner,omitempty" jsonschema:"type that it belongs to"`
}

// Hit is a name that resembles the query.
type Hit struct {
	Name    string   `json:"name" jsonschema:"a name of the project"`
	Score   float64  `json:"score" jsonschema:"1 for the query itself"`
	Parts   Parts    `json:"parts" jsonschema:"what the score is made of"`
	Count   int      `json:"count" jsonschema:"symbols with this name"`
	Symbols []Symbol `json:"symbols" jsonschema:"the first 20 of them, by path and line"`
}

// Result is the names that resemble a query most.
type Result struct {
	Hits     []Hit      `json:"hits"`     // the query itself first, then by score
	Compared int        `json:"compared"` // number of different names
	Gaps     []code.Gap `json:"gaps,omitempty"`
}

// Symbols returns the names that files declare.
func Symbols(files []*code.File) []Symbol {
	var all []Symbol
	add := func(f *code.File, scope Scope, s code.Symbol) {
		if s.Name != "" {
			all = append(all, Symbol{Name: s.Name, Path: f.Path, Line: s.Line, Scope: scope, Owner: s.Owner})
		}
	}
	for _, f := range files {
		for _, s := range f.Funcs {
			add(f, Functions, s.Symbol)
		}
		for _, s := range f.Types {
			add(f, Types, s)
		}
		for _, s := range f.Vars {
			add(f, Variables, s)
		}
	}
	return all
}

// Rank returns the names of symbols that resemble query most. A name without a letter in
// common with query is left out.
func Rank(ctx context.Context, query string, symbols []Symbol, o Options) (Result, error) {
	switch {
	case strings.TrimSpace(query) == "":
		return Result{}, errors.New("query: must not be empty")
	case utf8.RuneCountInString(query) > maxName:
		return Result{}, fmt.Errorf("query: longer than %d letters", maxName)
	case o.TopK < 0 || o.TopK > maxTop:
		return Result{}, fmt.Errorf("top_k %d: must be from 1 to %d", o.TopK, maxTop)
	}
	switch o.Scope {
	case "", All, Functions, Types, Variables:
	default:
		return Result{}, fmt.Errorf("scope %q: must be functions, types, variables or all", o.Scope)
	}
	if o.TopK == 0 {
		o.TopK = 10
	}
	var res Result
	byName, names, cut := collect(symbols, o.Scope)
	res.Gaps = cut
	res.Compared = len(names)
	c := newComparer(query, o.Phonetic)
	for i, name := range names {
		if i%1024 == 0 && ctx.Err() != nil {
			return res, context.Cause(ctx)
		}
		parts := c.compare(name)
		score := parts.score()
		if score == 0 {
			continue
		}
		res.Hits = append(res.Hits, Hit{Name: name, Score: score, Parts: parts})
		if len(res.Hits) >= 4*maxTop { // so that not all names are sorted at once
			res.Hits = best(res.Hits, o.TopK)
		}
	}
	res.Hits = best(res.Hits, o.TopK)
	for i := range res.Hits {
		h := &res.Hits[i]
		of := byName[h.Name]
		order.By(of, func(a, b *Symbol) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), strings.Compare(string(a.Scope), string(b.Scope)), strings.Compare(a.Owner, b.Owner))
		})
		h.Count, h.Symbols = len(of), of[:min(len(of), maxSymbols):min(len(of), maxSymbols)]
	}
	return res, nil
}

// collect returns the symbols of a scope by their names, and the names in the order of
// the symbols.
func collect(symbols []Symbol, scope Scope) (byName map[string][]Symbol, names []string, gaps []code.Gap) {
	byName = make(map[string][]Symbol)
	long, many := 0, 0
	for _, s := range symbols {
		if scope != "" && scope != All && s.Scope != scope {
			continue
		}
		if len(s.Name) > maxName && utf8.RuneCountInString(s.Name) > maxName {
			long++
			continue
		}
		if byName[s.Name] == nil {
			if len(names) == maxNames {
				many++
				continue
			}
			names = append(names, s.Name)
		}
		byName[s.Name] = append(byName[s.Name], s)
	}
	if long > 0 {
		gaps = append(gaps, code.Gap{Field: "hits", Reason: fmt.Sprintf("%d symbols have names of more than %d letters", long, maxName)})
	}
	if many > 0 {
		gaps = append(gaps, code.Gap{Field: "hits", Reason: fmt.Sprintf("%d symbols beyond the first %d names were not compared", many, maxNames)})
	}
	return byName, names, gaps
}

// best sorts hits, and keeps the first n.
func best(hits []Hit, n int) []Hit {
	order.By(hits, func(a, b *Hit) int {
		if a.Parts.Exact != b.Parts.Exact {
			if a.Parts.Exact {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Name, b.Name))
	})
	return hits[:min(n, len(hits))]
}
