package clone

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

// TestSimilarIsComplete checks that the filters lose no pair: similarFunctions finds all
// pairs that are found by comparing each function with each other one.
func TestSimilarIsComplete(t *testing.T) {
	functions := planting(t)
	random := rand.New(rand.NewPCG(7, 7))
	var files []*code.File
	for i, p := range functions[:300] {
		files = append(files, p.file(fmt.Sprint("a", i), p.text), p.file(fmt.Sprint("b", i), p.changed(random, 1+i%12)))
	}
	r, _ := newRow(context.Background(), files, 2)
	all, _ := r.functions(context.Background(), 20, 3, 2)
	for _, threshold := range []float64{0.4, 0.5, 0.614, 0.85, 1} {
		got, cut, err := similarFunctions(context.Background(), all, threshold, 2)
		if err != nil || cut {
			t.Fatalf("threshold %v: cut %v, error %v", threshold, cut, err)
		}
		var want []alike
		for i := range all {
			for j := range i {
				if s := jaccard(all[j].set, all[i].set, 0); s >= threshold {
					want = append(want, alike{j, i, s})
				}
			}
		}
		// Of functions with the same set, only the first is compared with others.
		first := make(map[uint64]int)
		want = slices.DeleteFunc(want, func(p alike) bool {
			a, b := p.a, p.b
			for _, i := range []int{a, b} {
				if _, ok := first[all[i].sum]; !ok {
					first[all[i].sum] = slices.IndexFunc(all, func(f function) bool { return f.sum == all[i].sum })
				}
			}
			same := all[a].sum == all[b].sum
			return first[all[a].sum] != a || !same && first[all[b].sum] != b
		})
		slices.SortFunc(want, func(p, q alike) int { return (p.a-q.a)*len(all) + p.b - q.b })
		if !slices.Equal(got, want) {
			t.Errorf("threshold %v: got %d pairs, want %d", threshold, len(got), len(want))
		}
		if len(want) < 3 {
			t.Errorf("threshold %v: %d pairs, want more to compare", threshold, len(want))
		}
	}
}

// TestIdioms checks that the same function, written in another way, has the same tokens.
func TestIdioms(t *testing.T) {
	for _, tt := range []struct {
		language code.Language
		a, b     string
		same     bool
	}{
		{code.Go, "i++; f(i)", "i += 1; f(i)", true},
		{code.Go, "i++; f(i)", "i = i + 1; f(i)", true},
		{code.Go, "x -= y * 2", "x = x - y*2", true},
		{code.Go, "if a < b { return }", "if b > a { return }", true},
		{code.Go, "if (a <= b) { return (c) }", "if b >= a { return c }", true},
		{code.Go, "x := f(y)", "var x = f(y)", true},
		{code.Go, "f(a, b, c,)", "f(a, b, c)", true},
		{code.JavaScript, "const x = null; if (x == y) {}", "let x = true\nif (x == y) {}", true},
		{code.JavaScript, "if (x === y) {}; f(x !== y)", "if (x == y) {}; f(x != y)", true},
		{code.JavaScript, "while (a) { b(); }", "for (;a;) { b() }", true},
		{code.Go, "fn := f(def, loop, not)", "g := f(a, b, c)", true},
		{code.Go, "let, auto = self, final", "a, b = c, d", true},
		{code.Python, "func = mut", "a = b", true},
		{code.Java, "var x = f(y);", "x = f(y);", true},
		{code.CPP, "auto x = a and not b;", "x = a && !b;", true},
		{code.Rust, "let mut x = f(y);", "x = f(y);", true},
		{code.Rust, "loop { b() }", "while { b() }", true},
		{code.Python, "def f(a): pass", "x f(a): pass", false},
		{code.Go, "x = f(y)", "x = (y)", false},
		{code.Go, "if a < b { return }", "if a == b { return }", false},
		{code.Go, "i++", "i--", false},
		{code.Go, "x = a + b", "x = a * b", false},
	} {
		var rows [2][]uint32
		for i, text := range []string{tt.a, tt.b} {
			f := lex.Parse("x", tt.language, text)
			r, _ := newRow(context.Background(), []*code.File{f}, 1)
			var w idioms
			w.rewrite(r, 0, span{0, len(r.canon)})
			rows[i] = slices.Clone(w.tokens)
		}
		if same := slices.Equal(rows[0], rows[1]); same != tt.same {
			t.Errorf("%s and %s: same tokens %v, want %v", tt.a, tt.b, same, tt.same)
		}
	}
}

// TestBoundsOfSimilar checks that each bound of the comparison is reported if it cuts the
// search.
func TestBoundsOfSimilar(t *testing.T) {
	// made returns n functions, each with a set of 20 runs: rest returns run k of function
	// i.
	made := func(n int, rest func(i, k int) uint64) (all []function) {
		for i := range n {
			f := function{sum: uint64(i) + 1}
			for k := range 20 {
				f.set = append(f.set, rest(i, k))
			}
			f.bits = newSketch(f.set)
			all = append(all, f)
		}
		return all
	}
	own := func(i, k int) uint64 { return uint64(i*100 + k + 10_000) }
	for _, tt := range []struct {
		name string
		all  []function
		cut  bool
	}{
		{"as many alike as are kept", made(maxAlike+1, func(i, k int) uint64 {
			if k == 19 {
				return own(i, k)
			}
			return uint64(k)
		}), false},
		{"more alike", made(maxAlike+2, func(i, k int) uint64 {
			if k == 19 {
				return own(i, k)
			}
			return uint64(k)
		}), true},
		{"as many with one run as are kept", made(maxPostings, func(i, k int) uint64 {
			if k == 0 {
				return 1
			}
			return own(i, k)
		}), false},
		{"more with one run", made(maxPostings+1, func(i, k int) uint64 {
			if k == 0 {
				return 1
			}
			return own(i, k)
		}), true},
		{"more candidates by two runs", made(maxCandidates+2, func(i, k int) uint64 {
			if k == 0 && i <= maxCandidates {
				return uint64(1 + i%2)
			}
			if k < 2 && i > maxCandidates { // shares a run with each function before
				return uint64(1 + k)
			}
			return own(i, k)
		}), true},
	} {
		if _, cut, err := similarFunctions(context.Background(), tt.all, 0.6, 2); err != nil || cut != tt.cut {
			t.Errorf("%s: cut %v, error %v, want cut %v", tt.name, cut, err, tt.cut)
		}
	}
}
