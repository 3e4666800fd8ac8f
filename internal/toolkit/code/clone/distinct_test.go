package clone

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestDistinct checks that a clone is left out if another one covers it, and that a clone
// that reports something new is not.
func TestDistinct(t *testing.T) {
	places := func(all ...int) (p []Place) {
		for _, first := range all {
			p = append(p, Place{Path: "a.go", First: first, Last: first + 9})
		}
		return p
	}
	star := Clone{Kind: Renamed, Places: places(1, 101, 201)}
	inner := Clone{Kind: Renamed, Places: places(103, 203)}
	apart := Clone{Kind: Renamed, Places: places(106, 206)}
	within := Clone{Kind: Renamed, Places: places(101, 102)} // both within one place of star
	exact := Clone{Kind: Exact, Places: places(1, 101)}
	loose := Clone{Kind: Semantic, Places: places(1, 201)}
	test := Clone{Kind: Gapped, Places: []Place{{Path: "a_test.go", First: 1, Last: 9}, {Path: "b_test.go", First: 1, Last: 9}}}
	mixed := Clone{Kind: Gapped, Places: []Place{{Path: "a_test.go", First: 1, Last: 9}, {Path: "b.go", First: 1, Last: 9}}}
	many := Clone{Kind: Exact}
	for i := range maxPlaces + 3 {
		many.Places = append(many.Places, Place{Path: fmt.Sprint(i), First: 1, Last: 9})
	}
	shortened := many
	shortened.Places, shortened.PlacesMore = many.Places[:maxPlaces], 3
	for _, c := range []struct {
		name      string
		all, want []Clone
	}{
		{"of a star one is left", []Clone{star, inner}, []Clone{star}},
		{"in whatever order they come", []Clone{inner, star, exact}, []Clone{inner, star, exact}},
		{"half of the lines are not enough", []Clone{star, apart}, []Clone{star, apart}},
		{"two places are not one", []Clone{star, within}, []Clone{star, within}},
		{"an exact one says more", []Clone{star, exact}, []Clone{star, exact}},
		{"a looser one says nothing new", []Clone{loose, star}, []Clone{star}},
		{"tests come last", []Clone{test, star, mixed}, []Clone{star, mixed, test}},
		{"places are bounded", []Clone{many}, []Clone{shortened}},
	} {
		got := Distinct(c.all, func(p Place) bool { return strings.HasSuffix(p.Path, "_test.go") })
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// TestDistinctIsBounded gives ten thousand clones of the same lines to Distinct. It checks
// that at least as many clones as files are left, and that the places of a clone are cut.
func TestDistinctIsBounded(t *testing.T) {
	var all []Clone
	for i := range maxClones {
		c := Clone{Kind: Gapped}
		for at := range 60 {
			c.Places = append(c.Places, Place{Path: fmt.Sprint(i % 7), First: 1 + at*2000 + i%999, Last: 1500 + at*2000 + i%999})
		}
		all = append(all, c)
	}
	if got := Distinct(all, func(Place) bool { return false }); len(got) < 7 || !slices.ContainsFunc(got, func(c Clone) bool { return c.PlacesMore == 10 }) {
		t.Errorf("got %d clones", len(got))
	}
}
