package toolkit

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/internal/toolkit/template"
)

// clock are the names of numbers that do not depend on the source: the time and the speed
// of the measurement.
var clock = []string{"metadata.analysis_duration.secs", "metadata.analysis_duration.nanos", ".ms"}

// allResults returns an empty result of each analysis.
func allResults() map[string]any {
	return map[string]any{
		"analyze_complexity": ComplexityResult{}, "analyze_code_churn": ChurnResult{}, "analyze_deep_context": ContextResult{},
		"analyze_duplicates": DuplicatesResult{}, "analyze_defect_probability": DefectsResult{}, "analyze_comprehensive": ComprehensiveResult{},
		"analyze_graph_metrics": GraphResult{}, "analyze_name_similarity": NamesResult{}, "quality_gate": GateResult{},
	}
}

// The tables of the tests contain each analysis.
func TestEachAnalysisIsTried(t *testing.T) {
	for _, args := range all() {
		name := args.Analysis()
		_, result := allResults()[name]
		_, denied := allTools()[name]
		_, effect := effects()[name]
		if _, runs := args.(analysis); !runs || !result || !denied || !effect {
			t.Errorf("%s: it can be run: %t; in allResults: %t; in allTools: %t; in effects: %t", name, runs, result, denied, effect)
		}
	}
}

// Every number and every list of every result depends on the source: for each, there is a
// change of the project, of its history or of the arguments that changes it.
func TestEachNumberIsMeasured(t *testing.T) {
	testenv.Need(t, testenv.Git)
	results := allResults()
	usual := stage(t, sample(), nil)
	var others []string
	for _, m := range mutations() {
		others = append(others, stage(t, m.files, m.after))
	}
	for tool, kind := range results {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			changed := map[string]bool{}
			note := func(a, b map[string][]string) {
				for at := range union(a, b) {
					if !slices.Equal(a[at], b[at]) {
						changed[at] = true
					}
				}
			}
			var first map[string][]string
			for _, args := range argumentsFor(tool) {
				base := flattened(t, usual, tool, args)
				if first == nil {
					first = base
				}
				note(first, base)
				for _, other := range others {
					note(base, flattened(t, other, tool, args))
				}
			}
			want := map[string]bool{}
			numbersOf(reflect.TypeOf(kind), "", want)
			for _, at := range slices.Sorted(maps.Keys(want)) {
				if changed[at] || slices.ContainsFunc(clock, func(c string) bool { return strings.HasSuffix(at, c) }) || countsTheRest(at) || thresholdsOf(at) {
					continue
				}
				t.Errorf("%s: no change of a project changes %s", tool, at)
			}
		})
	}
}

// countsTheRest reports whether a number counts what a limit leaves out. Such a number is
// zero unless there are more than a thousand entries.
func countsTheRest(at string) bool {
	return strings.HasSuffix(at, "_more") || strings.HasSuffix(at, ".more") || at == "map_left_out"
}

// mutation is a project that differs from the sample in one thing.
type mutation struct {
	files project
	after func(t testing.TB, dir string) // adds commits to the history; may be nil
}

func mutations() []mutation {
	s := sample()
	clone := "func Copied(xs []int) (total int) {\n\tfor i, x := range xs {\n\t\tif x > 10 && i%2 == 0 {\n\t\t\ttotal += x * i\n\t\t} else if x < -10 {\n\t\t\ttotal -= x\n\t\t}\n\t\ttotal++\n\t\ttotal = total * 3 / 2\n\t\tprintln(total, x, i)\n\t\tprintln(total, x, i, xs)\n\t}\n\treturn total\n}\n"
	other := strings.NewReplacer("Copied", "Different", "total", "sum").Replace(clone)
	makefile := preview("template://makefile/go/cli")
	again := func(t testing.TB, dir string) {
		if err := os.WriteFile(filepath.Join(dir, "a/a.go"), []byte(s["a/a.go"]+"\nfunc More() {}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		commit(t, dir, "Grace", "second")
	}
	return []mutation{
		{s.with("a/a.go", strings.Replace(s["a/a.go"], "if a == b {", "if a == b && a > 2 || b > 3 {", 1)), nil},
		{s.with("a/a.go", s["a/a.go"]+"\nfunc another(unused int) int {\n\tswitch unused {\n\tcase 1:\n\t\treturn 2\n\tcase 3:\n\t\treturn 4\n\t}\n\treturn 0\n}\n"), nil},
		{s.with("a/copy.go", "package a\n\n"+clone).with("b/copy.go", "package b\n\n"+clone), nil},
		{s.with("a/copy.go", "package a\n\n"+clone).with("b/copy.go", "package b\n\n"+other), nil},
		{s.with("a/copy.go", "package a\n\n"+clone).with("b/copy.go", "package b\n\n"+clone).with("lib/copy.go", "package lib\n\n"+clone+"\n"+other), nil},
		{s.with("b/c.py", strings.ReplaceAll(s["b/c.py"], "# TODO: handle the empty list\n", "")), nil},
		{s.with("b/c.py", "# FIXME(ada): this leaks\n\n\n"+s["b/c.py"]), nil},
		{s.with("c/c.go", "package c\n\nimport (\n\t_ \"example.org/p/a\"\n\t_ \"example.org/p/b\"\n)\n\nfunc dead() { dead2() }\n\nfunc dead2() {}\n"), nil},
		{s.with("c/c.go", "package c\n\nimport _ \"example.org/p/a\"\n").with("d/d.go", "package d\n\nimport _ \"example.org/p/c\"\n").with("e/e.go", "package e\n\nimport (\n\t_ \"example.org/p/d\"\n\t_ \"example.org/p/c\"\n)\n"), nil},
		{s.with("x/one.ts", "import { two } from './two'\nexport function one() { return two() }\n").with("x/two.ts", "import { one } from './one'\nexport function two() { return one() }\n"), nil},
		{s.with("b/f.c", "#include <stdio.h>\nint add(int a, int b) { return a + b; }\n").with("b/ffi.py", "import ctypes\nlib = ctypes.CDLL('./f.so')\nlib.add(1, 2)\n").with("b/cgo.go", "package b\n\n// int add(int, int);\nimport \"C\"\n\nfunc Add() int { return int(C.add(1, 2)) }\n"), nil},
		{s.with("Makefile", makefile), nil},
		{s.with("Makefile", strings.Replace(makefile, ".PHONY: help\n", "other: help\nmore:\n", 1)), nil},
		{s.with("vendor/x.go", "package x\n").with(".gitignore", "*.tmp\n").with("a.tmp", "x").with("bad.go", "package bad\n\nfunc {"), nil},
		{s.with("cover.out", "mode: set\nexample.org/p/a/a.go:5.1,6.2 1 1\n"), nil},
		{s.with("a/big.go", "package a\n\n"+tangled(25)+tangled(12)), nil},
		{s.with("a/big.go", "package a\n\n"+tangled(26)), nil},
		{s, func(t testing.TB, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
				t.Fatal(err)
			}
		}},
		{s, func(t testing.TB, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "a/a.go"), []byte(s["a/a.go"]+"\nfunc Later() {}\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		{s, again},
		{s, func(t testing.TB, dir string) { again(t, dir); commit(t, dir, "Hedy", "third") }},
		{s.with("a/types.go", "package a\n\ntype Vault struct{ x int }\n\nvar UnlockedSecret = 1\n\ntype CanarySecretKeeper struct{ Vault }\n"), nil},
		{s.with("zz/CanarySecrets.go", "package zz\n\nfunc canarySecret() {}\n\nfunc CanarySecret() {}\n"), nil},
		{s.with("secret/key.go", s["secret/key.go"]+"\n// a line more\n"), nil},
	}
}

// tangled returns a function with the given number of branches.
func tangled(branches int) string {
	return fmt.Sprintf("func Tangled%d(a int) int {\n%s\treturn a\n}\n", branches, strings.Repeat("\tif a > 1 {\n\t\ta--\n\t}\n", branches))
}

// thresholdsOf reports whether a number is one that no argument changes in a result of
// several analyses.
func thresholdsOf(at string) bool {
	return strings.HasSuffix(at, "complexity_report.thresholds.max_cognitive") || strings.HasSuffix(at, "complexity_report.thresholds.max_cyclomatic") || strings.HasSuffix(at, "complexity_report.top_files.requested") ||
		strings.HasPrefix(at, "complexity.thresholds.") || at == "complexity.top_files.requested" || strings.HasSuffix(at, "vectors[].weight") || at == "analyses.defects.below_min_confidence"
}

// argumentsFor returns the arguments with which a tool is called.
func argumentsFor(tool string) []map[string]any {
	base := allTools()[tool]
	with := func(more map[string]any) map[string]any {
		all := maps.Clone(base)
		maps.Copy(all, more)
		return all
	}
	switch tool {
	case "analyze_duplicates":
		return []map[string]any{with(map[string]any{"perf": true}), with(map[string]any{"min_lines": 3, "threshold": 0.5}), {"snippet": "func f(xs []int) (n int) {\n\tfor i, x := range xs {\n\t\tif x > 10 && i%2 == 0 {\n\t\t\tn += x * i\n\t\t}\n\t}\n\treturn n\n}\n"}}
	case "quality_gate":
		return []map[string]any{base, with(map[string]any{"base": "HEAD"}), with(map[string]any{"complexity_threshold": 3, "duplication_threshold": 1, "coverage_threshold": 99, "defect_threshold": 0.1}), with(map[string]any{"coverage_file": "cover.out"})}
	case "analyze_complexity":
		return []map[string]any{base, {}, {"max_cyclomatic": 2, "max_cognitive": 2, "top_files": 2}}
	case "analyze_code_churn":
		return []map[string]any{base, {"period_days": 7}}
	case "analyze_name_similarity":
		return []map[string]any{base, with(map[string]any{"phonetic": true})}
	case "analyze_comprehensive":
		return []map[string]any{base, with(map[string]any{"confidence_threshold": 1})}
	case "analyze_defect_probability":
		return []map[string]any{base, {"min_confidence": 1}}
	}
	return []map[string]any{base}
}

// stage makes a repository with the files, and returns its path.
func stage(t testing.TB, p project, after func(testing.TB, string)) string {
	t.Helper()
	dir := p.in(t)
	commit(t, dir, "Ada", "first")
	if after != nil {
		after(t, dir)
	}
	return dir
}

// flattened returns the values of a tool's result by their paths. A fault is also a value.
func flattened(t testing.TB, dir, tool string, args map[string]any) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	o := analyse(t, dir, tool, args, nil)
	if o.err != nil {
		all["fault"] = []string{o.err.Error()}
		return all
	}
	var v any
	if err := json.Unmarshal(o.answer.Result, &v); err != nil {
		t.Fatal(err)
	}
	flatten(v, "", all)
	return all
}

func union(a, b map[string][]string) map[string]bool {
	all := map[string]bool{}
	for at := range a {
		all[at] = true
	}
	for at := range b {
		all[at] = true
	}
	return all
}

// preview returns the text of a template with its default values.
func preview(uri string) string {
	made, err := template.Preview(uri)
	if err != nil {
		panic(err)
	}
	return made.Content
}
