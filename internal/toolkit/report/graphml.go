package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Graph is a directed graph.
type Graph struct {
	Nodes []Node
	Edges []Edge
}

// Node is a node of a graph.
type Node struct {
	Name   string             // unique name, by which edges refer to the node
	Values map[string]float64 // values by the names of the metrics; may be nil
}

// Edge is an edge of a graph.
type Edge struct {
	From, To string // names of nodes
	Kind     string // kind of the link, for example "import"; empty if it has no kind
	Weight   float64
}

// GraphML returns a graph as GraphML. The nodes have the ids n0, n1, ... in their order,
// since a path cannot be an id, and their names as data. GraphML returns an error if two
// nodes have the same name, if an edge names an unknown node, or if a value is not a
// number.
func GraphML(g Graph) ([]byte, error) {
	values := make(map[string]bool)
	ids := make(map[string]string, len(g.Nodes))
	for i, n := range g.Nodes {
		if _, twice := ids[n.Name]; twice {
			return nil, fmt.Errorf("write GraphML: the node %q occurs twice", clipped(n.Name))
		}
		ids[n.Name] = "n" + strconv.Itoa(i)
		for name := range n.Values {
			values[name] = true
		}
	}
	// The schema requires the keys before the graph. Their ids must not contain all
	// characters of names.
	keys := []element{key("name", "node", "name", "string"), key("kind", "edge", "kind", "string"), key("weight", "edge", "weight", "double")}
	named := make(map[string]string, len(values))
	for i, name := range slices.Sorted(maps.Keys(values)) {
		named[name] = "v" + strconv.Itoa(i)
		keys = append(keys, key(named[name], "node", name, "double"))
	}
	graph := element{name: "graph", attributes: []attribute{{"id", "G"}, {"edgedefault", "directed"}}}
	for _, n := range g.Nodes {
		e := element{name: "node", attributes: []attribute{{"id", ids[n.Name]}}, children: []element{data("name", n.Name)}}
		for _, name := range slices.Sorted(maps.Keys(n.Values)) {
			v, err := double(n.Values[name])
			if err != nil {
				return nil, fmt.Errorf("write GraphML: %s of the node %q: %w", name, clipped(n.Name), err)
			}
			e.children = append(e.children, data(named[name], v))
		}
		graph.children = append(graph.children, e)
	}
	for i, edge := range g.Edges {
		from, ok := ids[edge.From]
		to, also := ids[edge.To]
		if !ok || !also {
			return nil, fmt.Errorf("write GraphML: the edge from %q to %q lacks a node", clipped(edge.From), clipped(edge.To))
		}
		weight, err := double(edge.Weight)
		if err != nil {
			return nil, fmt.Errorf("write GraphML: the edge from %q to %q: %w", clipped(edge.From), clipped(edge.To), err)
		}
		e := element{name: "edge", attributes: []attribute{{"id", "e" + strconv.Itoa(i)}, {"source", from}, {"target", to}}}
		if edge.Kind != "" {
			e.children = append(e.children, data("kind", edge.Kind))
		}
		e.children = append(e.children, data("weight", weight))
		graph.children = append(graph.children, e)
	}
	return document(element{name: "graphml", attributes: []attribute{
		{"xmlns", "http://graphml.graphdrawing.org/xmlns"},
		{"xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance"},
		{"xsi:schemaLocation", "http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd"},
	}, children: append(keys, graph)}), nil
}

// key declares the data of one kind of element.
func key(id, of, name, kind string) element {
	return element{name: "key", attributes: []attribute{{"id", id}, {"for", of}, {"attr.name", name}, {"attr.type", kind}}}
}

func data(key, value string) element {
	return element{name: "data", attributes: []attribute{{"key", key}}, text: value}
}

// double returns a number as XML Schema writes a double.
func double(v float64) (string, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "", fmt.Errorf("%v is not a number", v)
	}
	return strconv.FormatFloat(v, 'g', -1, 64), nil
}
