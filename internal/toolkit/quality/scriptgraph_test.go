//go:build quality

package quality

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/graph"
	"belljar.dev/internal/toolkit/code/lex"
)

// scriptProjects returns the directories of packages with sources in TypeScript.
func scriptProjects(t *testing.T) []string {
	t.Helper()
	modules := npm(t, "zod@4.6.7", "rxjs@7.8.2", "effect", "react-native-paper", "react-native-gesture-handler", "@react-spectrum/s2", "@react-navigation/elements", "eslint@9.39.5")
	var all []string
	for _, name := range []string{"zod", "rxjs", "effect", "react-native-paper"} {
		dir := filepath.Join(modules, name, "src")
		if _, err := os.Stat(dir); err != nil {
			t.Fatal(err)
		}
		all = append(all, dir)
	}
	return all
}

// parseScripts parses the files of a project.
func parseScripts(t *testing.T, dir string) (files []*code.File) {
	t.Helper()
	for _, name := range sources(t, dir, 1, 1<<20, ".ts", ".tsx", ".js") {
		name = strings.TrimPrefix(name, dir+"/")
		files = append(files, lex.Parse(name, scriptLanguage(name), readFile(t, dir, name)))
	}
	return files
}

// TestScriptImportsEqualDependencyCruiser checks that the imports between the files of a
// project are exactly those that dependency-cruiser finds.
func TestScriptImportsEqualDependencyCruiser(t *testing.T) {
	modules := npm(t, "dependency-cruiser@17.4.3", "typescript@5.9.3")
	both, own, others := 0, 0, 0
	for _, dir := range scriptProjects(t) {
		files := parseScripts(t, dir)
		known := make(map[string]bool)
		for _, f := range files {
			known[f.Path] = true
		}
		cmd := exec.CommandContext(t.Context(), "node", filepath.Join(modules, ".bin", "depcruise"), "--no-config", "--ts-pre-compilation-deps", "--exclude", "^$", "-T", "json", ".")
		cmd.Dir = dir
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var said struct {
			Modules []struct {
				Source       string
				Dependencies []struct{ Resolved string }
			}
		}
		if err := json.Unmarshal(out, &said); err != nil {
			t.Fatal(err)
		}
		want := make(map[string]bool)
		for _, m := range said.Modules {
			for _, d := range m.Dependencies {
				if known[m.Source] && known[d.Resolved] && m.Source != d.Resolved {
					want[m.Source+" -> "+d.Resolved] = true
				}
			}
		}
		g, err := graph.Build(t.Context(), files, graph.Imports)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]bool)
		for _, l := range g.Links {
			got[g.Nodes[l.From].Path+" -> "+g.Nodes[l.To].Path] = true
		}
		shared := 0
		for l := range want {
			if got[l] {
				shared++
			} else {
				t.Logf("%s: missing: %s", dir, l)
			}
		}
		for l := range got {
			if !want[l] {
				t.Logf("%s: not in dependency-cruiser: %s", dir, l)
			}
		}
		t.Logf("%s: %d files, %d imports, of which dependency-cruiser has %d; it has %d", dir, len(files), len(got), shared, len(want))
		both, own, others = both+shared, own+len(got), others+len(want)
	}
	if both < 1000 || float64(both) < 0.98*float64(own) || float64(both) < 0.98*float64(others) {
		t.Errorf("%d imports are in both, of %d and %d: want 98 %% of each", both, own, others)
	}
}

// exported matches the beginning of the declaration of a function that other files can
// import.
var exported = regexp.MustCompile(`(?m)^export (?:default )?((?:async )?function\b\*? ?[\w$])`)

// A function of a script that is reported as dead with high confidence is also unused for
// eslint's no-unused-vars. Well-kept code contains almost no such function, so the test
// removes the exports of each file's functions, and treats each file as a project by
// itself. knip cannot be the reference: it looks for exports that nothing imports, and an
// exported function has a low confidence here.
func TestDeadScriptsAreUnused(t *testing.T) {
	modules := npm(t, "eslint@9.39.5", "eslint-plugin-sonarjs@4.2.2", "@typescript-eslint/parser@8.73.0", "typescript@5.9.3")
	dir := t.TempDir()
	files := make(map[string]*code.File)
	for _, project := range scriptProjects(t) {
		for _, f := range parseScripts(t, project) {
			name := filepath.Join(dir, filepath.Base(filepath.Dir(project)), f.Path)
			text := exported.ReplaceAllString(f.Text, "$1") + "\nexport {};\n"
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			files[name] = lex.Parse(name, f.Language, text)
		}
	}
	cmd := exec.CommandContext(t.Context(), "node", "testdata/unused.cjs", modules)
	cmd.Stdin = strings.NewReader(strings.Join(slices.Sorted(maps.Keys(files)), "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	unused := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		unused[strings.TrimSpace(line)] = true
	}
	all, right, functions, left := 0, 0, 0, 0
	for _, f := range files {
		if unused[f.Path+":0"] {
			left++
			continue
		}
		for i := range f.Funcs {
			if unused[f.Path+":"+strconv.Itoa(f.Funcs[i].Line)] {
				functions++
			}
		}
		dead, err := graph.Dead(t.Context(), []*code.File{f})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range dead {
			// eslint counts the name in another dead function as a use
			if u.Confidence != graph.High || strings.HasPrefix(u.Reason, "only functions") {
				continue
			}
			all++
			if unused[u.Path+":"+strconv.Itoa(u.Line)] {
				right++
			} else {
				t.Logf("eslint sees a use of %s:%d %s", u.Path, u.Line, u.Name)
			}
		}
	}
	t.Logf("%d of %d functions of high confidence are unused, in %d files without %d that eslint does not read; it has %d", right, all, len(files)-left, left, functions)
	if all < 500 || float64(right) < 0.9*float64(all) {
		t.Errorf("precision %d of %d, want at least 90 %%", right, all)
	}
}
