package order

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

type person struct {
	name string
	age  int
	at   int // place of the person before sorting
}

func byAge(a, b *person) int { return cmp.Compare(a.age, b.age) }

func TestBy(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		"a1":                  "a1",
		"a1 b2":               "a1 b2",
		"b2 a1":               "a1 b2",
		"a1 b1 c1":            "a1 b1 c1",
		"c3 a1 b2":            "a1 b2 c3",
		"b2 c3 a1":            "a1 b2 c3",
		"c2 a2 d1 b2 f3 e1":   "d1 e1 c2 a2 b2 f3",
		"b2 a1 d4 c3 f6 e5":   "a1 b2 c3 d4 e5 f6",
		"a1 b1 c0 d1 e0 f1":   "c0 e0 a1 b1 d1 f1",
		"h8 g7 f6 e5 d4 c3 b": "b c3 d4 e5 f6 g7 h8",
	} {
		all := strings.Fields(text)
		By(all, func(a, b *string) int { return strings.Compare((*a)[1:], (*b)[1:]) })
		if got := strings.Join(all, " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	By[person](nil, byAge)
}

// By sorts any slice like slices.SortStableFunc.
func TestAny(t *testing.T) {
	for range 2000 {
		n := rand.IntN(200)
		ages := 1 + rand.IntN(2*n+2)
		all := make([]person, n)
		for i := range all {
			all[i] = person{name: strings.Repeat("x", rand.IntN(9)), age: rand.IntN(ages), at: i}
		}
		if rand.IntN(4) == 0 {
			slices.SortFunc(all, func(a, b person) int { return byAge(&b, &a) })
		}
		want := slices.Clone(all)
		slices.SortStableFunc(want, func(a, b person) int { return byAge(&a, &b) })
		got := slices.Clone(all)
		By(got, byAge)
		if !slices.Equal(got, want) {
			t.Fatalf("of %v: got %v, want %v", all, got, want)
		}
	}
}

// The slice does not change while By compares.
func TestUnchanged(t *testing.T) {
	all := make([]person, 100)
	for i := range all {
		all[i] = person{age: rand.IntN(10), at: i}
	}
	By(all, func(a, b *person) int {
		if &all[a.at] != a || &all[b.at] != b {
			t.Errorf("the elements %d and %d were moved before the last comparison", a.at, b.at)
		}
		return byAge(a, b)
	})
}

func TestMemory(t *testing.T) {
	all := make([]person, 1)
	if got := testing.AllocsPerRun(10, func() { By(all, byAge) }); got > 0 {
		t.Errorf("a slice of one element allocates %v times, want never", got)
	}
}
