package toolkit

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
)

// rubyBody is a method long enough for a clone.
const rubyBody = `  def total(list, factor)
    sum = 0
    list.each do |item|
      if item > 10 && factor != 0
        sum += item * factor
      elsif item < -10
        sum -= item / 2
      else
        sum = sum * 3 + 1
      end # if
    end # each
    sum.clamp(0, 1000)
  end
`

// For a language without a lexer, lines, debt and clones are measured, and each result
// states what was not measured.
func TestLanguagesWithoutALexer(t *testing.T) {
	dir := sample().
		with("ruby/one.rb", "# FIXME: it leaks\nclass One\n"+rubyBody+"end\n").
		with("ruby/two.rb", "class Two\n"+rubyBody+"end\n").
		with("ruby/three.rb", "class Three\n"+strings.NewReplacer("item", "thing", "sum", "acc", "total", "whole").Replace(rubyBody)+"end\n").
		with("db/schema.sql", "-- TODO: index it\ncreate table a (id int);\n").
		with("ci.yaml", "# TODO: pin it\nname: x\n").in(t)
	commit(t, dir, "Ada", "first")
	deny := func(path string) bool { return path == Workspace+"/db/schema.sql" }
	for tool, field := range map[string]string{
		"analyze_complexity": "complexity", "analyze_deep_context": "functions", "analyze_duplicates": "semantic clones", "analyze_defect_probability": "defects",
		"analyze_comprehensive": "functions", "analyze_graph_metrics": "imports", "analyze_name_similarity": "names", "quality_gate": "complexity",
	} {
		args := allTools()[tool]
		o := analyse(t, dir, tool, args, deny)
		want := fmt.Sprintf(`{"field":%q,"reason":"not measured for ruby (3 files): for these languages only lines, debt and clones are measured"}`, field)
		if o.err != nil || !strings.Contains(string(o.answer.Result), want) {
			t.Errorf("%s: got %v, %.600s; want %s", tool, o.err, o.answer.Result, want)
		}
	}
	if o := analyse(t, dir, "analyze_complexity", map[string]any{"toolchain": "go"}, nil); o.err != nil || strings.Contains(string(o.answer.Result), "ruby") {
		t.Errorf("analyze_complexity of Go: got %v, %s; want no word of Ruby", o.err, o.answer.Result)
	}

	var all ComprehensiveResult
	o := analyse(t, dir, "analyze_comprehensive", map[string]any{"min_lines": 5}, nil)
	if o.err != nil {
		t.Fatal(o.err)
	}
	if err := json.Unmarshal(o.answer.Result, &all); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, c := range all.Duplicates.Clones {
		for _, p := range c.Places {
			kinds[string(c.Kind)+" "+p.Path] = true
		}
	}
	for _, want := range []string{"exact ruby/one.rb", "exact ruby/two.rb", "renamed ruby/three.rb"} {
		if !kinds[want] {
			t.Errorf("clones: got %v, want %s", kinds, want)
		}
	}
	said := map[string]int{}
	for _, d := range all.Debt.Listed {
		said[d.Path+" "+d.Text] = d.Line
	}
	for _, want := range []string{"ruby/one.rb it leaks", "db/schema.sql index it", "ci.yaml pin it"} {
		if said[want] != 1 {
			t.Errorf("debt: got %v, want %s", said, want)
		}
	}
	for _, want := range []LanguagePart{{"ruby", 3, 45, 1, 0, "lines"}, {"sql", 1, 1, 1, 0, "lines"}, {"yaml", 1, 1, 1, 0, "lines"}, {"rust", 1, 4, 0, 0, "functions"}} {
		found := false
		for _, got := range all.Languages {
			found = found || got == want
		}
		if !found {
			t.Errorf("languages: got %v, want %v", all.Languages, want)
		}
	}
}

// For a project without a measured language, no complexity is reported, and not a
// complexity of zero.
func TestNoFunctionIsNoZero(t *testing.T) {
	dir := project{"a.rb": "class A\n" + rubyBody + "end\n"}.in(t)
	for tool, want := range map[string]string{"analyze_complexity": "No function to measure in 0 files", "analyze_comprehensive": "Complexity: no function to measure"} {
		o := analyse(t, dir, tool, nil, nil)
		if o.err != nil || !strings.Contains(o.answer.Text, want) || !strings.Contains(o.answer.Text, "not measured for ruby (1 file)") || strings.Contains(o.answer.Text, "median 0") {
			t.Errorf("%s: got %v, %s, want %s", tool, o.err, o.answer.Text, want)
		}
	}
}

// TestWhatIsMeasuredOfALanguage checks that known, declares and measured agree with the
// lexer of each language, that the documentation states for each language with functions
// that it has functions, and that a toolchain selects the language.
func TestWhatIsMeasuredOfALanguage(t *testing.T) {
	for l, want := range map[code.Language][3]bool{
		code.Other: {}, "ruby": {true}, code.Shell: {true, true}, code.Go: {true, true, true}, code.TSX: {true, true, true},
	} {
		if got := [3]bool{known(l), declares(l), measured(l)}; got != want {
			t.Errorf("%q: got %v, want %v", l, got, want)
		}
	}
	text, err := os.ReadFile("../../docs/toolkit.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(section(string(text), "## Languages"), "the languages below")
	table = strings.ToLower(strings.NewReplacer("C++", "cpp").Replace(table))
	for _, l := range code.Lexed() {
		if !strings.Contains(table, string(l)) {
			t.Errorf("docs/toolkit.md: the table of languages does not have %s", l)
		}
		if measured(l) && !slices.ContainsFunc(toolchains, func(name string) bool { return speaks(name, l) }) {
			t.Errorf("%s: no toolchain chooses it", l)
		}
	}
}
