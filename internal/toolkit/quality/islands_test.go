//go:build quality

package quality

import (
	"archive/zip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

// agreement counts the functions for which two programs agree.
type agreement struct {
	t                           *testing.T
	both, missing, extra, shown int
	broken                      int // number of files that the reference cannot parse
}

// note logs the first differences.
func (a *agreement) note(format string, args ...any) {
	if a.shown++; a.shown <= 40 {
		a.t.Logf(format, args...)
	}
}

// check fails the test if less than want percent of the functions agree.
func (a *agreement) check(what string, want float64) {
	all := a.both + a.missing + a.extra
	if all == 0 {
		a.t.Fatal("nothing compared")
	}
	share := 100 * float64(a.both) / float64(all)
	a.t.Logf("%s: %.2f %% of %d agree; %d only in the reference, %d only here; %d files left out that the reference does not parse", what, share, all, a.missing, a.extra, a.broken)
	if share < want {
		a.t.Errorf("%s: %.2f %%, want %.1f %%", what, share, want)
	}
}

// boundary is the first and the last line of a function.
type boundary struct{ first, last int }

// boundaries compares the functions of files with those of ast-grep. The rule "fn" finds
// the functions. Functions within a node of the rule "macro" are left out, and so are files
// with a node of the rule "error".
func boundaries(t *testing.T, language code.Language, tool string, files []string, rules map[string][]string, first func(node) int) *agreement {
	t.Helper()
	a := &agreement{t: t}
	asked, name := files, func(path string) string { return path }
	if language == code.CPP { // ast-grep detects languages by file extensions, and many headers have none
		dir := t.TempDir()
		name = func(path string) string {
			return filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(path, references(t)), "/", "_")+".cpp")
		}
		asked = nil
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name(path), text, 0o600); err != nil {
				t.Fatal(err)
			}
			asked = append(asked, name(path))
		}
	}
	found := astGrep(t, tool, asked, rules)
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(text) { // ast-grep ignores such a file
			a.broken++
			continue
		}
		want := make(map[boundary]int)
		var macros []node
		broken := false
		for _, n := range found[name(path)] {
			switch n.rule {
			case "fn":
				if at := first(n); at > 0 {
					want[boundary{at, n.last}]++
				}
			case "macro":
				macros = append(macros, n)
			case "error":
				broken = true
			}
		}
		if broken {
			a.broken++
			continue
		}
		f := lex.Parse(path, language, string(text))
		for _, fn := range f.Funcs {
			at := int(f.Tokens[fn.Start].Start)
			inMacro := false
			for _, m := range macros {
				inMacro = inMacro || m.start <= at && at < m.end
			}
			if inMacro {
				continue
			}
			b := boundary{fn.First, fn.Last}
			if want[b] > 0 {
				want[b]--
				a.both++
			} else {
				a.extra++
				a.note("%s:%d-%d: %s: only here", path, fn.First, fn.Last, fn.Label)
			}
		}
		var left []boundary
		for b, n := range want {
			for ; n > 0; n-- {
				left = append(left, b)
			}
		}
		sort.Slice(left, func(i, j int) bool { return left[i].first < left[j].first })
		for _, b := range left {
			a.missing++
			a.note("%s:%d-%d: only in the reference", path, b.first, b.last)
		}
	}
	return a
}

// firstLine returns the first line of a node.
func firstLine(n node) int { return n.first }

func rustFiles(t testing.TB) []string {
	t.Helper()
	root := filepath.Join(debian(t, "rust-src"), "usr", "src")
	var files []string
	for _, path := range sources(t, root, 1, 1<<20, ".rs") {
		if !strings.Contains(path, "/stdarch/") && (strings.Contains(path, "/library/") || strings.Contains(path, "/compiler/")) {
			files = append(files, path)
		}
	}
	return files
}

// TestRustBoundaries compares the functions of Rust's standard library and of its compiler.
func TestRustBoundaries(t *testing.T) {
	boundaries(t, code.Rust, "rust", rustFiles(t), map[string][]string{
		"fn":    {"function_item"},
		"macro": {"macro_invocation", "macro_definition"},
		"error": {"ERROR"},
	}, firstLine).check("functions of Rust", 99.5)
}

// decisions compares Cyclomatic with the number of nodes of the rule "decision". Each such
// node belongs to the innermost node of the rule "fn" around it. Functions with a node of
// the rule "macro" are left out, because the reference does not parse a macro's arguments.
func decisions(t *testing.T, language code.Language, tool string, files []string, rules map[string][]string) *agreement {
	t.Helper()
	a := &agreement{t: t}
	found := astGrep(t, tool, files, rules)
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		type function struct {
			node
			count int
			macro bool
		}
		var fns []*function
		nodes := found[path]
		// If two nodes begin at the same place, the outer one comes first.
		sort.SliceStable(nodes, func(i, j int) bool {
			if nodes[i].start != nodes[j].start {
				return nodes[i].start < nodes[j].start
			}
			return nodes[i].end > nodes[j].end
		})
		broken := false
		var around []*function
		at := make(map[int]*function) // functions by the end of their body
		for _, n := range nodes {
			for len(around) > 0 && around[len(around)-1].end <= n.start {
				around = around[:len(around)-1]
			}
			switch n.rule {
			case "fn":
				fn := &function{node: n, count: 1}
				fns = append(fns, fn)
				at[n.end] = fn
				around = append(around, fn)
			case "decision":
				if len(around) > 0 {
					around[len(around)-1].count++
				}
			case "macro":
				if len(around) > 0 {
					around[len(around)-1].macro = true
				}
			case "error":
				broken = true
			}
		}
		if broken {
			a.broken++
			continue
		}
		f := lex.Parse(path, language, string(text))
		for _, fn := range f.Funcs {
			want := at[int(f.Tokens[fn.End-1].End)]
			switch {
			case want == nil || want.macro:
			case want.count == fn.Cyclomatic:
				a.both++
			default:
				a.extra++
				a.note("%s:%d: %s: %d, the reference counts %d", path, fn.Line, fn.Label, fn.Cyclomatic, want.count)
			}
		}
	}
	return a
}

// TestRustCyclomatic counts the nodes that rust-code-analysis counts, except for the arm _,
// and with the guards of arms and the else of a let.
func TestRustCyclomatic(t *testing.T) {
	decisions(t, code.Rust, "rust", rustFiles(t), map[string][]string{
		"fn": {"function_item"},
		"decision": {
			"if_expression", "while_expression", "for_expression", "loop_expression", "try_expression",
			"{kind: match_arm, not: {has: {field: pattern, regex: '^_$'}}}",
			"{kind: match_pattern, has: {field: condition, regex: '.'}}",
			"{kind: let_declaration, has: {field: alternative, regex: '.'}}",
			"{kind: binary_expression, has: {field: operator, regex: '^(&&|[|][|])$'}}",
			"{kind: let_chain, regex: '.'}",
		},
		"macro": {"macro_invocation", "macro_definition"},
		"error": {"ERROR"},
	}).check("cyclomatic of Rust", 98)
}

// scriptFiles returns files of TypeScript, TSX or JavaScript from npm packages.
func scriptFiles(t *testing.T, endings ...string) []string {
	t.Helper()
	modules := npm(t, "zod@4.6.7", "rxjs@7.8.2", "effect", "react-native-paper", "react-native-gesture-handler", "@react-spectrum/s2", "@react-navigation/elements", "eslint@9.39.5")
	var files []string
	for _, dir := range []string{"zod/src", "rxjs/src", "effect/src", "react-native-paper/src", "react-native-gesture-handler/src", "@react-spectrum/s2", "@react-navigation/elements/src", "eslint/lib"} {
		if _, err := os.Stat(filepath.Join(modules, dir)); err != nil {
			continue
		}
		files = append(files, sources(t, filepath.Join(modules, dir), 1, 1<<20, endings...)...)
	}
	var kept []string
	for _, file := range files {
		if !strings.HasSuffix(file, ".d.ts") && !strings.Contains(file, "/dist/") {
			kept = append(kept, file)
		}
	}
	return kept
}

func scriptLanguage(path string) code.Language {
	switch filepath.Ext(path) {
	case ".ts":
		return code.TypeScript
	case ".tsx":
		return code.TSX
	}
	return code.JavaScript
}

var scriptKinds = map[string][]string{
	"fn":    {"function_declaration", "generator_function_declaration", "function_expression", "generator_function", "arrow_function", "method_definition"},
	"error": {"ERROR"},
}

func TestScriptBoundaries(t *testing.T) {
	for _, l := range []struct{ ending, tool string }{{".ts", "ts"}, {".tsx", "tsx"}, {".js", "js"}} {
		t.Run(l.ending, func(t *testing.T) {
			kinds := map[string][]string{"fn": scriptKinds["fn"], "error": scriptKinds["error"]}
			boundaries(t, scriptLanguage(l.ending), l.tool, scriptFiles(t, l.ending), kinds, func(n node) int {
				if strings.HasPrefix(n.text, "@") {
					return 0 // the node contains decorators, which do not belong to a function here
				}
				return n.first
			}).check("functions of "+l.ending, 99)
		})
	}
}

// TestScriptMetrics compares each function with eslint's complexity and with
// sonarjs's cognitive-complexity.
func TestScriptMetrics(t *testing.T) {
	modules := npm(t, "eslint@9.39.5", "eslint-plugin-sonarjs@4.2.2", "@typescript-eslint/parser@8.73.0", "typescript@5.9.3")
	cmd := exec.CommandContext(t.Context(), "node", "testdata/eslint.cjs", modules)
	files := scriptFiles(t, ".ts", ".tsx", ".js")
	cmd.Stdin = strings.NewReader(strings.Join(files, "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	boundary, cyclomatic, cognitive := &agreement{t: t}, &agreement{t: t}, &agreement{t: t}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		var r struct {
			File, Fatal string
			Functions   []struct{ Start, End, Line, Cyclomatic, Cognitive int }
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %.200s", err, line)
		}
		text, err := os.ReadFile(r.File)
		if err != nil {
			t.Fatal(err)
		}
		if r.Fatal != "" || !ascii(string(text)) { // eslint counts columns in UTF-16
			cyclomatic.broken++
			continue
		}
		f := lex.Parse(r.File, scriptLanguage(r.File), string(text))
		// Functions that end at the same byte are sorted by their start.
		own := make(map[int][]*code.Func)
		for i := range f.Funcs {
			fn := &f.Funcs[i]
			end := int(f.Tokens[fn.End-1].End)
			own[end] = append(own[end], fn)
		}
		sort.SliceStable(r.Functions, func(i, j int) bool { return r.Functions[i].Start < r.Functions[j].Start })
		for _, want := range r.Functions {
			if len(own[want.End]) == 0 {
				boundary.missing++
				boundary.note("%s:%d: not found", r.File, want.Line)
				continue
			}
			got := own[want.End][0]
			own[want.End] = own[want.End][1:]
			boundary.both++
			if got.Cyclomatic == want.Cyclomatic {
				cyclomatic.both++
			} else {
				cyclomatic.extra++
				cyclomatic.note("%s:%d: %s: cyclomatic %d, eslint counts %d", r.File, got.Line, got.Label, got.Cyclomatic, want.Cyclomatic)
			}
			if got.Cognitive == want.Cognitive {
				cognitive.both++
			} else {
				cognitive.extra++
				cognitive.note("%s:%d: %s: cognitive %d, sonarjs counts %d", r.File, got.Line, got.Label, got.Cognitive, want.Cognitive)
			}
		}
		for _, left := range own {
			for _, fn := range left {
				boundary.extra++
				boundary.note("%s:%d-%d: %s: only here", r.File, fn.First, fn.Last, fn.Label)
			}
		}
	}
	boundary.check("functions of scripts beside eslint", 99)
	cyclomatic.check("cyclomatic of scripts", 98)
	cognitive.check("cognitive of scripts", 97)
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// cFiles returns files of C: sources of kernel modules from packages of Debian.
func cFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, name := range []string{"openafs-modules-dkms", "lttng-modules-dkms"} {
		files = append(files, sources(t, debian(t, name), 1, 1<<20, ".c")...)
	}
	return files
}

// cppFiles returns headers of C++: of the standard library, and of template libraries.
func cppFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, path := range sources(t, debian(t, "libboost1.74-dev"), 9, 1<<20, ".hpp", ".ipp") {
		// a preprocessor made these files, which repeat one function a hundred times
		if !strings.Contains(path, "/preprocessed/") {
			files = append(files, path)
		}
	}
	for _, path := range sources(t, debian(t, "libstdc++-12-dev"), 1, 1<<20, "") {
		if strings.Contains(path, "/include/") {
			files = append(files, path)
		}
	}
	files = append(files, sources(t, debian(t, "libeigen3-dev"), 2, 1<<20, ".h")...)
	return append(files, sources(t, debian(t, "nlohmann-json3-dev"), 1, 1<<20, ".hpp")...)
}

var cKinds = map[string][]string{
	"fn":    {"{kind: function_definition, has: {field: body, regex: '^[{]'}}"},
	"error": {"ERROR"},
}

func TestCBoundaries(t *testing.T) {
	boundaries(t, code.C, "c", cFiles(t), cKinds, firstLine).check("functions of C", 99.5)
}

func TestCPPBoundaries(t *testing.T) {
	// The reference takes a loop that is a macro, and a type after a macro, for functions.
	loop := regexp.MustCompile(`^(BOOST_(TEST_)?FOREACH|BGL_FORALL_\w+)\b|^(struct|class) [A-Z0-9_]+ \w+\s*\{`)
	boundaries(t, code.CPP, "cpp", cppFiles(t), cKinds, func(n node) int {
		if loop.MatchString(n.text) {
			return 0
		}
		return n.first
	}).check("functions of C++", 99.5)
}

// TestCCyclomatic compares Cyclomatic with the traditional McCabe number of pmccabe.
func TestCCyclomatic(t *testing.T) {
	program := filepath.Join(debian(t, "pmccabe"), "usr", "bin", "pmccabe")
	a := &agreement{t: t}
	for _, path := range cFiles(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), program, path).Output()
		if err != nil {
			a.broken++
			continue
		}
		// The columns are: modified, traditional, statements, first line, lines,
		// file(line): name.
		type function struct {
			name  string
			count int
		}
		want := make(map[int]function)
		for _, line := range strings.Split(string(out), "\n") {
			fields := strings.Fields(line)
			if len(fields) < 7 {
				continue
			}
			n, err1 := strconv.Atoi(fields[1])
			first, err2 := strconv.Atoi(fields[3])
			lines, err3 := strconv.Atoi(fields[4])
			if err1 != nil || err2 != nil || err3 != nil {
				t.Fatalf("pmccabe says %q", line)
			}
			want[first+lines-1] = function{fields[len(fields)-1], n}
		}
		for _, fn := range lex.Parse(path, code.C, string(text)).Funcs {
			w, ok := want[fn.Last]
			switch {
			case !ok:
			case w.count == fn.Cyclomatic:
				a.both++
			default:
				a.extra++
				a.note("%s:%d: %s: %d, pmccabe counts %d", path, fn.Line, fn.Label, fn.Cyclomatic, w.count)
			}
			delete(want, fn.Last)
		}
	}
	a.check("cyclomatic of C", 98)
}

// javaFiles returns a part of the JDK's sources.
func javaFiles(t *testing.T) []string {
	t.Helper()
	dir := filepath.Join(references(t), "jdk")
	if _, err := os.Stat(filepath.Join(dir, "done")); err != nil {
		archive, err := zip.OpenReader(filepath.Join(debian(t, "openjdk-17-source"), "usr/lib/jvm/openjdk-17/lib/src.zip"))
		if err != nil {
			t.Fatal(err)
		}
		defer archive.Close()
		for _, f := range archive.File {
			if !strings.HasSuffix(f.Name, ".java") || !strings.HasPrefix(f.Name, "java.base/java/") && !strings.HasPrefix(f.Name, "jdk.compiler/") {
				continue
			}
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(io.LimitReader(r, 4<<20))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, filepath.FromSlash(f.Name))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "done"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return sources(t, dir, 1, 4<<20, ".java")
}

// annotations match the part of a method that is not counted in its lines.
var annotations = regexp.MustCompile(`^(@\w+(\.\w+)*(\((?:[^()"]|"[^"]*"|\([^()]*\))*\))?\s+|//[^\n]*\n\s*|/\*(?s:.*?)\*/\s*)`)

func TestJavaBoundaries(t *testing.T) {
	boundaries(t, code.Java, "java", javaFiles(t), map[string][]string{
		"fn": {
			"{kind: method_declaration, has: {field: body, regex: '^[{]'}}",
			"constructor_declaration", "compact_constructor_declaration",
		},
		"error": {"ERROR"},
	}, func(n node) int {
		for {
			m := annotations.FindString(n.text)
			if m == "" {
				return n.first
			}
			n.first += strings.Count(m, "\n")
			n.text = n.text[len(m):]
		}
	}).check("functions of Java", 99.5)
}

// TestJavaCyclomatic counts the nodes that checkstyle counts.
func TestJavaCyclomatic(t *testing.T) {
	decisions(t, code.Java, "java", javaFiles(t), map[string][]string{
		"fn": {
			"{kind: method_declaration, has: {field: body, regex: '^[{]'}}",
			"constructor_declaration", "compact_constructor_declaration",
		},
		"decision": {
			"if_statement", "while_statement", "for_statement", "enhanced_for_statement", "do_statement", "catch_clause", "ternary_expression",
			"{kind: switch_label, regex: '^case'}",
			"{kind: binary_expression, has: {field: operator, regex: '^(&&|[|][|])$'}}",
		},
		"macro": {"{kind: class_body, inside: {kind: object_creation_expression}}", "{kind: class_body, inside: {kind: enum_constant}}"},
		"error": {"ERROR"},
	}).check("cyclomatic of Java", 98)
}
