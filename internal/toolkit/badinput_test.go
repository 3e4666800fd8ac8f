package toolkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"belljar.dev/internal/golden"
)

// TestBadInput checks that wrong arguments get an answer that names the argument, and no
// result. Arguments of a wrong type are rejected earlier.
func TestBadInput(t *testing.T) {
	dir := sample().in(t)
	for link, to := range map[string]string{"out": "/etc", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	for _, tt := range []struct {
		tool string
		args []string
	}{
		{"analyze_complexity", []string{
			`{"project_path":".."}`, `{"project_path":"a/../../x"}`, `{"project_path":"/etc"}`, `{"project_path":"/workspacex"}`, `{"project_path":"a\nb"}`, `{"project_path":"a\u0000"}`,
			`{"project_path":"` + strings.Repeat("a", 5000) + `"}`, `{"project_path":"nowhere"}`, `{"project_path":"a/a.go"}`, `{"project_path":"out"}`, `{"project_path":"out/passwd"}`, `{"project_path":"loop"}`,
			`{"toolchain":"cobol"}`, `{"toolchain":"shell"}`, `{"format":"xml"}`, `{"max_cyclomatic":1.5}`, `{"max_cognitive":-1}`, `{"top_files":-1}`,
		}},
		{"analyze_code_churn", []string{`{"period_days":0}`, `{"period_days":-1}`, `{"period_days":1e9}`, `{"period_days":30.5}`}},
		{"analyze_duplicates", []string{
			`{"threshold":1.01}`, `{"threshold":-0.1}`, `{"detection_type":"fuzzy"}`, `{"min_lines":0}`, `{"min_lines":2.5}`, `{"snippet":"` + strings.Repeat("x", maxSnippet+1) + `"}`,
		}},
		{"analyze_deep_context", []string{
			`{"include_patterns":["["]}`, `{"include_patterns":[""]}`, `{"include_patterns":["/etc/*"]}`, `{"exclude_patterns":["../x"]}`, `{"include_patterns":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 10_000), ",") + `]}`,
			`{"include_analyses":["magic"]}`, `{"exclude_analyses":["ast","ast","ast","ast","ast","ast","ast","ast","ast","ast","ast","ast","ast","ast","ast"]}`,
			`{"dag_type":"x"}`, `{"cache_strategy":"none"}`, `{"max_depth":0}`, `{"parallel":0}`, `{"max_tokens":99}`, `{"format":"junit"}`,
		}},
		{"analyze_defect_probability", []string{`{"min_confidence":1.1}`, `{"format":"markdown"}`}},
		{"analyze_comprehensive", []string{`{"confidence_threshold":-1}`, `{"min_lines":1e7}`, `{"include_patterns":["a["]}`}},
		{"analyze_graph_metrics", []string{`{"metrics":["fame"]}`, `{"metrics":[""]}`, `{"pagerank_seeds":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 101), ",") + `]}`}},
		{"analyze_name_similarity", []string{`{}`, `{"query":" "}`, `{"query":"x","top_k":0}`, `{"query":"x","scope":"files"}`, `{"query":"` + strings.Repeat("x", 1001) + `"}`}},
		{"quality_gate", []string{
			`{"base":"--output=/tmp/x"}`, `{"base":"nothing"}`, `{"base":"a\u001bb"}`, `{"base":"` + strings.Repeat("a", 300) + `"}`,
			`{"coverage_file":"/etc/passwd"}`, `{"coverage_file":"../x"}`, `{"coverage_file":"none.out"}`, `{"coverage_file":"a/a.go"}`, `{"coverage_file":"out"}`, `{"coverage_file":"a"}`,
			`{"complexity_threshold":0}`, `{"duplication_threshold":101}`, `{"coverage_threshold":-1}`, `{"defect_threshold":2}`, `{"format":"markdown"}`,
		}},
		{"no_such", []string{`{}`}},
	} {
		for _, args := range tt.args {
			o := converse(t, Host{Workspace: dir, Git: testGit}, Request{Tool: tt.tool, Args: json.RawMessage(args), TimeMS: 60_000}, nil)
			fault, ok := errors.AsType[*Fault](o.err)
			if !ok {
				t.Fatalf("%s %.80s: got %v, want a fault", tt.tool, args, o.err)
			}
			if len(o.whole) > 0 {
				t.Errorf("%s %.80s: it printed %.80q", tt.tool, args, o.whole)
			}
			fmt.Fprintf(&b, "> %s %.100s\n%s\n\n", tt.tool, args, fault.Text)
		}
	}
	golden.Equal(t, "badinput.golden", b.String())
}

// TestHostileFiles checks that files that nobody would call source get a gap or a number,
// and that none of them blocks an analysis.
func TestHostileFiles(t *testing.T) {
	long := strings.Repeat
	p := project{
		"plain.go": "package a\n\nfunc Plain() {}\n", "nul.go": "package a\x00func x() {}", "utf16.go": "\xff\xfep\x00", "bom.go": "\xef\xbb\xbfpackage a\r\n\r\nfunc Bom() {\r\n}\r\n", "cr.go": "package a\rfunc Cr() {\r}\r",
		"bytes.go": "package a\n// \xff\xfe\nfunc Bytes() {}\n", "empty.go": "", "one.js": "var a=" + long("1+", 1<<20) + "1", "large.js": long("a;\n", 2<<20), "parens.go": "package a\nvar x = " + long("(", 200_000), "brackets.ts": "let x = " + long("[{", 50_000),
		"else.js": "function f() { " + long("if (a) {} else ", 10_000) + "}", "comments.rs": long("/*", 100_000), "raw.rs": "fn f() { let x = r####\"" + long("\"###", 1000), "fstring.py": "def f():\n    return f\"{x!r:{f\"{y:{\"z\"}}\"}}\"\n",
		"regex.js": "function f() { return a / b / /[/]/.test(x) }", "template.ts": long("`${", 1000), "cut.ts": `("") => {`,
		"new\nline.go": "package a\n\nfunc NewLine() {}\n", "\x1b[31m.go": "package a\n\nfunc Escape() {}\n", "\u202egnp.go": "package a\n\nfunc Turned() {}\n", "bad\xff.go": "package a\n\nfunc NotUTF8() {}\n",
	}
	dir := p.in(t)
	for link, to := range map[string]string{"link.go": "plain.go", "out.go": "/etc/passwd", "loop.go": "loop.go"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.go"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "socket.go"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	sparse, err := os.Create(filepath.Join(dir, "sparse.go"))
	if err != nil {
		t.Fatal(err)
	}
	defer sparse.Close()
	if err := sparse.Truncate(2 << 30); err != nil {
		t.Fatal(err)
	}
	o := analyse(t, dir, "analyze_complexity", map[string]any{"top_files": 100}, nil)
	if o.err != nil {
		t.Fatal(o.err)
	}
	var res ComplexityResult
	if err := json.Unmarshal(o.answer.Result, &res); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range res.TopFiles.Rankings {
		fmt.Fprintf(&b, "measured %q: %d functions, highest %d\n", f.File, f.Functions, f.MaxCyclomatic)
	}
	for _, g := range res.NotMeasured {
		fmt.Fprintf(&b, "%q lacks %s: %s\n", g.Path, g.Field, g.Reason)
	}
	slices.SortFunc(res.LeftOut, func(a, b LeftOut) int { return strings.Compare(a.Reason, b.Reason) })
	for _, l := range res.LeftOut {
		fmt.Fprintf(&b, "left out %d: %s\n", l.Files, l.Reason)
	}
	golden.Equal(t, "hostile.golden", b.String())
	for tool, args := range allTools() {
		if o := analyse(t, dir, tool, args, nil); o.err != nil {
			t.Errorf("%s: %v", tool, o.err)
		}
	}
}
