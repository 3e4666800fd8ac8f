package toolkit

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/testenv"
)

// noEffect marks an argument that is accepted and changes no result.
type noEffect struct{ why string }

// effects returns all arguments of all analyses, each with a value that changes the result.
func effects() map[string]map[string]any {
	small := []string{"a/**"}
	return map[string]map[string]any{
		"analyze_complexity": {"project_path": "a", "toolchain": "rust", "format": asSARIF, "max_cyclomatic": 1, "max_cognitive": 0, "top_files": 1},
		"analyze_code_churn": {"project_path": "a", "period_days": 7, "format": asJSON},
		"analyze_deep_context": {
			"project_path": "a", "include_analyses": []string{"ast"}, "exclude_analyses": []string{"ast"}, "period_days": 200, "dag_type": "call-graph",
			"max_depth": 1, "include_patterns": small, "exclude_patterns": small, "cache_strategy": "offline", "parallel": noEffect{"it changes how long the analysis takes"},
			"format": asJSON, "max_tokens": 100,
		},
		"analyze_duplicates": {
			"project_path": "a", "detection_type": "exact", "threshold": 0.5, "gpu": noEffect{"there because the source has it"}, "perf": true,
			"format": asJSON, "min_lines": 90, "snippet": plainGo,
		},
		"analyze_graph_metrics":      {"project_path": "a", "metrics": []string{"pagerank"}, "pagerank_seeds": []string{"a"}, "graphml": true, "format": asJSON},
		"analyze_name_similarity":    {"project_path": "a", "query": "total", "top_k": 1, "phonetic": true, "scope": "types", "format": asJSON},
		"analyze_defect_probability": {"project_path": "a", "min_confidence": 1, "explain": true, "sarif": true, "format": asJSON},
		"analyze_comprehensive": {
			"project_path": "a", "format": asSARIF, "include_duplicates": false, "include_dead_code": false, "include_defects": false, "include_complexity": false, "include_tdg": false,
			"confidence_threshold": 1, "min_lines": 90, "include_patterns": small, "exclude_patterns": small, "perf": true, "executive_summary": true,
		},
		"quality_gate": {
			"project_path": "a", "complexity_threshold": 1, "duplication_threshold": 50, "coverage_threshold": 5, "defect_threshold": 0.5, "format": asJUnit,
			"fail_on_violation": true, "base": "HEAD", "coverage_file": "cover.out",
		},
	}
}

// TestEachArgumentHasAnEffect checks that each argument has a value that changes the
// result, or is listed as one without effect. Otherwise an argument that is accepted and
// ignored would be found only by accident.
func TestEachArgumentHasAnEffect(t *testing.T) {
	testenv.Need(t, testenv.Git)
	p := sample().with("a/long.go", "package a\n\n"+tangled(12)).with("b/long.go", "package b\n\n"+tangled(12)).with("cover.out", "mode: set\nexample.org/p/a/a.go:5.1,6.2 1 1\n")
	dir := p.in(t)
	commit(t, dir, "Ada", "first", "GIT_COMMITTER_DATE="+time.Now().AddDate(0, 0, -100).Format(time.RFC3339))
	if err := os.WriteFile(filepath.Join(dir, "b/b.go"), []byte(p["b/b.go"]+"\nfunc More() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	commit(t, dir, "Grace", "second")
	for tool, values := range effects() {
		usual := map[string]any{}
		if tool == "analyze_name_similarity" {
			usual["query"] = "CanarySecret"
		}
		before := said(t, dir, tool, usual)
		if !maps.Equal(said(t, dir, tool, usual), before) {
			t.Errorf("%s: two calls differ: the test proves nothing", tool)
		}
		for _, f := range reflect.VisibleFields(reflect.TypeOf(argsOf(tool)).Elem()) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || name == "" {
				continue
			}
			value, listed := values[name]
			if !listed {
				t.Errorf("%s: no value for the argument %s in effects", tool, name)
				continue
			}
			if _, none := value.(noEffect); none {
				continue
			}
			with := maps.Clone(usual)
			with[name] = value
			if maps.Equal(said(t, dir, tool, with), before) {
				t.Errorf("%s: %s=%v changes nothing", tool, name, value)
			}
		}
	}
}

// defaults are the values that the toolkit's source gives to arguments that the call does
// not name.
var defaults = map[string]map[string]float64{
	"analyze_code_churn":         {"period_days": 30},
	"analyze_deep_context":       {"period_days": 30},
	"analyze_duplicates":         {"threshold": 0.85, "min_lines": 5},
	"analyze_defect_probability": {"min_confidence": 0.7},
	"analyze_comprehensive":      {"confidence_threshold": 0.5, "min_lines": 10},
	"analyze_name_similarity":    {"top_k": 10},
	"quality_gate":               {"complexity_threshold": 10, "duplication_threshold": 5, "coverage_threshold": 80, "defect_threshold": 0.3},
}

// L8: an argument that the call does not name has the default of the source, and its
// description states this default.
func TestDefaults(t *testing.T) {
	testenv.Need(t, testenv.Git)
	dir := sample().with("a/long.go", "package a\n\n"+tangled(12)).with("b/long.go", "package b\n\n"+tangled(12)).in(t)
	commit(t, dir, "Ada", "first", "GIT_COMMITTER_DATE="+time.Now().AddDate(0, 0, -29).Format(time.RFC3339))
	for tool, values := range defaults {
		described := map[string]string{}
		for _, f := range reflect.VisibleFields(reflect.TypeOf(argsOf(tool)).Elem()) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			described[name] = f.Tag.Get("jsonschema")
		}
		usual := map[string]any{}
		if tool == "analyze_name_similarity" {
			usual["query"] = "CanarySecret"
		}
		without := said(t, dir, tool, usual)
		for name, value := range values {
			if want := fmt.Sprintf("(default %v)", value); !strings.HasSuffix(described[name], want) {
				t.Errorf("%s: %s is described as %q, want it to end with %q", tool, name, described[name], want)
			}
			with := maps.Clone(usual)
			with[name] = value
			if d := cmp.Diff(without, said(t, dir, tool, with)); d != "" {
				t.Errorf("%s: without %s (-), with %v (+):\n%s", tool, name, value, d)
			}
		}
	}
}

// said returns all values of a result, except the times.
func said(t *testing.T, dir, tool string, args map[string]any) map[string]string {
	t.Helper()
	o := analyse(t, dir, tool, args, nil)
	if o.err != nil {
		t.Errorf("%s %v: %v", tool, args, o.err)
		return nil
	}
	var v any
	if err := json.Unmarshal(o.answer.Result, &v); err != nil {
		t.Fatal(err)
	}
	values := map[string][]string{}
	flatten(v, "", values)
	all := map[string]string{"failed": fmt.Sprint(o.answer.Failed)}
	all["text"] = o.answer.Text
	if o.answer.Text == string(o.whole) && tool == "analyze_deep_context" {
		all["text"] = asJSON // the original text contains times
	}
	for at, list := range values {
		if !strings.HasPrefix(at, "metadata.") && !strings.HasSuffix(at, ".ms") {
			all[at] = fmt.Sprint(list)
		}
	}
	return all
}
