package defect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/graph"
	"belljar.dev/internal/toolkit/code/history"
	"belljar.dev/internal/toolkit/code/lex"
)

const (
	simple = "package m\nfunc alpha() {}\n"
	nested = "package m\nfunc alpha() { if true { if true { bravo() } } }\nfunc bravo() {}\n"
)

// whole returns a project of which everything was measured.
func whole(t testing.TB) Input {
	t.Helper()
	in := Input{
		Files:      []*code.File{lex.Parse("go.mod", code.Other, "module m"), lex.Parse("a.go", code.Go, simple), lex.Parse("b.go", code.Go, nested), lex.Parse("c.go", code.Go, "package m\nfunc charlie() { alpha() }\n"), lex.Parse("c_test.go", code.Go, "package m\nfunc TestX() {}\n")},
		History:    &history.History{Files: []history.File{{Path: "a.go", Score: 0.5}, {Path: "b.go", Score: 1}}},
		Duplicated: map[string]int{"a.go": 1},
		Coverage:   map[string]float64{"a.go": 0.75, "b.go": 0, "c.go": 1},
	}
	return in.with(t)
}

// with returns the input with the graph of its files.
func (in Input) with(t testing.TB) Input {
	t.Helper()
	g, err := graph.Build(t.Context(), in.Files, graph.Full)
	if err != nil {
		t.Fatal(err)
	}
	in.Graph = g
	return in
}

func ranked(t testing.TB, in Input, least float64) Result {
	t.Helper()
	r, err := Rank(t.Context(), in, least)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func of(t testing.TB, r Result, path string) File {
	t.Helper()
	i := slices.IndexFunc(r.Files, func(f File) bool { return f.Path == path })
	if i < 0 {
		t.Fatalf("no %s in %+v", path, r)
	}
	return r.Files[i]
}

func TestRank(t *testing.T) {
	r := ranked(t, whole(t), 0)
	if r.Model.Name != "rank" || r.Model.Reason == "" || len(r.Gaps) != 0 || len(r.Files) != 3 || r.Files[0].Path != "b.go" {
		t.Errorf("got %+v, want b.go first of 3", r)
	}
	got := map[string]float64{}
	for _, v := range of(t, r, "a.go").Vectors {
		got[v.Name] = v.Value
	}
	want := map[string]float64{"churn": 0.5, "complexity": 0, "coupling": 1, "test_coverage": 0.25, "duplication": 0.5, "name_quality": 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	b := of(t, r, "b.go")
	for _, v := range b.Vectors {
		if v.Name == "complexity" && (v.Value != 3 || v.Above != 1 || v.Contribution != 0.25) {
			t.Errorf("complexity of b.go: %+v", v)
		}
		if v.Name == "duplication" && (v.Value != 0 || v.Above != 0.25) { // same as c.go, below a.go
			t.Errorf("duplication of b.go: %+v", v)
		}
	}
	if b.Confidence != 1 || b.Missing != nil {
		t.Errorf("got %+v, want everything measured", b)
	}
}

// TestContributionsAddUp checks that the score is exactly the sum of the contributions of
// the vectors.
func TestContributionsAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	in := Input{History: &history.History{}, Duplicated: map[string]int{}, Coverage: map[string]float64{}}
	for i := range 100 {
		p := fmt.Sprintf("f%d.go", i)
		in.Files = append(in.Files, lex.Parse(p, code.Go, nested))
		in.History.Files = append(in.History.Files, history.File{Path: p, Score: r.Float64()})
		if i%3 > 0 {
			in.Coverage[p] = r.Float64()
		}
		in.Duplicated[p] = r.IntN(3)
	}
	for _, f := range ranked(t, in, 0).Files {
		sum := 0.0
		for _, v := range f.Vectors {
			if v.Contribution != v.Weight*v.Above || v.Above < 0 || v.Above > 1 || math.IsNaN(v.Value) {
				t.Errorf("%+v", v)
			}
			sum += v.Contribution
		}
		if sum != f.Score || f.Score > 1 || len(f.Vectors)+len(f.Missing) != vectors || f.Confidence != float64(len(f.Vectors))/vectors {
			t.Errorf("%+v: the contributions are %v", f, sum)
		}
	}
	weights := 0.0
	for _, f := range features() {
		weights += f.weight
	}
	if math.Abs(weights-1) > 1e-12 {
		t.Errorf("the weights add up to %v", weights)
	}
}

// TestNotMeasured checks that a measure that is missing lowers the confidence, is listed,
// and adds nothing.
func TestNotMeasured(t *testing.T) {
	in := whole(t)
	in.History, in.Graph, in.Duplicated, in.Coverage = nil, nil, nil, nil
	r := ranked(t, in, 0)
	a := of(t, r, "a.go")
	if want := []string{"churn", "coupling", "test_coverage", "duplication"}; !slices.Equal(a.Missing, want) || a.Confidence != 2./6 {
		t.Errorf("got %+v, want %q missing", a, want)
	}
	var fields []string
	for _, g := range r.Gaps {
		fields = append(fields, g.Field)
	}
	if !slices.Equal(fields, a.Missing) {
		t.Errorf("gaps %v, want %v", r.Gaps, a.Missing)
	}
	r = ranked(t, in, 0.5)
	if len(r.Files) != 0 || r.Left != 3 || r.Gaps[len(r.Gaps)-1].Field != "files" {
		t.Errorf("got %+v, want all left out", r)
	}
	// One file has no coverage.
	in = whole(t)
	delete(in.Coverage, "c.go")
	r = ranked(t, in, 1)
	if len(r.Files) != 2 || r.Left != 1 || len(r.Gaps) != 1 {
		t.Errorf("got %+v, want c.go left out", r)
	}
	in.Coverage["c.go"] = math.NaN()
	if r = ranked(t, in, 0); of(t, r, "c.go").Confidence == 1 {
		t.Error("a coverage that is not a number was measured")
	}
}

// TestOneChangeChangesEachVector checks that a change of the input changes the vector that
// it belongs to, and the score.
func TestOneChangeChangesEachVector(t *testing.T) {
	for name, change := range map[string]func(in *Input){
		"churn": func(in *Input) { in.History.Files[0].Score = 0.9; in.History.Files[1].Score = 0.1 },
		"complexity": func(in *Input) {
			in.Files[1] = lex.Parse("a.go", code.Go, "package m\nfunc alpha() { for { for { for { } } } }\n")
		},
		"coupling":      func(in *Input) { in.Files[1] = lex.Parse("a.go", code.Go, "package m\nfunc alpha() { bravo() }\n") },
		"test_coverage": func(in *Input) { in.Coverage["a.go"] = 0 },
		"duplication":   func(in *Input) { in.Duplicated["a.go"] = 0 },
		"name_quality":  func(in *Input) { in.Files[1] = lex.Parse("a.go", code.Go, "package m\nfunc alpha() {}\nvar x1 int\n") },
	} {
		before := of(t, ranked(t, whole(t), 0), "a.go")
		in := whole(t)
		change(&in)
		after := of(t, ranked(t, in.with(t), 0), "a.go")
		i := slices.IndexFunc(before.Vectors, func(v Vector) bool { return v.Name == name })
		if before.Vectors[i].Value == after.Vectors[i].Value || before.Score == after.Score {
			t.Errorf("%s: %+v and %+v", name, before, after)
		}
	}
}

func TestPoorNames(t *testing.T) {
	for name, want := range map[string]bool{
		"x": true, "id": true, "tmp": true, "value2": true, "_data": true, "process": true, "": true, "__": true,
		"parseHeader": false, "count": false, "process_order": false, "SHA256sum": false,
	} {
		if got := poorly(name); got != want {
			t.Errorf("poorly(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestRankOfNothing(t *testing.T) {
	if r := ranked(t, Input{}, 0); len(r.Files) != 0 {
		t.Errorf("got %+v", r)
	}
	if r := ranked(t, Input{Files: []*code.File{lex.Parse("a.go", code.Go, simple)}}, 0); len(r.Files) != 1 || r.Files[0].Score != 0 {
		t.Errorf("got %+v, want the score 0: there is nothing to compare with", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Rank(ctx, Input{}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
