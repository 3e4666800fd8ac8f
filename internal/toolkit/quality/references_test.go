//go:build quality

package quality

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

// references returns the directory that keeps the reference programs and the texts between
// runs.
func references(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip("no directory for caches:", err)
	}
	dir := filepath.Join(cache, "belljar-toolkit-quality")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// npm returns the node_modules of a directory with packages of the npm registry. The
// name of the directory is that of the first package.
func npm(t testing.TB, packages ...string) string {
	t.Helper()
	dir := filepath.Join(references(t), "npm-"+strings.NewReplacer("/", "_", "@", "").Replace(packages[0]))
	done := filepath.Join(dir, "done")
	if _, err := os.Stat(done); err == nil {
		return filepath.Join(dir, "node_modules")
	}
	testenv.Need(t, testenv.Npm)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "npm", append([]string{"install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps"}, packages...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("npm install %s: %v\n%s", packages, err, out)
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "node_modules")
}

// debian returns a directory with the files of a package of Debian.
func debian(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(references(t), "debian-"+name)
	if _, err := os.Stat(filepath.Join(dir, "done")); err == nil {
		return dir
	}
	testenv.Need(t, testenv.Apt)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	download := exec.CommandContext(t.Context(), "apt-get", "download", name)
	download.Dir = dir
	if out, err := download.CombinedOutput(); err != nil {
		t.Skipf("apt-get download %s: %v\n%s", name, err, out)
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("downloaded %s: %v, %v", name, archives, err)
	}
	if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "-x", archives[0], dir).CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "done"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sources returns every k-th file below dir that has one of the endings and at most limit
// bytes, in the order of the paths.
func sources(t testing.TB, dir string, k int, limit int64, endings ...string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		for _, ending := range endings {
			if info, err := e.Info(); err == nil && strings.HasSuffix(path, ending) && info.Size() <= limit {
				all = append(all, path)
				break
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(all)
	var some []string
	for i := 0; i < len(all); i += k {
		some = append(some, all[i])
	}
	return some
}

// node is a piece of a file that ast-grep found.
type node struct {
	rule        string
	start, end  int // offsets in bytes
	first, last int // lines, from 1
	text        string
}

// astGrep returns what rules of ast-grep find in files, by file. A rule has an id and
// selects nodes: by their kinds, or by rules in the flow style of YAML.
func astGrep(t *testing.T, language string, files []string, rules map[string][]string) map[string][]node {
	t.Helper()
	program := filepath.Join(npm(t, "@ast-grep/cli@0.51.1"), "@ast-grep", "cli-linux-x64-gnu", "ast-grep")
	if _, err := os.Stat(program); err != nil {
		t.Skip("ast-grep has no program for this machine:", err)
	}
	var docs []string
	for id, kinds := range rules {
		doc := "id: " + id + "\nlanguage: " + language + "\nrule:\n  any:\n"
		for _, kind := range kinds {
			if !strings.HasPrefix(kind, "{") {
				kind = "kind: " + kind
			}
			doc += "    - " + kind + "\n"
		}
		docs = append(docs, doc)
	}
	sort.Strings(docs)
	found := make(map[string][]node)
	for len(files) > 0 {
		n := min(len(files), 200)
		cmd := exec.CommandContext(t.Context(), program, append([]string{"scan", "--no-ignore", "hidden", "--inline-rules", strings.Join(docs, "---\n"), "--json=stream"}, files[:n]...)...)
		files = files[n:]
		var problems bytes.Buffer
		cmd.Stderr = &problems
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReaderSize(out, 1<<20)
		for {
			line, err := r.ReadBytes('\n')
			if len(line) > 1 {
				var m struct {
					File, Text, RuleID string
					Range              struct {
						ByteOffset struct{ Start, End int }
						Start, End struct{ Line int }
					}
				}
				if err := json.Unmarshal(line, &m); err != nil {
					t.Fatalf("%v in %.200s", err, line)
				}
				found[m.File] = append(found[m.File], node{
					rule: m.RuleID, text: m.Text,
					start: m.Range.ByteOffset.Start, end: m.Range.ByteOffset.End,
					first: m.Range.Start.Line + 1, last: m.Range.End.Line + 1,
				})
			}
			if err != nil {
				break
			}
		}
		if err := cmd.Wait(); err != nil && problems.Len() > 0 {
			t.Fatalf("ast-grep: %v\n%s", err, problems.String())
		}
	}
	return found
}
