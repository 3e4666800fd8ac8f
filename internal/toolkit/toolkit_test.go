package toolkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/internal/toolkit/code"
)

// project is the files of a workspace.
type project map[string]string

// in writes the files to a new directory.
func (p project) in(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range p {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// with returns the project with one file changed.
func (p project) with(name, text string) project {
	other := maps.Clone(p)
	other[name] = text
	return other
}

// outcome is the result of an analysis of a directory.
type outcome struct {
	answer *Answer
	whole  []byte
	asked  []string
	err    error
}

// analyse runs the server and the helper in this process. deny reports which files the
// policy hides from the agent.
func analyse(t testing.TB, dir, tool string, args map[string]any, deny func(path string) bool) (o outcome) {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return converse(t, Host{Workspace: dir, Git: testGit}, Request{Tool: tool, Args: text, TimeMS: 60_000}, deny)
}

// converse runs the server and the helper in this process.
func converse(t testing.TB, h Host, ask Request, deny func(path string) bool) (o outcome) {
	t.Helper()
	return converseWith(t, h, ask, deny, nil)
}

// converseWith is converse, with a function that receives the helper's progress.
func converseWith(t testing.TB, h Host, ask Request, deny func(path string) bool, progress func(done, total int, stage string)) (o outcome) {
	t.Helper()
	fromServer, toHelper := io.Pipe()
	fromHelper, toServer := io.Pipe()
	var out bytes.Buffer
	h.In, h.Events, h.Out = fromServer, toServer, &out
	served := make(chan error, 1)
	go func() {
		err := Serve(t.Context(), h)
		toServer.CloseWithError(err)
		served <- err
	}()
	o.answer, o.err = Converse(toHelper, fromHelper, ask, Asks{LeaveOut: func(path string) bool {
		o.asked = append(o.asked, path)
		return deny != nil && deny(path)
	}, Progress: progress})
	fromHelper.Close()
	toHelper.Close()
	if err := <-served; err != nil && o.err == nil {
		t.Errorf("%s: %v", ask.Tool, err)
	}
	o.whole = out.Bytes()
	return o
}

// testGit calls Git, which ignores PATH.
func testGit(ctx context.Context, args, env []string, in io.Reader) (io.Reader, error) {
	return Git(ctx, args, env, in)
}

// commit commits the files of a directory to a repository. env is added to the environment
// of git.
func commit(t testing.TB, dir, author, message string, env ...string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "--allow-empty", "-m", message}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = append([]string{
			"PATH=" + os.Getenv("PATH"), "HOME=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=" + author, "GIT_AUTHOR_EMAIL=" + author + "@example.org",
			"GIT_COMMITTER_NAME=" + author, "GIT_COMMITTER_EMAIL=" + author + "@example.org",
		}, env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

// submodule commits a submodule whose own commit does not exist.
func submodule(t testing.TB, dir, path string) {
	t.Helper()
	for _, args := range [][]string{{"update-index", "--add", "--cacheinfo", "160000," + strings.Repeat("1", 40) + "," + path}, {"commit", "-q", "-m", "second"}} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=ann", "-c", "user.email=ann@example.org"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

// Texts of the tests.
const (
	branchy = "func Branchy(a, b int) int {\n\tif a > 0 {\n\t\tfor b > 0 {\n\t\t\tif a == b {\n\t\t\t\treturn 1\n\t\t\t}\n\t\t\tb--\n\t\t}\n\t}\n\treturn a\n}\n"
	plainGo = "package p\n\nimport \"fmt\"\n\n// Plain does little.\nfunc Plain(s string) {\n\tfmt.Println(s)\n}\n"
)

func sample() project {
	return project{
		"go.mod":        "module example.org/p\n\ngo 1.26\n",
		"a/a.go":        "package a\n\nimport \"example.org/p/b\"\n\n" + branchy + "\nfunc Use() { b.Plain(\"x\") }\n",
		"b/b.go":        strings.Replace(plainGo, "package p", "package b", 1),
		"b/c.py":        "import os\n\n# TODO: handle the empty list\ndef total(xs):\n    s = 0\n    for x in xs:\n        if x > 1:\n            s += x\n    return s\n",
		"lib/l.rs":      "pub fn area(w: u32, h: u32) -> u32 {\n    if w == 0 { return 0; }\n    w * h\n}\n",
		"secret/key.go": "package secret\n\n// TODO: rotate CANARY\nfunc CanarySecret(a int) int {\n\tif a > 1 {\n\t\treturn 2\n\t}\n\treturn a\n}\n",
	}
}

// allTools returns the analyses, with arguments for as large a result as possible.
func allTools() map[string]map[string]any {
	return map[string]map[string]any{
		"analyze_complexity":         {"max_cyclomatic": 1, "max_cognitive": 0},
		"analyze_code_churn":         {},
		"analyze_deep_context":       {"max_tokens": 4000},
		"analyze_duplicates":         {"min_lines": 2},
		"analyze_defect_probability": {"min_confidence": 0, "explain": true},
		"analyze_comprehensive":      {"confidence_threshold": 0, "min_lines": 2, "perf": true},
		"analyze_graph_metrics":      {"graphml": true},
		"analyze_name_similarity":    {"query": "CanarySecret"},
		"quality_gate":               {"complexity_threshold": 1},
	}
}

// A file that the policy hides from the agent is not in any result, whatever the format.
// Each result states how many files were left out.
func TestDeniedFilesAreInNoResult(t *testing.T) {
	testenv.Need(t, testenv.Git)
	dir := sample().in(t)
	commit(t, dir, "Ada", "first")
	deny := func(path string) bool { return strings.HasPrefix(path, Workspace+"/secret/") }
	for tool, args := range allTools() {
		for _, format := range []string{"", "detailed", "json", "sarif", "junit", "markdown"} {
			with := maps.Clone(args)
			if format != "" {
				with["format"] = format
			}
			o := analyse(t, dir, tool, with, deny)
			if _, bad := errors.AsType[*Fault](o.err); bad && strings.Contains(o.err.Error(), "format: got") {
				continue // the tool does not have this format
			}
			if o.err != nil {
				t.Errorf("%s as %q: %v", tool, format, o.err)
				continue
			}
			// The result repeats the name in the query.
			said := strings.ReplaceAll(o.answer.Text+string(o.whole)+string(o.answer.Result), `"query":"CanarySecret"`, "")
			if found := regexp.MustCompile(`(?i)canary|secret/`).FindString(said); found != "" {
				t.Errorf("%s as %q: %q of a denied file is in the result", tool, format, found)
			}
			if !strings.Contains(string(o.answer.Result), `{"reason":"denied by the policy","files":1}`) {
				t.Errorf("%s as %q: the result does not say that one file was left out: %.300s", tool, format, o.answer.Result)
			}
			if !slices.Contains(o.asked, Workspace+"/secret/key.go") {
				t.Errorf("%s as %q: the server was not asked", tool, format)
			}
		}
	}
	// Without a policy, the result contains the canary: so the test can fail.
	if o := analyse(t, dir, "analyze_complexity", allTools()["analyze_complexity"], nil); !strings.Contains(string(o.answer.Result), "CanarySecret") {
		t.Error("the fixture has no canary")
	}
}

// Shell scripts have functions without metrics: they are in the map and in the list of
// names, and do not count in any number.
func TestShellIsDeclaredAndNotMeasured(t *testing.T) {
	p := sample()
	plain := p.in(t)
	with := p.with("deploy.sh", "#!/bin/bash\nroll_back() {\n\tif true; then echo; fi\n}\nroll_back\n").in(t)
	for _, tool := range []string{"analyze_name_similarity", "analyze_deep_context"} {
		o := analyse(t, with, tool, map[string]any{"query": "roll_back", "format": asJSON}, nil)
		if o.err != nil || !bytes.Contains(o.whole, []byte("deploy.sh")) {
			t.Errorf("%s: got %v %.300s, want the function of deploy.sh", tool, o.err, o.whole)
		}
	}
	one, two := analyse(t, plain, "analyze_complexity", nil, nil), analyse(t, with, "analyze_complexity", nil, nil)
	said := []byte(`"not_measured":[{"field":"complexity","reason":"not measured for shell (1 file): functions of shell scripts have no numbers"}],`)
	if !bytes.Contains(two.answer.Result, said) || !bytes.Equal(one.answer.Result, bytes.Replace(two.answer.Result, said, nil, 1)) {
		t.Errorf("a script changes the complexity:\n%s\n%s", one.answer.Result, two.answer.Result)
	}
}

// numbersOf adds the paths of the numbers and lists in the JSON of a type, such as
// violations[].line.
func numbersOf(t reflect.Type, at string, all map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer:
		numbersOf(t.Elem(), at, all)
	case reflect.Int, reflect.Int64, reflect.Float64:
		all[at] = true
	case reflect.Slice:
		all[at] = true
		numbersOf(t.Elem(), at+"[]", all)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || !f.IsExported() || name == "" || len(f.Index) > 2 {
				continue
			}
			if strings.Count(at, ".children") > 0 && name == "children" {
				continue // the type contains itself
			}
			numbersOf(f.Type, strings.TrimPrefix(at+"."+name, "."), all)
		}
	}
}

// flatten records each value of a result by its path, without indexes.
func flatten(v any, at string, all map[string][]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, one := range v {
			flatten(one, strings.TrimPrefix(at+"."+name, "."), all)
		}
	case []any:
		all[at] = append(all[at], fmt.Sprint(len(v), v))
		for _, one := range v {
			flatten(one, at+"[]", all)
		}
	default:
		all[at] = append(all[at], fmt.Sprint(v))
	}
}

// The policy knows files by their paths. A link in the workspace gives a file another path,
// which no rule names.
func TestProjectBehindLink(t *testing.T) {
	dir := project{"secret/key.go": "package secret\n\nfunc Unlock() {}\n", "open/a.go": plainGo}.in(t)
	for link, to := range map[string]string{"alias": "secret", "open/up": "../secret", "here": "."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	deny := func(path string) bool { return strings.HasPrefix(path, Workspace+"/secret/") }
	for _, path := range []string{"alias", "open/up", "here/secret", "here/alias"} {
		o := analyse(t, dir, "analyze_name_similarity", map[string]any{"query": "Unlock", "project_path": path}, deny)
		if o.err == nil || !strings.Contains(o.err.Error(), "project_path: /workspace/"+path+" is a link, or is reached through a link") {
			t.Errorf("%s: got %v, %s; want an error that says link", path, o.err, o.whole)
		}
	}
	o := analyse(t, dir, "analyze_name_similarity", map[string]any{"query": "Unlock", "project_path": "./secret//"}, deny)
	if o.err != nil || !strings.Contains(string(o.whole), `"files":0,"left_out":[{"reason":"denied by the policy","files":1}]`) {
		t.Errorf("secret: got %v, %s; want a file left out", o.err, o.whole)
	}
}

// A file that could not be measured is named, unless the policy hides the name from the
// agent.
func TestGapsBehindPolicy(t *testing.T) {
	dir := project{"open/a.go": plainGo, "secret/" + strings.Repeat("hidden/", 66) + "x.go": plainGo}.in(t)
	commit(t, dir, "ann", "first")
	submodule(t, dir, "secret/inner")
	deny := func(path string) bool { return strings.HasPrefix(path, Workspace+"/secret/") }
	for tool, args := range map[string]map[string]any{
		"analyze_code_churn": {}, "analyze_deep_context": {}, "analyze_complexity": {}, "quality_gate": {"base": "HEAD~1"},
	} {
		o := analyse(t, dir, tool, args, deny)
		if o.err != nil {
			t.Errorf("%s: %v", tool, o.err)
			continue
		}
		for _, text := range []string{string(o.whole), o.answer.Text, string(o.answer.Result)} {
			if strings.Contains(text, "hidden") || strings.Contains(text, "inner") {
				t.Errorf("%s: got %s, want no name of what the policy denies", tool, text)
			}
		}
		if !strings.Contains(string(o.whole), "deeper than 64 directories") {
			t.Errorf("%s: got %s, want the gap without its path", tool, o.whole)
		}
		if o = analyse(t, dir, tool, args, nil); !strings.Contains(string(o.whole), "hidden/hidden") {
			t.Errorf("%s: got %s, want the path where nothing is denied", tool, o.whole)
		}
	}
}

// A process of the box can write to the helper's output. The amount of this output that is
// read is limited.
func TestConverseEnds(t *testing.T) {
	for name, line := range map[string]string{
		"stages": `{"stage":"x"}`,
		"asks":   `{"asked":true}`,
		"paths":  `{"paths":["a` + strings.Repeat(`","a`, pathsAtOnce) + `"]}`,
		"blank":  `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			judged := 0
			_, err := Converse(io.Discard, strings.NewReader(strings.Repeat(line+"\n", maxEvents+1)), Request{Tool: "analyze_complexity"}, Asks{LeaveOut: func(string) bool { judged++; return false }})
			if err == nil || !strings.Contains(err.Error(), "more than") || judged > maxAsked {
				t.Errorf("got %v after %d paths, want an error that says more than", err, judged)
			}
		})
	}
}

// A submodule is a gap of the history. The result still states that nothing was changed.
func TestGateWithSubmodule(t *testing.T) {
	dir := sample().in(t)
	commit(t, dir, "ann", "first")
	submodule(t, dir, "inner")
	o := analyse(t, dir, "quality_gate", map[string]any{"base": "HEAD"}, nil)
	if o.err != nil || !strings.Contains(string(o.whole), `"changed_files":0`) || !strings.Contains(string(o.whole), "a submodule") {
		t.Errorf("got %v, %s; want no changed file, and the submodule", o.err, o.whole)
	}
}

// If a lexer panics, the result is a gap for one file.
func TestALexerThatPanics(t *testing.T) {
	f, gap := parsed(func(string, code.Language, string) *code.File { panic("index out of range") }, code.Entry{Path: "a.ts"}, "x")
	if f != nil || gap == nil || gap.Path != "a.ts" || !strings.Contains(gap.Reason, "fault in belljar") {
		t.Errorf("got %v, %v, want a gap of a.ts", f, gap)
	}
}
