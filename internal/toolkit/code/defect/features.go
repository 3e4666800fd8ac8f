package defect

import (
	"path"
	"strings"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/graph"
	"belljar.dev/internal/toolkit/code/history"
)

// Input is the data of a project. A nil field was not measured.
type Input struct {
	Files      []*code.File
	History    *history.History   // history of the same paths
	Graph      *graph.Graph       // graph of the kind full-dependency
	Duplicated map[string]int     // number of lines that also exist elsewhere, by path; 0 for a file without an entry
	Coverage   map[string]float64 // part of a file's statements that tests run, from 0 to 1, by path
}

// vectors is the number of features of a file.
const vectors = 6

// The features, in the order in which they are added up.
const (
	churn = iota
	complexity
	coupling
	coverage
	duplication
	naming
)

// feature is one feature of files: its name, the meaning of its value, and its weight in
// the score.
type feature struct {
	name, value string
	weight      float64
}

// features returns the features in their order. The weights add up to 1. They follow a
// rule: the papers on defect prediction find changes and complexity ahead of all other
// features (for example Nagappan and Ball, 2005), and there was no history to fit the
// weights to.
func features() [vectors]feature {
	return [vectors]feature{
		churn:       {"churn", "commits and lines in the period, from 0 to 1", 0.30},
		complexity:  {"complexity", "the highest cognitive complexity of a function", 0.25},
		coupling:    {"coupling", "the files that it depends on or that depend on it", 0.15},
		coverage:    {"test_coverage", "the share of its statements that no test runs", 0.15},
		duplication: {"duplication", "the share of its lines of code that also exist elsewhere", 0.10},
		naming:      {"name_quality", "the share of its names that say little", 0.05},
	}
}

// values are the features of one file; nil means not measured.
type values [vectors]*float64

// measure measures the features of the files.
func (in *Input) measure(files []*code.File) []values {
	all := make([]values, len(files))
	scores := make(map[string]float64)
	if in.History != nil {
		for _, f := range in.History.Files {
			scores[f.Path] = f.Score
		}
	}
	coupled := in.coupled()
	for i, f := range files {
		v := &all[i]
		if in.History != nil {
			v[churn] = new(scores[f.Path])
		}
		if len(f.Funcs) > 0 && f.Language != code.Shell {
			most := 0
			for j := range f.Funcs {
				most = max(most, f.Funcs[j].Cognitive)
			}
			v[complexity] = new(float64(most))
		}
		if in.Graph != nil {
			v[coupling] = new(float64(len(coupled[f.Path])))
		}
		if part, measured := in.Coverage[f.Path]; measured && part >= 0 && part <= 1 {
			v[coverage] = new(1 - part)
		}
		if in.Duplicated != nil && f.Lines.Code > 0 {
			v[duplication] = new(min(1, float64(in.Duplicated[f.Path])/float64(f.Lines.Code)))
		}
		v[naming] = names(f)
	}
	return all
}

// coupled returns for each file the other files that a link connects with it, in either
// direction.
func (in *Input) coupled() map[string]map[string]bool {
	all := make(map[string]map[string]bool)
	if in.Graph == nil {
		return all
	}
	add := func(a, b string) {
		if all[a] == nil {
			all[a] = make(map[string]bool)
		}
		all[a][b] = true
	}
	for _, l := range in.Graph.Links {
		from, to := &in.Graph.Nodes[l.From], &in.Graph.Nodes[l.To]
		if l.Sure == graph.Possible || from.Path == to.Path || directory(from) || directory(to) {
			continue
		}
		add(from.Path, to.Path)
		add(to.Path, from.Path)
	}
	return all
}

// directory reports whether the path of a node is the path of a directory.
func directory(n *graph.Node) bool { return n.Kind == "package" || n.Kind == "tests" }

// names returns the part of the names declared in a file that say little: names that are
// shorter than three letters, end with a digit, or consist of an empty word such as tmp. It
// returns nil for a file that declares no names.
func names(f *code.File) *float64 {
	all, poor := 0, 0
	count := func(name string) {
		all++
		if poorly(name) {
			poor++
		}
	}
	for i := range f.Funcs {
		count(f.Funcs[i].Name)
	}
	for i := range f.Types {
		count(f.Types[i].Name)
	}
	for i := range f.Vars {
		count(f.Vars[i].Name)
	}
	if all == 0 {
		return nil
	}
	return new(float64(poor) / float64(all))
}

// poorly reports whether a name says little.
func poorly(name string) bool {
	plain := strings.ToLower(strings.Trim(name, "_$#"))
	if len(plain) < 3 || strings.TrimRight(plain, "0123456789") != plain {
		return true
	}
	switch plain {
	case "foo", "bar", "baz", "tmp", "temp", "data", "info", "stuff", "thing", "things", "misc", "util", "utils",
		"helper", "helpers", "handle", "process", "dostuff", "dothing", "obj", "val", "var", "asdf", "todo", "manager":
		return true
	}
	return false
}

// tested reports whether a file contains only tests.
func tested(f *code.File) bool {
	if strings.HasSuffix(path.Base(f.Path), "_test.go") {
		return true
	}
	for i := range f.Funcs {
		if !f.Funcs[i].Test {
			return false
		}
	}
	return len(f.Funcs) > 0
}
