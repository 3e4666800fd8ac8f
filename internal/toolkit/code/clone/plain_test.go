package clone

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

// TestPlantedClonesWithoutLexer checks that copies are also found in languages without a
// lexer, one language of each family of syntax, and that few functions that are not copies
// are called copies.
func TestPlantedClonesWithoutLexer(t *testing.T) {
	const n = 60
	random := rand.New(rand.NewPCG(22, 5))
	for language, like := range map[code.Language]code.Language{"csharp": code.TypeScript, "kotlin": code.Rust, "php": code.TypeScript, "ruby": code.Python, "perl": code.TypeScript, "swift": code.Rust} {
		var functions []planted
		var originals []*code.File
		path := func(i int) string { return fmt.Sprintf("original/%d", i) }
		for i := range n {
			w := writer{random: random, language: like}
			// renamed would take these words for names
			functions = append(functions, planted{like, strings.NewReplacer(" of ", " in ", "let ", "const ").Replace(w.function())})
			originals = append(originals, lex.Parse(path(i), language, functions[i].text))
		}
		for _, tt := range []struct {
			kind Kind
			copy func(planted) string
			want int
		}{
			{Exact, func(p planted) string { return p.text }, n},
			{Renamed, func(p planted) string { return p.renamed(random) }, n * 98 / 100},
			{Gapped, func(p planted) string { return p.changed(random, 1) }, n * 95 / 100},
		} {
			var copies []*code.File
			for i, p := range functions {
				copies = append(copies, lex.Parse(fmt.Sprintf("copy/%d", i), language, tt.copy(p)))
			}
			res, err := Find(context.Background(), slices.Concat(originals, copies), Options{Kinds: []Kind{tt.kind}})
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			for i, c := range copies {
				for _, one := range res.Clones {
					if slices.ContainsFunc(one.Places, func(p Place) bool { return p.Path == path(i) }) && covers(placesOf(one, c.Path), c) {
						got++
						break
					}
				}
			}
			t.Logf("%s: %s: %d of %d", language, tt.kind, got, n)
			if got < tt.want {
				t.Errorf("%s: %s clones: found %d of %d copies, want %d", language, tt.kind, got, n, tt.want)
			}
		}
		alone, err := Find(context.Background(), originals, Options{Kinds: []Kind{Exact, Renamed, Gapped}})
		if err != nil {
			t.Fatal(err)
		}
		if pairs := n * (n - 1) / 2; len(alone.Clones)*1000 > 3*pairs {
			t.Errorf("%s: %d clones among %d pairs of functions that are not copies", language, len(alone.Clones), pairs)
		}
	}
}

// placesOf returns the places of a clone in a file.
func placesOf(c Clone, path string) (all []Place) {
	for _, p := range c.Places {
		if p.Path == path {
			all = append(all, p)
		}
	}
	return all
}
