package toolkit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

// told is an analysis with a cache, and the stages that it told of.
func told(t *testing.T, dir, kept, tool string, args map[string]any, deny func(path string) bool) (o outcome, stages []string) {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	h := Host{Workspace: dir, Git: testGit, Cache: kept}
	o = converseWith(t, h, Request{Tool: tool, Args: text, TimeMS: 60_000}, deny, func(_, _ int, stage string) { stages = append(stages, stage) })
	if o.err != nil {
		t.Fatalf("%s: %v", tool, o.err)
	}
	return o, stages
}

// What was asked before, of files that did not change, is answered from the cache, and with
// all that was said then.
func TestAnswersAreKept(t *testing.T) {
	testenv.Need(t, testenv.Git)
	dir := sample().in(t)
	commit(t, dir, "Ada", "first")
	// What stands for work that an answer from the cache does not need.
	work := map[string]string{
		"analyze_deep_context": "map", "analyze_duplicates": "clones", "analyze_defect_probability": "defects", "analyze_comprehensive": "clones",
		"analyze_graph_metrics": "graph", "analyze_complexity": "complexity",
	}
	for tool, stage := range work {
		kept := t.TempDir()
		first, stages := told(t, dir, kept, tool, nil, nil)
		if !slices.Contains(stages, stage) {
			t.Errorf("%s: its stages are %q, want %s among them", tool, stages, stage)
		}
		again, stages := told(t, dir, kept, tool, nil, nil)
		if slices.Contains(stages, stage) {
			t.Errorf("%s: its stages are %q once it was answered", tool, stages)
		}
		if string(again.answer.Result) != string(first.answer.Result) || again.answer.Text != first.answer.Text || string(again.whole) != string(first.whole) {
			t.Errorf("%s: got from the cache\n%s, want\n%s", tool, again.answer.Result, first.answer.Result)
		}
	}
}

// An answer is given again only while all that it depends on is the same.
func TestAnswersAreOfWhatIsThere(t *testing.T) {
	testenv.Need(t, testenv.Git)
	write := func(name, text string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	nothing := func(*testing.T, string) {}
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, dir string)
		args   map[string]any
		deny   string
		again  bool
	}{
		{"nothing", nothing, nil, "", true},
		{"a text", write("a/a.go", "package a\n"), nil, "", false},
		{"a file that is new", write("new.go", "package p\n"), nil, "", false},
		{"a file that is not read", write("new.bin", "x"), nil, "", true},
		{"an ignored file", write(".gitignore", "a/\n"), nil, "", false},
		{"a template", write("Makefile", "all:\n"), nil, "", false},
		{"the past", func(t *testing.T, dir string) { // of a text that is as it was
			was, err := os.ReadFile(filepath.Join(dir, "a/a.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"package a\n", string(was)} {
				write("a/a.go", text)(t, dir)
				commit(t, dir, "Eve", "more")
			}
		}, nil, "", false},
		{"an argument", nothing, map[string]any{"max_tokens": 9000}, "", false},
		{"what the policy denies", nothing, nil, "a/", false},
		{"cache_strategy", nothing, map[string]any{"cache_strategy": refresh}, "", false},
	} {
		dir, kept := sample().with("Makefile", "all:\n\techo\n").in(t), t.TempDir()
		commit(t, dir, "Ada", "first")
		args := map[string]any{"cache_strategy": "normal"}
		told(t, dir, kept, "analyze_deep_context", args, nil)
		tt.change(t, dir)
		for name, value := range tt.args {
			args[name] = value
		}
		_, stages := told(t, dir, kept, "analyze_deep_context", args, func(path string) bool { return tt.deny != "" && strings.Contains(path, tt.deny) })
		if again := !slices.Contains(stages, "map"); again != tt.again {
			t.Errorf("%s changed: answered from the cache %t, want %t", tt.name, again, tt.again)
		}
	}
}

// An answer that lacks what there was no time for is not kept, and neither is one that says
// how long it took.
func TestSomeAnswersAreNotKept(t *testing.T) {
	dir, kept := sample().in(t), t.TempDir()
	for range 2 {
		if _, stages := told(t, dir, kept, "analyze_duplicates", map[string]any{"perf": true}, nil); !slices.Contains(stages, "clones") {
			t.Errorf("its stages are %q: how long they took was kept", stages)
		}
	}
	if o := converse(t, Host{Workspace: dir, Git: testGit, Cache: kept}, Request{Tool: "analyze_duplicates", Args: []byte(`{}`), TimeMS: 1}, nil); o.err == nil && !strings.Contains(string(o.answer.Result), timeUp) {
		t.Skip("it was done in a millisecond")
	}
	if o, stages := told(t, dir, kept, "analyze_duplicates", nil, nil); !slices.Contains(stages, "clones") || strings.Contains(string(o.answer.Result), timeUp) {
		t.Errorf("its stages are %q: a part of an answer was kept", stages)
	}
}
