package toolkit

import (
	"fmt"
	"path"
	"strings"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/toolkit/code/graph"
	"belljar.dev/internal/toolkit/report"
)

// finding is what an analysis reports about a place.
type finding struct {
	rule      string
	path      string
	line, end int
	warning   bool   // a warning; if false, it has the level of its rule
	message   string // format of a message with args
	args      []any
}

// rules are the kinds of findings.
func rules() []report.Rule {
	return []report.Rule{
		{ID: "cyclomatic", Name: "Cyclomatic complexity", Description: "A function has more ways through it than the threshold.", Help: "Split it, or replace conditions by data.", Level: report.Warning},
		{ID: "cognitive", Name: "Cognitive complexity", Description: "A function is harder to follow than the threshold.", Help: "Return early, and give nested blocks a function of their own.", Level: report.Warning},
		{ID: "clone-exact", Name: "Copied code", Description: "The same code stands in two places.", Help: "Keep one, and call it.", Level: report.Warning},
		{ID: "clone-renamed", Name: "Copied code with other names", Description: "Code differs from another place by names and values only.", Help: "Keep one, and pass what differs as an argument.", Level: report.Warning},
		{ID: "clone-gapped", Name: "Copied and changed code", Description: "Code is a copy of another place, with some lines changed.", Help: "Keep what is common in one place.", Level: report.Note},
		{ID: "clone-semantic", Name: "Similar functions", Description: "Two functions do nearly the same in the same way.", Help: "Check whether one of them is enough.", Level: report.Note},
		{ID: "dead-code", Name: "Dead code", Description: "Nothing reaches a function.", Help: "Remove it, unless something outside of the project calls it.", Level: report.Warning},
		{ID: "debt", Name: "Admitted debt", Description: "A comment says that something is to be done.", Help: "Do it, or write it into the plan.", Level: report.Note},
		{ID: "defects", Name: "Likely place of defects", Description: "A file ranks high by properties that correlate with defects.", Help: "Review and test it first.", Level: report.Note},
		{ID: "complexity", Name: "Gate: complexity", Description: "A function is more complex than the gate allows.", Help: "Split it.", Level: report.Error},
		{ID: "duplication", Name: "Gate: duplication", Description: "More code is copied than the gate allows.", Help: "Keep one copy.", Level: report.Error},
		{ID: "coverage", Name: "Gate: coverage", Description: "Tests run less of the code than the gate wants.", Help: "Test the lines that no test runs.", Level: report.Error},
	}
}

// tool returns the name and version of this program, for reports.
func tool() report.Tool { return report.Tool{Name: "belljar", Version: buildinfo.Read().Version} }

// sarif returns the findings of a result as SARIF. Their paths are relative to the
// workspace. Where CI runs, the workspace is the directory of a repository.
func sarif(res result) ([]byte, error) {
	all := res.findings()
	list := make([]report.Finding, 0, len(all))
	for _, f := range all {
		one := report.Finding{Rule: f.rule, Path: path.Join(res.place(), f.path), Line: f.line, EndLine: f.end, Message: f.text()}
		if f.warning {
			one.Level = report.Warning
		}
		list = append(list, one)
	}
	return report.SARIF(tool(), rules(), list, res.missing())
}

// text returns the message with its arguments. Names of files and functions are written so
// that they fit in one line.
func (f finding) text() string {
	args := make([]any, len(f.args))
	for i, a := range f.args {
		if s, ok := a.(string); ok {
			a = shown(s)
		}
		args[i] = a
	}
	return fmt.Sprintf(f.message, args...)
}

// document returns a result of the gate as JUnit, with one case for each check.
func (r *GateResult) document(format string) ([]byte, bool) {
	if format != asJUnit {
		return nil, false
	}
	suite := report.Suite{Name: "quality_gate"}
	for _, c := range r.Checks {
		one := report.Case{Class: "quality_gate", Name: c.Name}
		switch c.Status {
		case fail:
			one.Outcome, one.Message = report.Failed, fmt.Sprintf("%s is %g, and the threshold is %g", c.Name, *c.Value, c.Threshold)
			var lines []string
			for _, v := range r.Violations {
				if v.Check == c.Name {
					lines = append(lines, fmt.Sprintf("%s:%d %s", shown(v.File), v.Line, v.Message))
				}
			}
			one.Text = strings.Join(lines, "\n")
		case notMeasured:
			one.Outcome, one.Message = report.Skipped, c.Reason
		}
		suite.Cases = append(suite.Cases, one)
	}
	return report.JUnit("belljar", []report.Suite{suite}), true
}

// document returns a result of all analyses as Markdown.
func (r *ComprehensiveResult) document(format string) ([]byte, bool) {
	if format != markdown {
		return nil, false
	}
	return headed("Analyses", r), true
}

// headed returns the Markdown of a result, with a heading.
func headed(title string, r result) []byte {
	t := text{most: maxDetailed}
	r.tell(&t, true)
	var m report.Markdown
	m.Heading(1, title)
	m.Fenced("text", t.String())
	return []byte(m.String())
}

// marked returns the text of a map as a Markdown document. The beginning of a line is
// markup; names of files and of declarations are not.
func marked(text string) []byte {
	var m report.Markdown
	var items []string
	before, drawn, _ := strings.Cut(text, "\n"+mapHeading)
	for line := range strings.Lines(before) {
		line = strings.TrimSuffix(line, "\n")
		if item, ok := strings.CutPrefix(line, "- "); ok {
			items = append(items, item)
			continue
		}
		m.List(items...)
		items = nil
		level := len(line) - len(strings.TrimLeft(line, "#"))
		switch rest := strings.TrimSpace(line[level:]); {
		case rest == "":
		case level > 0:
			m.Heading(level, rest)
		default:
			m.Paragraph(rest)
		}
	}
	m.List(items...)
	if drawn != "" {
		title, rest, _ := strings.Cut(mapHeading+drawn, "\n")
		m.Heading(2, strings.TrimPrefix(title, "## "))
		m.Fenced("text", rest)
	}
	return []byte(m.String())
}

// graphML returns a graph of imports as GraphML.
func graphML(g *graph.Graph) ([]byte, error) {
	var out report.Graph
	seen := map[string]int{}
	names := make([]string, len(g.Nodes))
	for i, n := range g.Nodes {
		name := n.Name
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, seen[name])
		}
		names[i] = name
		out.Nodes = append(out.Nodes, report.Node{Name: name})
	}
	for _, l := range g.Links {
		out.Edges = append(out.Edges, report.Edge{From: names[l.From], To: names[l.To], Kind: l.Kind, Weight: float64(l.Count)})
	}
	return report.GraphML(out)
}
