package assets

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
)

// The forms that a module of the page may have. What is joined is checked as a whole by the
// tests in a browser, which see nothing else.
var (
	imports  = regexp.MustCompile(`(?m)^import (\{[^}]*\}|\* as \w+) from '([^']+)'\n`)
	exports  = regexp.MustCompile(`(?m)^export (?:async )?(?:function|class|const|let) (\w+)`)
	comments = regexp.MustCompile("(?s:/\\*\\*.*?\\*/) ?|(?m:^\\s*//.*\\n)|(?m: +// [^'\"`\n]*$)") // no text of the page has two slashes behind a space
	indents  = regexp.MustCompile(`(?m)^\s+`)
	rules    = regexp.MustCompile(`(?s:/\*.*?\*/)|(?m:^\s+)|\n`)
)

// sources are the files of the page, by their paths.
func sources(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, pattern := range []string{"page/*.*", "page/*/*.*"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files[strings.TrimPrefix(name, "page/")] = string(text)
		}
	}
	return files
}

// joined is one script of all modules, each behind those that it imports. A module becomes a
// function that returns what it exports, so that its other names stay its own.
func joined(t *testing.T, files map[string]string) string {
	t.Helper()
	const main = "main.js"
	var out strings.Builder
	state := make(map[string]int) // 1 while what a module imports is written, 2 behind that
	called := func(name string) string { return "$" + strings.NewReplacer("/", "_", ".js", "").Replace(name) }
	var write func(name string)
	write = func(name string) {
		text, ok := files[name]
		if !ok || state[name] == 1 {
			t.Fatalf("%s does not exist, or imports itself by others", name)
		}
		if state[name] == 2 {
			return
		}
		state[name] = 1
		beside := func(other string) string { return path.Join(path.Dir(name), other) }
		for _, m := range imports.FindAllStringSubmatch(text, -1) {
			write(beside(m[2]))
		}
		state[name] = 2
		text = imports.ReplaceAllStringFunc(text, func(line string) string {
			m := imports.FindStringSubmatch(line)
			return "const " + strings.TrimPrefix(m[1], "* as ") + " = " + called(beside(m[2])) + "\n"
		})
		var names []string
		for _, m := range exports.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		text = regexp.MustCompile(`(?m)^export `).ReplaceAllString(comments.ReplaceAllString(text, ""), "")
		for i, line := range strings.Split(text, "\n") {
			if strings.Count(line, "`")%2 == 1 || strings.HasPrefix(line, "import ") {
				t.Fatalf("%s: the form of line %d (without comments) cannot be joined: %s", name, i+1, line)
			}
		}
		text = indents.ReplaceAllString(text, "")
		if name == main {
			out.WriteString("{\n" + text + "}\n") // its names too are its own
			return
		}
		fmt.Fprintf(&out, "const %s = (() => {\n%sreturn {%s}\n})()\n", called(name), text, strings.Join(names, ", "))
	}
	write(main)
	for name := range files {
		if path.Ext(name) == ".js" && state[name] == 0 {
			t.Errorf("no module imports %s", name)
		}
	}
	return out.String()
}

// What the binary contains is what the sources say.
func TestPacked(t *testing.T) {
	files := sources(t)
	for name, want := range map[string]string{"main.js": joined(t, files), "style.css": rules.ReplaceAllString(files["style.css"], "")} {
		at := "packed/" + name + ".gz"
		if golden.Update() {
			var out bytes.Buffer
			w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(want)); err != nil || w.Close() != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		packed, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		if string(unpack(packed)) != want {
			t.Errorf("%s is not what the sources say; go test ./internal/console/assets -update writes it anew", at)
		}
	}
}
