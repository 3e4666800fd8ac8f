package toolkit

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/internal/toolkit/code/cache"
)

// told runs an analysis with a cache. It returns the outcome and the stages that the
// analysis reported.
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

// TestAnswersAreKept checks that a repeated question about files that did not change is
// answered from the cache, with all that the first answer contained.
func TestAnswersAreKept(t *testing.T) {
	testenv.Need(t, testenv.Git)
	dir := sample().in(t)
	commit(t, dir, "Ada", "first")
	// one stage of each analysis, which an answer from the cache does not need
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

// TestAnswersAreOfWhatIsThere checks that an answer is used again only while all that it
// depends on is the same.
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
	read := func(t *testing.T, dir, name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, dir string)
		args   map[string]any
		deny   string
		again  bool
	}{
		{"nothing", nothing, nil, "", true},
		{"a letter", func(t *testing.T, dir string) {
			write("a/a.go", strings.Replace(read(t, dir, "a/a.go"), "Use", "Ask", 1))(t, dir)
		}, nil, "", false},
		{"a file that is new", write("new.go", "package p\n"), nil, "", false},
		{"a file that is not read", write("new.bin", "x"), nil, "", true},
		{"what is left out", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "vendor"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, nil, "", false},
		{"a file of a template", func(t *testing.T, dir string) {
			write("README.md", preview("template://readme/rust/cli")+"\nmore\n")(t, dir)
		}, nil, "", false},
		{"the past", func(t *testing.T, dir string) { // the text of the file is the same afterwards
			was := read(t, dir, "a/a.go")
			for _, text := range []string{"package a\n", was} {
				write("a/a.go", text)(t, dir)
				commit(t, dir, "Eve", "more")
			}
		}, nil, "", false},
		{"an argument", nothing, map[string]any{"max_tokens": 9000}, "", false},
		{"what the policy denies", nothing, nil, "a/", false},
	} {
		dir, kept := sample().with("README.md", preview("template://readme/rust/cli")).in(t), t.TempDir()
		commit(t, dir, "Ada", "first")
		told(t, dir, kept, "analyze_deep_context", nil, nil)
		tt.change(t, dir)
		_, stages := told(t, dir, kept, "analyze_deep_context", tt.args, func(path string) bool { return tt.deny != "" && strings.Contains(path, tt.deny) })
		if again := !slices.Contains(stages, "map"); again != tt.again {
			t.Errorf("%s changed: answered from the cache %t, want %t", tt.name, again, tt.again)
		}
	}
}

// TestSomeAnswersAreNotKept checks that an answer is not kept if it says how long it took,
// if the call asked for a refresh, or if it lacks something for which the time did not
// suffice.
func TestSomeAnswersAreNotKept(t *testing.T) {
	dir, kept := sample().in(t), t.TempDir()
	for range 2 {
		if _, stages := told(t, dir, kept, "analyze_duplicates", map[string]any{"perf": true}, nil); !slices.Contains(stages, "clones") {
			t.Errorf("its stages are %q: how long they took was kept", stages)
		}
		if _, stages := told(t, dir, kept, "analyze_deep_context", map[string]any{"cache_strategy": refresh}, nil); !slices.Contains(stages, "map") {
			t.Errorf("its stages are %q: it was to be made anew", stages)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx   context.Context
		left  []LeftOut
		whole bool
		want  bool
	}{
		"all":                     {t.Context(), []LeftOut{{"generated", 1}}, true, true},
		"a file that is not read": {t.Context(), nil, false, false},
		"a file without time":     {t.Context(), []LeftOut{{timeUp, 1}}, true, false},
		"a part without time":     {ended, nil, true, false},
	} {
		in := t.TempDir()
		store := cache.Open(in, "")
		r := &reading{ctx: tt.ctx, left: tt.left, cache: store, shared: &shared{}}
		key := store.Sum(name)
		(&cachedAnswer{reading: r, key: key, complete: tt.whole}).keep([]byte("line"), []byte("whole"))
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		after := cache.Open(in, "")
		if got := after.Kept(key) != nil; got != tt.want {
			t.Errorf("%s: kept %t, want %t", name, got, tt.want)
		}
		after.Close()
	}
}
