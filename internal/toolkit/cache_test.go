package toolkit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/cache"
	"belljar.dev/internal/toolkit/code/lex"
)

// times matches what differs between two results of the same project.
var times = regexp.MustCompile(`"(generated_at|secs|nanos|ms)":[^,}]*`)

// Files from the cache give the same results as files that are read anew, and a file
// that has changed is read anew.
func TestResultsAreTheSameFromTheCache(t *testing.T) {
	testenv.Need(t, testenv.Git)
	p := sample().with("a/b.rb", "# TODO: x\nputs 1\n").with("run.sh", "#!/bin/sh\nf() { g; }\n").with("bad.go", "package bad\n\nfunc {")
	dir := p.in(t)
	commit(t, dir, "Ada", "first")
	kept := filepath.Join(t.TempDir(), "cache")
	for tool, args := range allTools() {
		want := analyseFrom(t, dir, "", tool, args)
		for range 2 {
			if got := analyseFrom(t, dir, kept, tool, args); got != want {
				t.Errorf("%s: got from the cache\n%s, want\n%s", tool, got, want)
			}
		}
	}
	if found, err := filepath.Glob(filepath.Join(kept, "*.segment")); err != nil || len(found) == 0 {
		t.Errorf("got %v, %v: nothing is in the cache", found, err)
	}
	before := analyseFrom(t, dir, kept, "analyze_complexity", nil)
	if err := os.WriteFile(filepath.Join(dir, "a/a.go"), []byte("package a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if after := analyseFrom(t, dir, kept, "analyze_complexity", nil); after == before || after != analyseFrom(t, dir, "", "analyze_complexity", nil) {
		t.Errorf("a file changed, and the result did not follow: %s", after)
	}
}

// An analysis may keep a file in the cache without the numbers that it does not need.
// Another analysis measures these numbers.
func TestCacheCountsWhatIsMissing(t *testing.T) {
	dir := sample().in(t)
	kept := t.TempDir()
	want := analyseFrom(t, dir, "", "analyze_complexity", nil)
	analyseFrom(t, dir, kept, "analyze_duplicates", nil)
	for range 2 {
		if got := analyseFrom(t, dir, kept, "analyze_complexity", nil); got != want || !strings.Contains(got, `"halstead_effort":`) {
			t.Errorf("got from the cache\n%s, want\n%s", got, want)
		}
	}
}

// TestCacheStrategy checks that the agent's own analyses use a forged entry unless
// cache_strategy is force-refresh, and that a gate never uses it.
func TestCacheStrategy(t *testing.T) {
	const text = "package p\n\n" + branchy
	dir := project{"a.go": text}.in(t)
	kept := t.TempDir()
	offlineArgs := map[string]any{"cache_strategy": "offline", "format": "json"}
	if got := analyseFrom(t, dir, kept, "analyze_deep_context", offlineArgs); !strings.Contains(got, `{"path":"a.go","field":"file","reason":"cache_strategy is offline, and the cache does not have it"}`) || !strings.Contains(got, `"files":0`) {
		t.Errorf("offline without a cache: got %s", got)
	}
	analyseFrom(t, dir, kept, "analyze_deep_context", map[string]any{"format": "json"})
	if got := analyseFrom(t, dir, kept, "analyze_deep_context", offlineArgs); !strings.Contains(got, `"files":1`) || strings.Contains(got, "offline") {
		t.Errorf("offline with a cache: got %s", got)
	}
	forged := func(tool string, args map[string]any) bool {
		return strings.Contains(analyseFrom(t, dir, kept, tool, args), "Forged")
	}
	for _, tt := range []struct {
		tool string
		args map[string]any
		want bool
	}{
		{"analyze_deep_context", map[string]any{"format": "json"}, true},
		{"analyze_deep_context", map[string]any{"format": "json", "cache_strategy": "force-refresh"}, false},
		{"quality_gate", map[string]any{"complexity_threshold": 1}, false},
	} {
		forge(t, kept, text)
		if got := forged(tt.tool, tt.args); got != tt.want {
			t.Errorf("%s %v: got the forged entry %t, want %t", tt.tool, tt.args, got, tt.want)
		}
	}
}

// analyseFrom returns the result of an analysis with a cache, without times.
func analyseFrom(t *testing.T, dir, kept, tool string, args map[string]any) string {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	o := converse(t, Host{Workspace: dir, Git: testGit, Cache: kept}, Request{Tool: tool, Args: text, TimeMS: 60_000}, nil)
	if o.err != nil {
		t.Fatalf("%s: %v", tool, o.err)
	}
	return times.ReplaceAllString(string(o.answer.Result), "")
}

// forge replaces the cache by an entry for a.go in which the first function is called
// Forged.
func forge(t *testing.T, kept, text string) {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(kept, "*.segment"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	s := cache.Open(kept, "")
	f := lex.Parse("a.go", code.Go, text)
	f.Funcs[0].Name, f.Funcs[0].Label = "Forged", "Forged"
	s.Put(s.Key("a.go", code.Go, text), f)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
