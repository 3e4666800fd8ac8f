package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/golden"
)

// hostile are names and messages that an attacker could put in a repository to break the
// programs that read reports.
var hostile = []string{
	"plain", "a\x00b", "a\x1b[31mb", "a\x07", "a\rb", "a\nb", "a\tb", "\ufffe", "\uffff", "\ufffd", "\xff\xfe", "a\u202eb", "a\u200fb", "\u2066x\u2069", "a\u2028b", "a\u0085b", "\ufeffx",
	"<x>&amp;\"'", "]]>", "<!--", "-->", "<?x?>", "<![CDATA[x]]>", "{0}", "{{0}}", "{}", "[x](http://evil.example)", "[x](1)", "![x](y)", "`x`", "``", "a|b", `a\|b`, `\`, "*x*", "_x_", "# x", "1. x", "- x",
	"$(x)", "@everyone", "é", "日本", "\U000e0041", strings.Repeat("x", 100_000), strings.Repeat("\x1b", 20_000), strings.Repeat("日", 5_000),
}

var example = struct {
	tool     Tool
	rules    []Rule
	findings []Finding
	gaps     []string
}{
	Tool{"belljar", "1.2.3", "https://belljar.dev/docs/toolkit"},
	[]Rule{
		{"toolkit/complexity", "Complex function", "A function has more paths than the limit.", "Split the function, or name its parts.", Warning},
		{"toolkit/clone", "Cloned code", "Code stands in more than one place.", "Make one function of it.", Note},
	},
	[]Finding{
		{Rule: "toolkit/complexity", Path: "src/a b.go", Line: 10, EndLine: 40, Message: "parse has a cyclomatic complexity of 23, and the limit is 10", Properties: map[string]any{"cyclomatic": 23}},
		{Rule: "toolkit/complexity", Level: Error, Path: "src/a b.go", Line: 50, EndLine: 50, Message: "parse has a cyclomatic complexity of 31, and the limit is 10"},
		{Rule: "toolkit/clone", Path: "a:b/ü#?.rs", Message: "8 lines stand in 2 places"},
		{Rule: "toolkit/clone", Message: "5.3 % of the lines are clones"},
	},
	[]string{"churn was not measured: the directory is not a repository of git"},
}

func TestSARIF(t *testing.T) {
	got, err := SARIF(example.tool, example.rules, example.findings, example.gaps)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, got, "", "  "); err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "sarif.golden", b.String())
	checkSARIF(t, got)
}

// checkSARIF fails the test if a file lacks a property that GitHub requires ("SARIF support
// for code scanning", tables of supported properties).
func checkSARIF(t testing.TB, text []byte) {
	t.Helper()
	var log struct {
		Schema  string `json:"$schema"`
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name  string
					Rules []struct {
						ID                                      string
						ShortDescription, FullDescription, Help struct{ Text string }
						DefaultConfiguration                    struct{ Level string }
					}
				}
			}
			Results []struct {
				RuleID, Level       string
				RuleIndex           *int
				Message             struct{ Text string }
				PartialFingerprints map[string]string
				Locations           []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI, URIBaseID string }
						Region           *struct{ StartLine, EndLine int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &log); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	if log.Version != "2.1.0" || log.Schema == "" || len(log.Runs) != 1 {
		t.Fatalf("got version %s, schema %s, %d runs", log.Version, log.Schema, len(log.Runs))
	}
	run := log.Runs[0]
	if run.Tool.Driver.Name == "" || len(run.Results) > 25_000 {
		t.Errorf("got the driver %q and %d results", run.Tool.Driver.Name, len(run.Results))
	}
	levels := []string{"none", "note", "warning", "error"}
	for _, r := range run.Tool.Driver.Rules {
		if r.ID == "" || r.ShortDescription.Text == "" || r.FullDescription.Text == "" || r.Help.Text == "" || !slices.Contains(levels, r.DefaultConfiguration.Level) {
			t.Errorf("a rule lacks something: %+v", r)
		}
	}
	prints := make(map[string]bool)
	for _, r := range run.Results {
		if r.RuleIndex == nil || *r.RuleIndex >= len(run.Tool.Driver.Rules) || run.Tool.Driver.Rules[*r.RuleIndex].ID != r.RuleID {
			t.Errorf("a result is of another rule than its index says: %+v", r)
		}
		print := r.PartialFingerprints["primaryLocationLineHash"]
		if !slices.Contains(levels, r.Level) || !utf8.ValidString(r.Message.Text) || strings.ContainsFunc(r.Message.Text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
			t.Errorf("got the level %q and the message %q", r.Level, r.Message.Text)
		}
		if !regexp.MustCompile(`^[0-9a-f]{16}:[1-9][0-9]*$`).MatchString(print) || prints[print] {
			t.Errorf("the fingerprint %q is another's or none", print)
		}
		prints[print] = true
		for _, l := range r.Locations {
			p := l.PhysicalLocation
			if p.ArtifactLocation.URIBaseID != "%SRCROOT%" || !regexp.MustCompile(`^([A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-F]{2})+(/([A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-F]{2})+)*$`).MatchString(p.ArtifactLocation.URI) {
				t.Errorf("the location is %+v, which is not a relative URI", p.ArtifactLocation)
			}
			if p.Region != nil && (p.Region.StartLine < 1 || p.Region.EndLine != 0 && p.Region.EndLine < p.Region.StartLine) {
				t.Errorf("the region is %+v", *p.Region)
			}
		}
	}
}

func TestSARIFOfHostileNames(t *testing.T) {
	var findings []Finding
	for i, name := range hostile {
		findings = append(findings, Finding{Rule: "r", Path: strings.ReplaceAll(name, "\x00", "") + strconv.Itoa(i), Line: i - 3, EndLine: i - 7, Message: name, Properties: map[string]any{"name": name}})
	}
	got, err := SARIF(Tool{Name: hostile[2]}, []Rule{{"r", hostile[2], "A\x1bb.", "Do\x00it.", Note}}, findings, hostile)
	if err != nil {
		t.Fatal(err)
	}
	checkSARIF(t, got)
	for _, bad := range []string{`{0}"`, `](http`, "\\u001b", "\\u0000"} {
		var log struct {
			Runs []struct {
				Results []struct{ Message struct{ Text string } }
			}
		}
		if err := json.Unmarshal(got, &log); err != nil {
			t.Fatal(err)
		}
		for _, r := range log.Runs[0].Results {
			if raw, _ := json.Marshal(r.Message.Text); bytes.Contains(raw, []byte(bad)) && !bytes.Contains(raw, []byte("{{0}}")) {
				t.Errorf("a message has %s: %.200s", bad, raw)
			}
		}
	}
}

func TestSARIFRefuses(t *testing.T) {
	rules := []Rule{{ID: "r", Level: Note}}
	for _, tt := range []struct {
		rules []Rule
		f     Finding
		want  string
	}{
		{rules, Finding{Rule: "s"}, `a finding has the rule "s", which does not exist`},
		{[]Rule{{ID: "r"}, {ID: "r"}}, Finding{Rule: "r"}, `the ID "r" of a rule occurs twice or is empty`},
		{[]Rule{{}}, Finding{}, `the ID "" of a rule occurs twice or is empty`},
		{rules, Finding{Rule: "r", Path: "/etc/passwd"}, `the path "/etc/passwd" is not in the project`},
		{rules, Finding{Rule: "r", Path: "../x"}, `the path "../x" is not in the project`},
		{rules, Finding{Rule: "r", Path: "a/../../x"}, `the path "a/../../x" is not in the project`},
		{rules, Finding{Rule: "r", Path: ".."}, `the path ".." is not in the project`},
		{rules, Finding{Rule: "r", Path: "a\x00b"}, `the path "a\x00b" is not in the project`},
		{rules, Finding{Rule: "r", Properties: map[string]any{"x": math.NaN()}}, "unsupported value"},
	} {
		if _, err := SARIF(Tool{Name: "t"}, tt.rules, []Finding{tt.f}, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// A finding keeps its fingerprint if its line and the numbers in its message change.
// Different findings have different fingerprints.
func TestFingerprints(t *testing.T) {
	f := Finding{Rule: "r", Path: "a.go", Line: 3, Message: "f has 23 paths"}
	moved, other, elsewhere := f, f, f
	moved.Line, moved.Message = 9, "f has 107 paths"
	other.Message = "g has 23 paths"
	elsewhere.Path = "b.go"
	if f.fingerprint() != moved.fingerprint() || f.fingerprint() == other.fingerprint() || f.fingerprint() == elsewhere.fingerprint() {
		t.Error("fingerprints are of too much or too little")
	}
	if a, b := (Finding{Rule: "ab", Path: "c"}), (Finding{Rule: "a", Path: "bc"}); a.fingerprint() == b.fingerprint() {
		t.Error("the parts of a fingerprint run into each other")
	}
}

func TestSARIFIsBounded(t *testing.T) {
	findings := make([]Finding, maxFindings+7)
	for i := range findings {
		findings[i] = Finding{Rule: "r", Message: "x"}
	}
	gaps := make([]string, 1, 9)
	got, err := SARIF(Tool{Name: "t"}, []Rule{{"r", "n", "d", "h", Note}}, findings, gaps)
	if err != nil {
		t.Fatal(err)
	}
	checkSARIF(t, got)
	if !bytes.Contains(got, []byte("7 more findings are left out: a run has at most 25000")) || gaps[:2][1] != "" {
		t.Error("it does not say what is left out, or writes into the list of its caller")
	}
}

var suites = []Suite{
	{Name: "quality gate", Begun: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)), Cases: []Case{
		{Class: "complexity", Name: "src/a.go", Took: 1500 * time.Millisecond},
		{Class: "complexity", Name: "src/b.go", Took: 20 * time.Millisecond, Outcome: Failed, Message: "parse: 23 > 10", Text: "line 10: parse\nline 50: <read>"},
		{Class: "coverage", Name: "all", Outcome: Skipped, Message: "not measured: there is no coverage file"},
		{Class: "churn", Name: "all", Outcome: Broken, Message: "git ended with 128"},
	}},
	{Name: "empty"},
}

func TestJUnit(t *testing.T) {
	got := JUnit("gate", suites)
	golden.Equal(t, "junit.golden", string(got))
	checkJUnit(t, got)
}

// checkJUnit fails the test if junit-10.xsd does not allow a file. It checks the elements,
// their attributes and the counts.
func checkJUnit(t testing.TB, text []byte) {
	t.Helper()
	allowed := map[string]struct{ must, may, in string }{
		"testsuites": {"", "name tests failures errors time", ""},
		"testsuite":  {"name tests failures errors", "skipped time timestamp hostname id package", "testsuites"},
		"testcase":   {"classname name", "time", "testsuite"},
		"failure":    {"", "message type", "testcase"},
		"error":      {"", "message type", "testcase"},
		"skipped":    {"", "message type", "testcase"},
	}
	counted, said := make(map[string]int), make(map[string]int)
	walk(t, text, func(path []string, e xml.StartElement) {
		rule, known := allowed[e.Name.Local]
		if !known || rule.in != "" && (len(path) == 0 || path[len(path)-1] != rule.in) {
			t.Errorf("%s stands in %q", e.Name.Local, path)
		}
		counted[e.Name.Local]++
		for _, a := range e.Attr {
			if !slices.Contains(strings.Fields(rule.must+" "+rule.may), a.Name.Local) {
				t.Errorf("%s has %s", e.Name.Local, a.Name.Local)
			}
			if n, err := strconv.Atoi(a.Value); err == nil && e.Name.Local == "testsuite" {
				said[a.Name.Local] += n
			}
			if a.Name.Local == "time" && !regexp.MustCompile(`^\d+\.\d{3}$`).MatchString(a.Value) {
				t.Errorf("time is %s", a.Value)
			}
			if a.Name.Local == "timestamp" && !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$`).MatchString(a.Value) {
				t.Errorf("timestamp is %s", a.Value)
			}
		}
		for name := range strings.FieldsSeq(rule.must) {
			if !slices.ContainsFunc(e.Attr, func(a xml.Attr) bool { return a.Name.Local == name }) {
				t.Errorf("%s lacks %s", e.Name.Local, name)
			}
		}
	})
	for attribute, name := range map[string]string{"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"} {
		if said[attribute] != counted[name] {
			t.Errorf("%s says %d, and there are %d", attribute, said[attribute], counted[name])
		}
	}
}

// walk calls see for each element of a well-formed document, with the names of the elements
// around it.
func walk(t testing.TB, text []byte, see func(path []string, e xml.StartElement)) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(text))
	d.Strict = true
	var path []string
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in %.300q", err, text)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			see(path, e)
			path = append(path, e.Name.Local)
		case xml.EndElement:
			path = path[:len(path)-1]
		}
	}
}

func TestJUnitOfHostileNames(t *testing.T) {
	var s Suite
	for i, name := range hostile {
		s.Cases = append(s.Cases, Case{Class: name, Name: name, Outcome: Outcome(i % 4), Message: name, Text: name})
	}
	s.Name = hostile[3]
	got := JUnit(hostile[2], []Suite{s})
	checkJUnit(t, got)
	if !bytes.Contains(got, []byte(`a\x1b[31mb`)) || bytes.ContainsRune(got, 0x1b) || bytes.ContainsRune(got, 0xfffd) && !bytes.Contains(got, []byte("&#xFFFD;")) && !slices.Contains(hostile, "\ufffd") {
		t.Error("control characters are not shown")
	}
}

var graph = Graph{
	Nodes: []Node{{"src/a.go", map[string]float64{"pagerank": 0.25, "degree": 2}}, {"src/b & c.go", map[string]float64{"pagerank": 1e-9}}, {"d", nil}},
	Edges: []Edge{{"src/a.go", "src/b & c.go", "import", 1}, {"src/b & c.go", "d", "", 0.5}, {"d", "d", "call", 3}},
}

func TestGraphML(t *testing.T) {
	got, err := GraphML(graph)
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "graphml.golden", string(got))
	checkGraphML(t, got, len(graph.Nodes), len(graph.Edges))
}

// checkGraphML fails the test if graphml.xsd does not allow a file. It checks that the keys
// stand before the graph, that each id is a unique NMTOKEN, and that each reference has its
// target.
func checkGraphML(t testing.TB, text []byte, nodes, edges int) {
	t.Helper()
	token := regexp.MustCompile(`^[A-Za-z0-9._:-]+$`)
	keys, ids := make(map[string]string), make(map[string]bool)
	n, m := 0, 0
	attr := func(e xml.StartElement, name string) string {
		for _, a := range e.Attr {
			if a.Name.Local == name {
				return a.Value
			}
		}
		t.Errorf("%s lacks %s", e.Name.Local, name)
		return ""
	}
	begun := false
	walk(t, text, func(path []string, e xml.StartElement) {
		if e.Name.Space != "http://graphml.graphdrawing.org/xmlns" {
			t.Errorf("%s is of the namespace %q", e.Name.Local, e.Name.Space)
		}
		around := strings.Join(path, "/")
		switch e.Name.Local {
		case "graphml":
		case "key":
			id := attr(e, "id")
			if begun || around != "graphml" || !token.MatchString(id) || keys[id] != "" || !slices.Contains([]string{"string", "double"}, attr(e, "attr.type")) || attr(e, "attr.name") == "" {
				t.Errorf("the key %q stands in %s, behind the graph, or is there twice", id, around)
			}
			keys[id] = attr(e, "for")
		case "graph":
			if begun = true; around != "graphml" || attr(e, "edgedefault") != "directed" {
				t.Error("the graph has another form")
			}
		case "node":
			id := attr(e, "id")
			if n++; around != "graphml/graph" || !token.MatchString(id) || ids[id] {
				t.Errorf("the node %q", id)
			}
			ids[id] = true
		case "edge":
			if m++; around != "graphml/graph" || !ids[attr(e, "source")] || !ids[attr(e, "target")] {
				t.Errorf("an edge lacks a node: %v", e.Attr)
			}
		case "data":
			if kind := keys[attr(e, "key")]; kind == "" || !strings.HasSuffix(around, "/"+kind) {
				t.Errorf("data of the key %q stands in %s", attr(e, "key"), around)
			}
		default:
			t.Errorf("there is %s", e.Name.Local)
		}
	})
	if n != nodes || m != edges {
		t.Errorf("got %d nodes and %d edges, want %d and %d", n, m, nodes, edges)
	}
}

func TestGraphMLOfHostileNames(t *testing.T) {
	var g Graph
	for i, name := range hostile {
		g.Nodes = append(g.Nodes, Node{name, map[string]float64{name: float64(i)}})
		g.Edges = append(g.Edges, Edge{name, hostile[0], name, -1.5})
	}
	got, err := GraphML(g)
	if err != nil {
		t.Fatal(err)
	}
	checkGraphML(t, got, len(hostile), len(hostile))
}

func TestGraphMLRefuses(t *testing.T) {
	for _, tt := range []struct {
		g    Graph
		want string
	}{
		{Graph{Nodes: []Node{{"a", nil}, {"a", nil}}}, `the node "a" occurs twice`},
		{Graph{Nodes: []Node{{"a", nil}}, Edges: []Edge{{From: "a", To: "b"}}}, `the edge from "a" to "b" lacks a node`},
		{Graph{Nodes: []Node{{"a", map[string]float64{"x": math.NaN()}}}}, `x of the node "a": NaN is not a number`},
		{Graph{Nodes: []Node{{"a", nil}}, Edges: []Edge{{From: "a", To: "a", Weight: math.Inf(1)}}}, "+Inf is not a number"},
	} {
		if got, err := GraphML(tt.g); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %s, %v, want %s", got, err, tt.want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	var m Markdown
	m.Heading(1, "Report of my_project <x>")
	m.Paragraph("It has 3 files; 1 is complex: src/a_b.go")
	m.List("- no list", "1. no number", "2026 is a number", "a`b", "`")
	m.List()
	m.Fenced("mermaid", "graph TD\n  a --> b\n")
	m.Fenced("", "```\nx\n```")
	golden.Equal(t, "markdown.golden", m.String())
}

// A text is shown as it is: only backslashes are added to its Markdown.
func TestPlain(t *testing.T) {
	for _, s := range hostile {
		want := line(s)
		got := plain(s)
		if regexp.MustCompile(`\\([^A-Za-z0-9\s])`).ReplaceAllString(got, "$1") != want {
			t.Errorf("%.80q is shown as %.80q", want, got)
		}
		if regexp.MustCompile("(^|[^\\\\])[`*_<\\[\\]#!]").MatchString(strings.ReplaceAll(got, `\\`, "")) {
			t.Errorf("%.80q has markup: %.80q", s, got)
		}
		if strings.ContainsAny(got, "\n\r\x1b\x00\u202e") {
			t.Errorf("%.80q has more than one line, or is not visible", s)
		}
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"":               "",
		"a b\tc\nd":      "a b\tc\nd",
		"a\x00\x1b\x7fb": `a\x00\x1b\x7fb`,
		"\u0085\u00ad":   `\x85\xad`,
		"\u202e\ufeff":   `\u202e\ufeff`,
		"\xff\xc3":       `\xff\xc3`,
		"\ufffd":         "\ufffd",
		"\ufffe\uffff":   `\ufffe\uffff`,
		"\U000e0001":     `\U000e0001`,
		"日本é":            "日本é",
	} {
		if got := visible(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := visible(strings.Repeat("日", maxText)); len(got) > maxText+3 || !strings.HasSuffix(got, "日…") {
		t.Errorf("got %d bytes", len(got))
	}
	// A multi-byte character is not cut in two, wherever the end falls.
	for i := range 4 {
		if got := visible(strings.Repeat("a", i) + strings.Repeat("\U0001f600", maxText/4+1)); strings.Contains(got, `\x`) {
			t.Errorf("%d: a character is cut: %q", i, got[len(got)-20:])
		}
	}
}

// The same input gives the same bytes, because reports are compared and cached.
func TestReportsAreStable(t *testing.T) {
	for range 20 {
		a, _ := GraphML(graph)
		b, _ := GraphML(graph)
		c, _ := SARIF(example.tool, example.rules, example.findings, example.gaps)
		d, _ := SARIF(example.tool, example.rules, example.findings, example.gaps)
		if d := cmp.Diff(string(a)+string(c), string(b)+string(d)); d != "" {
			t.Fatal(d)
		}
	}
}

func FuzzReports(f *testing.F) {
	for _, s := range hostile {
		f.Add(s[:min(len(s), 1000)])
	}
	f.Fuzz(func(t *testing.T, s string) {
		checkJUnit(t, JUnit(s, []Suite{{Name: s, Cases: []Case{{Class: s, Name: s, Outcome: Failed, Message: s, Text: s}}}}))
		g, err := GraphML(Graph{Nodes: []Node{{s, map[string]float64{s + "x": 1}}}, Edges: []Edge{{From: s, To: s, Kind: s}}})
		if err != nil {
			t.Fatal(err)
		}
		checkGraphML(t, g, 1, 1)
		out, err := SARIF(Tool{Name: "t"}, []Rule{{"r", s, "d", "h", Note}}, []Finding{{Rule: "r", Path: s, Line: 1, Message: s}}, []string{s})
		if err == nil {
			checkSARIF(t, out)
		} else if !strings.Contains(err.Error(), "is not in the project") {
			t.Error(err)
		}
		var m Markdown
		m.List(s, s)
		if n := strings.Count(m.String(), "\n"); n != 2 {
			t.Errorf("%q makes %d lines of two items: %q", s, n, m.String())
		}
	})
}
