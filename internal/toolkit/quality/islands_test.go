//go:build quality

package quality

import (
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

// agreement counts how many functions two programs see alike.
type agreement struct {
	t                           *testing.T
	both, missing, extra, shown int
	broken                      int // files that the reference does not understand
}

// note shows the first differences.
func (a *agreement) note(format string, args ...any) {
	if a.shown++; a.shown <= 40 {
		a.t.Logf(format, args...)
	}
}

// check fails below a share of functions.
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

// boundaries compares the functions of files with those of ast-grep. The rule "fn"
// has the functions; what lies in a node of the rule "macro" is left out, and so are
// files with a node of the rule "error".
func boundaries(t *testing.T, language code.Language, tool string, files []string, rules map[string][]string, first func(node) int) *agreement {
	t.Helper()
	a := &agreement{t: t}
	found := astGrep(t, tool, files, rules)
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := make(map[boundary]int)
		var macros []node
		broken := false
		for _, n := range found[path] {
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

func rustFiles(t *testing.T) []string {
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

// TestRustBoundaries reads Rust's standard library and its compiler.
func TestRustBoundaries(t *testing.T) {
	boundaries(t, code.Rust, "rust", rustFiles(t), map[string][]string{
		"fn":    {"function_item"},
		"macro": {"macro_invocation", "macro_definition"},
		"error": {"ERROR"},
	}, firstLine).check("functions of Rust", 99.5)
}

// decisions compares Cyclomatic with the nodes of the rule "decision", each of which
// belongs to the innermost node of the rule "fn" around it. Functions with a node of
// the rule "macro" are left out, for the reference does not parse its arguments.
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
		// The outer of two nodes comes first.
		sort.SliceStable(nodes, func(i, j int) bool {
			if nodes[i].start != nodes[j].start {
				return nodes[i].start < nodes[j].start
			}
			return nodes[i].end > nodes[j].end
		})
		broken := false
		var around []*function
		at := make(map[int]*function) // by the end of the body
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

// TestRustCyclomatic counts the nodes that rust-code-analysis counts, but for the arm
// _, and with the guards of arms and the else of a let.
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
