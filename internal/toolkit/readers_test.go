package toolkit

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// textOf returns the text of an analysis.
func textOf(t *testing.T, dir, tool string, args map[string]any) string {
	t.Helper()
	o := analyse(t, dir, tool, args, nil)
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o.answer.Text
}

// A function that exceeds both thresholds has one line in the text, and counts as two
// violations.
func TestOneLineForAFunction(t *testing.T) {
	dir := project{"a.go": "package a\n\n" + tangled(30) + branchy}.in(t)
	args := map[string]any{"max_cyclomatic": 3, "max_cognitive": 20}
	for _, tool := range []string{"analyze_complexity", "analyze_comprehensive"} {
		got := textOf(t, dir, tool, args)
		args = nil
		if !strings.Contains(got, "a.go:3 Tangled30 cyclomatic 31, cognitive 30\n") && !strings.Contains(got, "a.go:3 Tangled30 cognitive 30, cyclomatic 31\n") || strings.Count(got, "Tangled30") != 1 || strings.Contains(got, "more\n") {
			t.Errorf("%s: got\n%s\nwant one line for the function", tool, got)
		}
	}
}

// If nothing was changed in the period, the result names a period that contains a commit.
func TestQuietHistory(t *testing.T) {
	testenv.Need(t, testenv.Git)
	dir := sample().in(t)
	commit(t, dir, "Ada", "first", "GIT_COMMITTER_DATE="+time.Now().AddDate(0, 0, -99).Format(time.RFC3339))
	for _, tool := range []string{"analyze_code_churn", "analyze_deep_context"} {
		got := textOf(t, dir, tool, nil)
		if want := "No commit changed a file in 30 days; the date of the newest commit is " + time.Now().UTC().AddDate(0, 0, -99).Format("2006-01-02"); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", tool, got, want)
		}
		var days int
		if _, err := fmt.Sscanf(got[strings.Index(got, "period_days="):], "period_days=%d", &days); err != nil {
			t.Fatalf("%s: %v in %s", tool, err, got)
		}
		if then := textOf(t, dir, tool, map[string]any{"period_days": days}); strings.Contains(then, "No commit") {
			t.Errorf("%s: got %s, want the commit", tool, then)
		}
	}
}

// The text states the common beginning of package names only once.
func TestModuleIsSaidOnce(t *testing.T) {
	got := textOf(t, sample().in(t), "analyze_graph_metrics", nil)
	if !strings.Contains(got, "Packages, without example.org/p/ before their names:\n") || !strings.Contains(got, "\nb pagerank=") || strings.Count(got, "example.org") != 1 {
		t.Errorf("got\n%s", got)
	}
}

// A short text lists clones of many files, and not many clones of one file. Clones of tests
// are listed last.
func TestClonesOfManyFiles(t *testing.T) {
	p := project{}
	for i := range 4 {
		body := fmt.Sprintf("func f%d(xs []int) (n int) {\n", i)
		for j := range 12 {
			body += fmt.Sprintf("\tn += xs[%d] * %d\n\tprintln(n, %q)\n", i*100+j, i*7+j, fmt.Sprint(i, j))
		}
		body += "\treturn n\n}\n\n"
		p["big/a.go"] += body
		p["big/b.go"] += body
	}
	small := "func g(a, b string) string {\n\tif a == b {\n\t\treturn a + \"same\"\n\t}\n\tfor i := range a {\n\t\tb += string(a[i]) + \"x\"\n\t}\n\tprintln(a, b)\n\tprintln(b, a, a)\n\treturn b\n}\n"
	p["small/c.go"], p["small/d.go"] = "package small\n\n"+small, "package small\n\n"+small
	for name, text := range map[string]string{"big/a.go": "", "big/b.go": "\n\n"} {
		p[name] = "package big\n" + text + strings.ReplaceAll(p[name], "}\n\nfunc", "}\n\nvar "+name[4:5]+"1 = 2\n\nfunc")
	}
	p["big/e_test.go"], p["big/f_test.go"] = p["big/a.go"], "package other\n"+p["big/a.go"]
	dir := p.in(t)
	args := map[string]any{"detection_type": "exact"}
	got := textOf(t, dir, "analyze_duplicates", args)
	if !strings.Contains(got, "small/c.go:1-13 .../d.go:1-13") {
		t.Errorf("got\n%s\nwant the small clone among the first", got)
	}
	// Clones that are only in tests are listed last, however large they are.
	delete(p, "big/a.go")
	delete(p, "big/b.go")
	lines := strings.Split(textOf(t, p.in(t), "analyze_duplicates", args), "\n")
	if len(lines) < 3 || !strings.Contains(lines[1], "small/c.go") || !strings.Contains(lines[2], "e_test.go") {
		t.Errorf("got %q, want the clone of tests last", lines)
	}
}

// The gate counts copied code, not similar code. It lists the worst fault of each check
// first, and each piece of copied code once.
func TestGateNamesTheWorstFirst(t *testing.T) {
	body := func(name, item string) string {
		text := "func " + name + "(xs []int) (n int) {\n\tfor _, " + item + " := range xs {\n"
		for i := range 12 {
			text += fmt.Sprintf("\t\tif %s > %d {\n\t\t\tn += %s * %d\n\t\t}\n", item, i, item, i)
		}
		return text + "\t}\n\treturn n\n}\n"
	}
	p := project{"a.go": "package a\n\n" + tangled(12) + tangled(40), "b.go": "package a\n\n" + tangled(25)}
	args := map[string]any{"format": "json", "duplication_threshold": 0}
	gate := func(p project) (g GateResult) {
		t.Helper()
		o := analyse(t, p.in(t), "quality_gate", args, nil)
		if o.err != nil {
			t.Fatal(o.err)
		}
		if err := json.Unmarshal(o.answer.Result, &g); err != nil {
			t.Fatal(err)
		}
		return g
	}
	var order []string
	for _, v := range gate(p).Violations {
		if v.Check == "complexity" {
			order = append(order, strings.Fields(v.Message)[0])
		}
	}
	if got := fmt.Sprint(order); got != "[Tangled40 Tangled25 Tangled12]" {
		t.Errorf("got %s, want the most complex first", got)
	}
	alike := gate(project{"a.go": "package a\n\n" + body("one", "x"), "b.go": "package a\n\n" + body("two", "y")})
	if c := alike.Checks[1]; c.Name != "duplication" || c.Status != pass || *c.Value != 0 {
		t.Errorf("code with other names: got %+v, want that it is not copied", c)
	}
	same := "package a\n\n" + body("one", "x")
	copied := gate(project{"a.go": same, "b.go": same, "c.go": "package c\n\n" + body("one", "x") + "\nvar y = 1\n"})
	places := map[string]int{}
	for _, v := range copied.Violations {
		if v.Check == "duplication" {
			places[v.File]++
		}
	}
	if c := copied.Checks[1]; c.Status != fail || len(places) != 3 || places["a.go"] != 1 || places["b.go"] != 1 || places["c.go"] != 1 {
		t.Errorf("copied code: got %+v and the places %v, want each file once", c, places)
	}
	args["format"] = ""
	text := analyse(t, project{"a.go": same, "b.go": same}.in(t), "quality_gate", args, nil).answer.Text
	if strings.Count(text, "the same code as") != 1 || !strings.Contains(text, "b.go:1 the same code as a.go:1") {
		t.Errorf("two places with the same code: got %q, want them on one line", text)
	}
}

// The map as a document is Markdown, in which no name of a file or of a function is read as
// markup.
func TestMapAsMarkdown(t *testing.T) {
	const evil = "[x](javascript:a) <img src=x onerror=a> `b` *c*"
	dir := project{
		evil + "/```.go": "package a\n\n" + tangled(12) + "\n// TODO: <script>alert(1)</script>\n", "## Map/# b.go": "package b\n\nfunc B() {}\n",
	}.in(t)
	o := analyse(t, dir, "analyze_deep_context", map[string]any{"format": markdown}, nil)
	if o.err != nil {
		t.Fatal(o.err)
	}
	head, drawn, ok := strings.Cut(string(o.whole), "\n## Map: the most used first, by file and line\n\n")
	ticks := strings.Repeat("`", 4)
	if !ok || !strings.HasPrefix(drawn, ticks+"text\n") || !strings.HasSuffix(drawn, "\n"+ticks+"\n") || !strings.Contains(drawn, "\n## Map/\n  # b.go\n    3 func B() {}\n") {
		t.Errorf("got\n%s\nwant the map as code", o.whole)
	}
	if regexp.MustCompile(`[^\\][<\[*]`).MatchString(head) || !strings.Contains(head, `\<script\>`) || !strings.Contains(head, "\n## First\n\n- Split Tangled12 in ") {
		t.Errorf("got\n%s\nwant no markup of a name", head)
	}
}
