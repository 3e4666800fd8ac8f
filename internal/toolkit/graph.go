package toolkit

import (
	"cmp"
	"fmt"
	"strings"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code/graph"
)

// GraphResult is the result of analyze_graph_metrics, for the graph of the imports of the
// project's files and packages.
type GraphResult struct {
	Base
	Nodes             int         `json:"nodes" jsonschema:"packages and files"`
	Edges             int         `json:"edges" jsonschema:"links between them"`
	EdgeKind          string      `json:"edge_kind" jsonschema:"what a link is"`
	Ranked            []GraphNode `json:"metrics" jsonschema:"nodes by PageRank, or by degree if PageRank was not measured"`
	RankedMore        int         `json:"metrics_more,omitempty" jsonschema:"number of further nodes"`
	AverageClustering *float64    `json:"average_clustering,omitempty" jsonschema:"mean over the nodes"`
	Modularity        *float64    `json:"modularity,omitempty" jsonschema:"modularity, with the directories as communities"`
	Components        *int        `json:"components,omitempty" jsonschema:"number of parts without a link between them"`
	LargestComponent  *int        `json:"largest_component,omitempty" jsonschema:"number of nodes in the largest component"`
	Cycles            [][]string  `json:"cycles,omitempty" jsonschema:"groups of nodes that depend on each other"`
	CyclesMore        int         `json:"cycles_more,omitempty" jsonschema:"number of further cycles"`
	GraphML           string      `json:"graphml,omitempty" jsonschema:"asked for by graphml: the graph as a document"`
}

// GraphNode is a node with its metrics.
type GraphNode struct {
	Name        string   `json:"name" jsonschema:"name, as in pagerank_seeds"`
	Path        string   `json:"path" jsonschema:"file or directory, from project_path"`
	Kind        string   `json:"kind" jsonschema:"package, file, ..."`
	In          *int     `json:"in,omitempty" jsonschema:"number of nodes that depend on it"`
	Out         *int     `json:"out,omitempty" jsonschema:"number of nodes on which it depends"`
	PageRank    *float64 `json:"pagerank,omitempty" jsonschema:"PageRank; the sum over all nodes is 1"`
	Betweenness *float64 `json:"betweenness,omitempty" jsonschema:"share of the shortest paths that pass it"`
	Closeness   *float64 `json:"closeness,omitempty" jsonschema:"how near the nodes are that reach it"`
	Clustering  *float64 `json:"clustering,omitempty" jsonschema:"share of the pairs of its neighbours that are linked"`
}

// manifests reports whether a file configures imports.
func manifests(path string) bool {
	switch base := path[strings.LastIndexByte(path, '/')+1:]; base {
	case "go.mod", "Cargo.toml", "jsconfig.json", "deno.json", "deno.jsonc":
		return true
	default: // tsconfig.json often extends tsconfig.base.json or the like
		return strings.HasPrefix(base, "tsconfig.") && strings.HasSuffix(base, ".json") ||
			strings.HasSuffix(base, ".s") || strings.HasSuffix(base, ".S")
	}
}

// graphOf reads a graph of the files, once for each kind; nil if the time was up.
func (r *reading) graphOf(kind graph.Kind) *graph.Graph {
	r.shared.mu.Lock()
	defer r.shared.mu.Unlock()
	if g := r.shared.graphs[kind]; g != nil {
		return g
	}
	done := r.stage("graph")
	defer done()
	g, err := r.project().Build(r.ctx, kind)
	if err != nil {
		r.lacks(over("graph"))
		return nil
	}
	r.lacks(g.Gaps...)
	r.shared.graphs[kind] = g
	return g
}

func (g *Graph) run(r *reading) (result, error) {
	if err := r.readOrRecall(g, linked, dependencies{}); err != nil {
		return nil, err
	}
	res := &GraphResult{EdgeKind: "imports", Ranked: []GraphNode{}}
	built := r.graphOf(graph.Imports)
	if built != nil {
		done := r.stage("metrics")
		m, err := built.Measure(r.ctx, graph.Want{
			Centrality: g.wants("centrality"), PageRank: g.wants("pagerank"), Clustering: g.wants("clustering"),
			Components: g.wants("components"), Seeds: g.PagerankSeeds,
		})
		done()
		if err != nil {
			r.lacks(over("metrics"))
			m = &graph.Metrics{}
		}
		r.lacks(m.Gaps...)
		res.fill(built, m)
		if g.GraphML {
			text, err := graphML(built)
			if err != nil {
				return nil, err
			}
			res.GraphML = string(text)
		}
	}
	res.Base = r.base()
	return res, nil
}

// linked selects the files from which a graph is read.
var linked = selection{speaks: measured, also: manifests, lacks: "imports"}

// fill copies the metrics into the result.
func (r *GraphResult) fill(g *graph.Graph, m *graph.Metrics) {
	r.Nodes, r.Edges = len(g.Nodes), len(g.Links)
	for i, n := range g.Nodes {
		r.Ranked = append(r.Ranked, GraphNode{
			Name: n.Name, Path: n.Path, Kind: n.Kind, In: at(m.In, i), Out: at(m.Out, i), PageRank: exact(m.PageRank, i),
			Betweenness: exact(m.Betweenness, i), Closeness: exact(m.Closeness, i), Clustering: exact(m.Clustering, i),
		})
	}
	order.By(r.Ranked, func(a, b *GraphNode) int {
		return cmp.Or(less(b.PageRank, a.PageRank), less(b.In, a.In), cmp.Compare(a.Name, b.Name))
	})
	r.Ranked, r.RankedMore = shorten(r.Ranked, maxListed)
	r.AverageClustering, r.Modularity = m.Average, m.Modularity
	if m.Components != nil {
		n, largest := len(m.Components), 0
		for _, c := range m.Components {
			largest = max(largest, len(c))
		}
		r.Components, r.LargestComponent = &n, &largest
	}
	for _, cycle := range m.Cycles {
		var names []string
		for _, i := range cycle {
			names = append(names, g.Nodes[i].Name)
		}
		r.Cycles = append(r.Cycles, names[:min(len(names), maxPatterns)])
	}
	r.Cycles, r.CyclesMore = shorten(r.Cycles, maxPatterns)
}

// at returns the value of a node, or nil if the metric was not measured.
func at[T any](all []T, i int) *T {
	if i >= len(all) {
		return nil
	}
	return &all[i]
}

// exact returns the value of at, rounded to nine places.
func exact(all []float64, i int) *float64 {
	v := at(all, i)
	if v == nil {
		return nil
	}
	short := round(*v, 9)
	return &short
}

// less compares two values of a metric that may not have been measured.
func less[T cmp.Ordered](a, b *T) int {
	if a == nil || b == nil {
		return 0
	}
	return cmp.Compare(*a, *b)
}

// module returns the beginning that the names of all packages share, up to a slash; empty
// if they share none.
func (r *GraphResult) module() string {
	shared, packages := "", 0
	for _, n := range r.Ranked {
		if n.Kind != "package" && n.Kind != "tests" {
			continue
		}
		if packages++; packages == 1 {
			shared = n.Name
		}
		for !strings.HasPrefix(n.Name, shared) {
			shared = shared[:len(shared)-1]
		}
	}
	if packages < 2 {
		return ""
	}
	return shared[:strings.LastIndexByte(shared, '/')+1]
}

func (*GraphResult) findings() []finding { return nil }

func (r *GraphResult) tell(t *text, detailed bool) {
	t.line("%s, %s (%s)", count(r.Nodes, "node"), count(r.Edges, "edge"), r.EdgeKind)
	if r.Components != nil {
		t.line("%s, the largest of %s; %s", count(*r.Components, "component"), count(*r.LargestComponent, "node"), count(len(r.Cycles)+r.CyclesMore, "cycle"))
		for _, c := range r.Cycles[:min(len(r.Cycles), 5)] {
			t.line("cycle: %s", clip(shown(strings.Join(c, " ")), 300))
		}
	}
	if r.AverageClustering != nil && r.Modularity != nil {
		t.line("average clustering %.3f, modularity of the directories %.3f", *r.AverageClustering, *r.Modularity)
	}
	shows := 20
	if detailed {
		shows = maxListed
	}
	module := r.module()
	if module != "" {
		t.line("Packages, without %s before their names:", shown(module))
	}
	for _, n := range r.Ranked[:min(len(r.Ranked), shows)] {
		words := []string{shown(strings.TrimPrefix(n.Name, module))}
		for _, v := range []struct {
			name  string
			value *float64
		}{{"pagerank", n.PageRank}, {"betweenness", n.Betweenness}, {"closeness", n.Closeness}, {"clustering", n.Clustering}} {
			if v.value != nil && *v.value != 0 {
				words = append(words, v.name+"="+short(*v.value))
			}
		}
		if n.In != nil {
			words = append(words, fmt.Sprintf("in=%d out=%d", *n.In, *n.Out))
		}
		t.line("%s", strings.Join(words, " "))
	}
	if more := len(r.Ranked) + r.RankedMore - min(len(r.Ranked), shows); more > 0 {
		t.line("and %d more", more)
	}
	r.tellGaps(t)
}
