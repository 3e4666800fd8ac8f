package lex

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestGoMetrics compares with testdata/metrics.golden, the counts of gocyclo 0.6.0 and
// gocognit 1.2.1 for a file. A test of internal/toolkit/quality checks that the counts are
// still the same. gocognit does not count functions in variables.
func TestGoMetrics(t *testing.T) {
	f := Parse("metrics.go", code.Go, read(t, "testdata/metrics.go"))
	check(t, f)
	want := read(t, "testdata/metrics.golden")
	var got strings.Builder
	for _, fn := range f.Funcs {
		fmt.Fprintf(&got, "%d %s cyclomatic %d\n", fn.First, fn.Label, fn.Cyclomatic)
		if line := fmt.Sprintf("%d %s cognitive %d\n", fn.First, fn.Label, fn.Cognitive); fn.Owner != "" || !strings.HasPrefix(fn.Label, "literal") {
			got.WriteString(line)
		}
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

func TestGoSymbols(t *testing.T) {
	const text = `package a // b

import (
	"fmt"
	. "os"
	x "a/b"
)

type (
	S struct {
		T
		*p.Q[int]
		f int
	}
	I interface { S; ~int | string; m() }
	A = S
)
type f func()

const c, D = 1, 2
var _, v = 1, fmt.Sprint(
	3,
)

func (s *S) M(a, b int, _ ...string) (r int) {
	x.y.z(fmt.Sprint("a\r")) // c
	s.m().n([]byte("b")); g[int](1)
	for { if func() bool { return true }() { switch {} } }
}

func asm()
`
	f := Parse("a_test.go", code.Go, strings.ReplaceAll(text, "c\n", "c\r\n"))
	check(t, f)
	var symbols, calls, imports []string
	for _, s := range append(f.Types, f.Vars...) {
		symbols = append(symbols, fmt.Sprintf("%d %d-%d %s %s %v %v", s.Line, s.First, s.Last, s.Kind, s.Name, s.Exported, s.Bases))
	}
	for _, i := range f.Imports {
		imports = append(imports, fmt.Sprintf("%d %s %s", i.Line, i.Name, i.Path))
	}
	if len(f.Funcs) != 1 {
		t.Fatalf("got %+v, want one function", f.Funcs)
	}
	fn := f.Funcs[0]
	for _, c := range fn.Calls {
		calls = append(calls, fmt.Sprintf("%d %s.%s", c.Line, c.Of, c.Name))
	}
	same(t, "imports", imports, "4  fmt", "5 . os", "6 x a/b")
	same(t, "symbols", symbols, "10 10-14 struct S true [T p.Q]", "15 15-15 interface I true [S]", "16 16-16 alias A true []", "18 18-18 type f false []", "20 20-20 const c false []", "20 20-20 const D true []", "21 21-23 var v false []")
	same(t, "calls", calls, "26 x.y.z", "26 fmt.Sprint", "27 s.m().n", "27 s.m", "27 .g")
	fn.Calls, fn.Start, fn.End = nil, 0, 0
	want := code.Func{
		Symbol: code.Symbol{Name: "M", Owner: "S", Kind: "method", Line: 25, First: 25, Last: 29, Exported: true},
		Label:  "(*S).M", Params: 3, Nesting: 3, Cyclomatic: 3, Cognitive: 6, Halstead: fn.Halstead, Test: true,
	}
	if got, want := fmt.Sprintf("%+v", fn), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if want := (code.Lines{Code: 26, Blank: 5}); f.Lines != want {
		t.Errorf("got %+v, want %+v", f.Lines, want)
	}
}

func TestGoGaps(t *testing.T) {
	f := Parse("a.go", code.Go, "package a\n\nfunc f() { if }\nfunc g() {}\n")
	check(t, f)
	if len(f.Funcs) != 0 || len(f.Gaps) != 1 || f.Gaps[0] != (code.Gap{Path: "a.go", Field: "functions", Reason: "not valid Go: line 3: expected operand, found '}'"}) {
		t.Errorf("got %d functions, %+v", len(f.Funcs), f.Gaps)
	}
	if len(f.Tokens) == 0 || f.Lines.Code != 3 {
		t.Errorf("got %d tokens and %+v", len(f.Tokens), f.Lines)
	}
}

// Brackets that are nested too deeply are found before the parser descends into them.
func TestGoNestedTooDeep(t *testing.T) {
	const begin = "package p\n\nvar x = "
	for n, want := range map[int]string{
		200_000:       "more than 1000 brackets are nested at line 3",
		maxGoBrackets: "",
	} {
		f := Parse("a.go", code.Go, begin+strings.Repeat("(", n)+"1"+strings.Repeat(")", n)+"\n")
		got := ""
		if len(f.Gaps) > 0 {
			got = f.Gaps[0].Reason
		}
		if got != want {
			t.Errorf("%d brackets: got %q, want %q", n, got, want)
		}
	}
	if f := Parse("a.go", code.Go, begin+"`"+strings.Repeat("(", 2*maxGoBrackets)+"`\n"); len(f.Gaps) != 0 {
		t.Errorf("brackets in a string: %v", f.Gaps)
	}
}
