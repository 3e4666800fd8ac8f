package graph

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// all asks for every metric.
var all = Want{Centrality: true, PageRank: true, Clustering: true, Components: true}

// graphOf returns a graph of n nodes. groups are the directories of the nodes.
func graphOf(n int, pairs [][2]int, groups []int) *Graph {
	g := &Graph{}
	for v := range n {
		dir := 0
		if groups != nil {
			dir = groups[v]
		}
		g.Nodes = append(g.Nodes, Node{Kind: "function", Name: fmt.Sprint("f", v), Path: fmt.Sprintf("d%d/f%d.go", dir, v)})
	}
	for _, p := range pairs {
		g.Links = append(g.Links, Link{From: p[0], To: p[1], Kind: "calls"})
	}
	return g
}

func measured(t testing.TB, g *Graph) *Metrics {
	t.Helper()
	m, err := g.Measure(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// near reports whether two lists of numbers differ by at most 1e-9.
func near(a, b []float64) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x float64) bool {
		return math.IsNaN(x) || math.Abs(x-b[slices.Index(a, x)]) > 1e-9
	})
}

// reaching returns how many other nodes have a path to v.
func reaching(n int, links [][2]int, v int) float64 {
	seen := make([]bool, n)
	seen[v] = true
	count := 0.0
	for more := true; more; {
		more = false
		for _, l := range links {
			if seen[l[1]] && !seen[l[0]] {
				seen[l[0]], more = true, true
				count++
			}
		}
	}
	return count
}

// TestMeasureIsWhatGonumMeasures compares the metrics with testdata/gonum.json: what gonum
// v0.17.0 measures of random graphs. A test of internal/toolkit/quality writes this file.
func TestMeasureIsWhatGonumMeasures(t *testing.T) {
	file, err := os.Open("testdata/gonum.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	cases := 0
	for lines.Scan() {
		cases++
		var c struct {
			Nodes                            int
			Links                            [][2]int
			Groups                           []int
			PageRank, Betweenness, Closeness []float64
			Modularity                       float64
			Components, Cycles               int
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		m := measured(t, graphOf(c.Nodes, c.Links, c.Groups))
		for v, one := range c.Closeness { // gonum's closeness is 1 divided by the sum of the distances
			r := reaching(c.Nodes, c.Links, v)
			if want := one * r * r / float64(c.Nodes-1); math.Abs(m.Closeness[v]-want) > 1e-9 {
				t.Errorf("case %d: closeness of %d is %v, want %v", cases, v, m.Closeness[v], want)
			}
		}
		if !near(m.PageRank, c.PageRank) || !near(m.Betweenness, c.Betweenness) {
			t.Errorf("case %d: got %v and %v, want %v and %v", cases, m.PageRank, m.Betweenness, c.PageRank, c.Betweenness)
		}
		if math.Abs(*m.Modularity-c.Modularity) > 1e-9 || len(m.Components) != c.Components || len(m.Cycles) != c.Cycles {
			t.Errorf("case %d: modularity %v, %d components, %d cycles, want %v, %d, %d", cases, *m.Modularity, len(m.Components), len(m.Cycles), c.Modularity, c.Components, c.Cycles)
		}
	}
	if err := lines.Err(); err != nil || cases < 20 {
		t.Errorf("%d cases, %v", cases, err)
	}
}

// The values are computed by hand for a triangle with a tail: 0 -> 1 -> 2 -> 0, 2 -> 3, and
// 4 alone.
func TestMeasureByHand(t *testing.T) {
	m := measured(t, graphOf(5, [][2]int{{0, 1}, {1, 2}, {2, 0}, {2, 3}, {2, 3}, {3, 3}}, []int{0, 0, 0, 1, 1}))
	if want := []int{1, 1, 1, 1, 0}; !slices.Equal(m.In, want) {
		t.Errorf("in %v, want %v", m.In, want)
	}
	if want := []int{1, 1, 2, 0, 0}; !slices.Equal(m.Out, want) {
		t.Errorf("out %v, want %v", m.Out, want)
	}
	// The shortest paths through 0: 2-1. Through 1: 0-2, 0-3. Through 2: 1-0, 1-3, 0-3.
	if want := []float64{1, 2, 3, 0, 0}; !near(m.Betweenness, want) {
		t.Errorf("betweenness %v, want %v", m.Betweenness, want)
	}
	// 3 is reached by 2, 1 and 0, at the distances 1, 2 and 3.
	if want := []float64{2. / 4 * 2 / 3, 2. / 4 * 2 / 3, 2. / 4 * 2 / 3, 3. / 4 * 3 / 6, 0}; !near(m.Closeness, want) {
		t.Errorf("closeness %v, want %v", m.Closeness, want)
	}
	if want := []float64{1, 1, 1. / 3, 0, 0}; !near(m.Clustering, want) || math.Abs(*m.Average-7./15) > 1e-9 {
		t.Errorf("clustering %v, %v, want %v", m.Clustering, *m.Average, want)
	}
	// 3 of 4 links stay inside. By chance, 4/4 * 3/4 of them would.
	if math.Abs(*m.Modularity) > 1e-9 {
		t.Errorf("modularity %v, want 0", *m.Modularity)
	}
	if want := [][]int{{0, 1, 2, 3}, {4}}; !reflect.DeepEqual(m.Components, want) {
		t.Errorf("components %v, want %v", m.Components, want)
	}
	if want := [][]int{{0, 1, 2}}; !reflect.DeepEqual(m.Cycles, want) {
		t.Errorf("cycles %v, want %v", m.Cycles, want)
	}
}

// One more link changes each metric.
func TestOneLinkChangesEachMetric(t *testing.T) {
	pairs := [][2]int{{0, 1}, {1, 2}, {2, 3}, {4, 5}}
	groups := []int{0, 0, 1, 1, 2, 2}
	before := reflect.ValueOf(*measured(t, graphOf(6, pairs, groups)))
	for name, link := range map[string][2]int{
		"In": {0, 2}, "Out": {0, 2}, "Betweenness": {0, 2}, "Closeness": {0, 2}, "PageRank": {0, 2}, "Clustering": {0, 2},
		"Average": {0, 2}, "Modularity": {0, 2}, "Components": {3, 4}, "Cycles": {3, 0},
	} {
		after := reflect.ValueOf(*measured(t, graphOf(6, append(pairs, link), groups)))
		if reflect.DeepEqual(before.FieldByName(name).Interface(), after.FieldByName(name).Interface()) {
			t.Errorf("%s does not change by the link %v", name, link)
		}
	}
	for i := range before.NumField() { // each metric has a case above
		switch name := before.Type().Field(i).Name; name {
		case "In", "Out", "Betweenness", "Closeness", "PageRank", "Clustering", "Average", "Modularity", "Components", "Cycles", "Gaps":
		default:
			t.Errorf("%s has no test", name)
		}
	}
}

func TestSeeds(t *testing.T) {
	g := graphOf(4, [][2]int{{0, 1}, {1, 2}, {2, 0}, {3, 0}}, nil)
	m, err := g.Measure(t.Context(), Want{PageRank: true, Seeds: []string{"f1", "nothing"}})
	if err != nil {
		t.Fatal(err)
	}
	if m.PageRank[3] != 0 || m.PageRank[1] <= m.PageRank[0] || math.Abs(m.PageRank[0]+m.PageRank[1]+m.PageRank[2]-1) > 1e-9 {
		t.Errorf("got %v: want nothing for f3, which no walk from f1 reaches", m.PageRank)
	}
	if len(m.Gaps) != 1 || !strings.Contains(m.Gaps[0].Reason, "nothing") {
		t.Errorf("gaps %v, want one for the seed that does not exist", m.Gaps)
	}
	if m, _ = g.Measure(t.Context(), Want{PageRank: true, Seeds: []string{"nothing"}}); m.PageRank != nil {
		t.Errorf("got %v without a seed, want no ranks", m.PageRank)
	}
}

func TestOnlyWhatIsWantedIsMeasured(t *testing.T) {
	g := graphOf(3, [][2]int{{0, 1}}, nil)
	m, err := g.Measure(t.Context(), Want{})
	if err != nil || !reflect.DeepEqual(m, &Metrics{}) {
		t.Errorf("got %+v, %v, want nothing", m, err)
	}
	if m := measured(t, &Graph{}); !reflect.DeepEqual(m, &Metrics{}) {
		t.Errorf("got %+v of an empty graph", m)
	}
	if m := measured(t, graphOf(1, nil, nil)); m.Modularity != nil || m.PageRank[0] != 1 {
		t.Errorf("got %+v of one node", m)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Measure(ctx, all); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
}

// A metric that would take too long is absent, and no value is estimated.
func TestLargeGraphsHaveGaps(t *testing.T) {
	n := 20_000
	var pairs [][2]int
	for v := 1; v < n; v++ {
		pairs = append(pairs, [2]int{v - 1, v})
	}
	m := measured(t, graphOf(n, pairs, nil))
	if m.Betweenness != nil || m.Closeness != nil || len(m.Gaps) != 2 {
		t.Errorf("%d gaps, want no betweenness and no closeness", len(m.Gaps))
	}
	if m.PageRank == nil || m.In == nil || m.Clustering == nil || len(m.Components) != 1 || len(m.Cycles) != 0 {
		t.Error("the other metrics are missing")
	}
	// One node that all others are linked to does not make many triangles.
	var star [][2]int
	for v := 1; v < 100_000; v++ {
		star = append(star, [2]int{v, 0})
	}
	if m := measured(t, graphOf(100_000, star, nil)); m.Clustering == nil || len(m.Cycles) != 0 {
		t.Errorf("gaps %v of a star", m.Gaps)
	}
	// A long cycle does not lead to a deep recursion.
	ring := append(pairs, [2]int{n - 1, 0})
	if m := measured(t, graphOf(n, ring, nil)); len(m.Cycles) != 1 || len(m.Cycles[0]) != n {
		t.Errorf("%d cycles of a ring", len(m.Cycles))
	}
}

// drawn returns a random graph.
func drawn(n, links int) *Graph {
	r := rand.New(rand.NewPCG(1, 2))
	var pairs [][2]int
	for range links {
		pairs = append(pairs, [2]int{r.IntN(n), r.IntN(n)})
	}
	return graphOf(n, pairs, nil)
}

func BenchmarkBetweenness(b *testing.B) {
	g := drawn(1000, 5000)
	for b.Loop() {
		if _, err := g.Measure(b.Context(), Want{Centrality: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPageRank(b *testing.B) {
	g := drawn(1000, 5000)
	for b.Loop() {
		if _, err := g.Measure(b.Context(), Want{PageRank: true}); err != nil {
			b.Fatal(err)
		}
	}
}
