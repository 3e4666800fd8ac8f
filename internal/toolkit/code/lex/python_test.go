package lex

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
)

// pythonFunctions are texts with the expected measures of their functions: the label,
// lines, parameters, nesting, Cyclomatic and Cognitive.
var pythonFunctions = []struct {
	text string
	want []string
}{
	{"def f(): pass", []string{"f 1-1 p0 n0 1 0"}},
	{"@dec(a if b else c)\n# c\nasync def f(a, /, b: int = 1, *, c=(1, 2), **d) -> {1: 2}:\n\treturn\n", []string{"f 3-4 p4 n0 1 0"}},
	{"def f(a=lambda x, y: (x, y), *args): return a\nx = 1\n", []string{"f 1-1 p2 n0 1 0"}},
	{"def f[T: (int, str), *Ts](a: T): ...\n", []string{"f 1-1 p1 n0 1 0"}},
	// if: 1, elif: 1, else: 1; the nested for: 2.
	{"def f(a):\n  if a:\n    return 1\n  elif b:\n    for x in y:\n      pass\n  else:\n    return\n  # end\n\n", []string{"f 1-8 p1 n2 4 5"}},
	// while: 1, if: 2, and: 1, or: 1, and: 1; else of the loop: 1.
	{"def f():\n  while a:\n    if b and c and d or e and g: break\n  else:\n    x()\n", []string{"f 1-5 p0 n2 3 7"}},
	// The brackets begin another sequence: and, or.
	{"def f(): return a and (b or c) and d\n", []string{"f 1-1 p0 n0 1 2"}},
	// A conditional expression: 1; within the else of another one: 2.
	{"def f(): return a if b else (c if d else e)\n", []string{"f 1-1 p0 n0 1 3"}},
	// A lambda nests: the conditional expression counts 2. A comprehension has a filter.
	{"def f(): return [lambda: x if y else z for q in r if s and t]\n", []string{"f 1-1 p0 n0 1 3"}},
	// try is 1 for mccabe; each except: 1; the if in it: 2; finally does not count for mccabe.
	{"def f():\n  try:\n    a()\n  except A:\n    if b: pass\n  except (B, C) as e:\n    pass\n  finally:\n    if d: pass\n", []string{"f 1-9 p0 n2 5 5"}},
	// match: 1; a case with anything does not count as a path.
	{"def f(match):\n  match match:\n    case 1 | 2 if a:\n      return match(1)\n    case [x, *_]: pass\n    case _:\n      if b: pass\n", []string{"f 1-7 p1 n3 4 3"}},
	{"match = 1\nmatch.x = match[2]\nmatch(a)\ncase = type = 3\ntype X = int\n", nil},
	// A function that calls itself: 1, however often.
	{"def f(n): return f(n-1) + f(n-2) + g.f()\n", []string{"f 1-1 p1 n0 1 1"}},
	{"class A:\n  def m(self): self.m(); m()\n", []string{"A.m 2-2 p1 n0 1 1"}},
	// A function within it: 1 for mccabe, and one more level for its statements.
	{"def f():\n  x = 1\n  def g():\n    if a: pass\n  return g\n", []string{"f 1-5 p0 n2 3 2", "f.g 3-4 p0 n1 2 1"}},
	// A decorator contains only another function: it does not nest.
	{"def f(fn):\n  \"\"\"doc\"\"\"\n  def g(*a):\n    if a: pass\n  return g\n", []string{"f 1-5 p1 n2 3 1", "f.g 3-4 p1 n1 2 1"}},
	{"class A(B, m.C[int], metaclass=M):\n  x: int = 1\n  class I:\n    def i(self): pass\n  if a:\n    async def __j(cls): pass\n", []string{"A.I.i 4-4 p1 n0 1 0", "A.__j 6-6 p1 n0 1 0"}},
	{"if a:\n  def f():\n    with b as c, (d):\n      pass\nelse:\n  def f(): pass\n", []string{"f 2-4 p0 n1 1 0", "f 6-6 p0 n0 1 0"}},
	// Strings, continued lines, and text that only looks like a block.
	{"def f():\n  return f\"{a!r:>{w}} {{if x:}} {'b' if c else f'{d}'} \\N{DASH} {x:{y}{z}}\" \\\n    'else' \"\"\"\nif a:\n\"\"\"\ny = 2\n", []string{"f 1-5 p0 n0 1 1"}},
	{"def f():\n  return f\"{x[\"a\"]} {f\"{f\"{1}\"}\"}\"\ndef g(): pass\n", []string{"f 1-2 p0 n0 1 0", "g 3-3 p0 n0 1 0"}},
	{"def f():\n  return rf'''{a}\n{b:\n}''' + Rb'\\\\' + u\"\" + f'{x = }' + f'{(y := 1)}' + f'{z!r}'\nx = f'{lambda: 1}'\n", []string{"f 1-4 p0 n0 1 0"}},
	{"def f(\n  a, # (\n  b\n):\n  return [\n    1,\n  ]\n", []string{"f 1-7 p2 n0 1 0"}},
	{"\ufeffdef f():\r\n\tif a:\r\n        \tpass\r\n\r\n\treturn 1if b else 0x1for c\r\n", []string{"f 1-5 p0 n1 2 3"}},
	{"def f():\r  if a:\r    b\rdef g(): pass\r", []string{"f 1-1 p0 n1 2 1", "g 1-1 p0 n0 1 0"}},
	{"if a: x = 1; y = 2\nwhile b: break\ndef f(): a = 1; b = 2\n", []string{"f 3-3 p0 n0 1 0"}},
}

func pythonCases() (all []string) {
	for _, c := range pythonFunctions {
		all = append(all, c.text)
	}
	return all
}

func TestPythonFunctions(t *testing.T) {
	for _, c := range pythonFunctions {
		f := Parse("a.py", code.Python, c.text)
		check(t, f)
		var got []string
		for _, fn := range f.Funcs {
			got = append(got, fmt.Sprintf("%s %d-%d p%d n%d %d %d", fn.Label, fn.First, fn.Last, fn.Params, fn.Nesting, fn.Cyclomatic, fn.Cognitive))
		}
		if !slices.Equal(got, c.want) || len(f.Gaps) > 0 {
			t.Errorf("%q:\ngot  %q, gaps %v\nwant %q", c.text, got, f.Gaps, c.want)
		}
	}
}

func TestPythonSymbols(t *testing.T) {
	f := Parse("a.py", code.Python, `"""Doc."""
import os, a.b as c, d.e
from . import x
from ..p.q import (y as z,  # why
                   _w)
from r import *
MAX, low = 1, 2
low = 3
_private: int = 4
a.b = c[d] = 5
first = second = (
    6
)
type Alias[T] = list[T]
class Base(object): pass
class C(Base, m.Mix[int], Generic[T], metaclass=Meta, **kw):
    field = 1
    def method(self):
        local = 2
        import lazy
        self.call(1)
        os.path.join(super().x(), f(a)(b), "s".join([]))
        class Inner: pass
    def _hidden(self): pass
`)
	check(t, f)
	var imports, vars, types, calls []string
	for _, i := range f.Imports {
		imports = append(imports, fmt.Sprintf("%d %s %s %v", i.Line, i.Path, i.Name, i.Used))
	}
	for _, v := range f.Vars {
		vars = append(vars, fmt.Sprintf("%d-%d %s.%s %s %v", v.First, v.Last, v.Owner, v.Name, v.Kind, v.Exported))
	}
	for _, s := range f.Types {
		types = append(types, fmt.Sprintf("%d-%d %s.%s %s %v %v", s.First, s.Last, s.Owner, s.Name, s.Kind, s.Exported, s.Bases))
	}
	for _, c := range f.Funcs[0].Calls {
		calls = append(calls, fmt.Sprintf("%d %s.%s", c.Line, c.Of, c.Name))
	}
	same(t, "imports", imports, "2 os  []", "2 a.b c []", "2 d.e  []", "3 .  [x]", "4 ..p.q  [y _w]", "6 r  [*]", "20 lazy  []")
	same(t, "variables", vars, "7-7 .MAX constant true", "7-7 .low variable true", "9-9 ._private variable false", "11-13 .first variable true", "11-13 .second variable true", "17-17 C.field variable true")
	same(t, "types", types, "14-14 .Alias type true []", "15-15 .Base class true [object]", "16-24 .C class true [Base m.Mix Generic]", "23-23 C.method.Inner class false []")
	same(t, "calls", calls, "21 self.call", "22 os.path.join", "22 .super", "22 super().x", "22 .f", `22 "s".join`)
	if f.Funcs[0].Kind != "method" || !f.Funcs[0].Exported || f.Funcs[1].Exported {
		t.Errorf("got %+v", f.Funcs)
	}
	if want := (code.Lines{Code: 23, Comment: 1}); f.Lines != want {
		t.Errorf("got %+v, want %+v", f.Lines, want)
	}
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\ngot  %q\nwant %q", what, got, want)
	}
}

// A function that contains a fault is left out, and so are all functions after it. The gap
// contains the line of the fault.
func TestPythonGaps(t *testing.T) {
	for text, want := range map[string]string{
		"def f(): pass\ndef g():\"\"\"\n":            "f: not valid Python: line 2: a string is not closed",
		"def f(): pass\ndef g(): 'a\\'\n":            "f: not valid Python: line 2: a string is not closed",
		"def f(): pass\nx = f'a\n":                   "f: not valid Python: line 2: a string is not closed",
		"def f(): pass\ndef g(:\n  pass\n":           "f: not valid Python: line 2: a bracket is not closed",
		"def f(): pass\ndef g():\n    a\n  b\n":      "f: not valid Python: line 4: the indentation of a line does not belong to any block",
		"def f(): pass\nx = f'{a\n'\n":               "f: not valid Python: line 2: a bracket is not closed",
		"def f(): pass\ndef g():\n  return 1)\n":     "f: not valid Python: line 3: a bracket was never opened",
		"def f(): pass\nx = f'{a:b\ndef g(): pass\n": "f: not valid Python: line 2: a string is not closed",
	} {
		f := Parse("a.py", code.Python, text)
		check(t, f)
		var got string
		for _, fn := range f.Funcs {
			got += fn.Name
		}
		for _, g := range f.Gaps {
			got += ": " + g.Reason
		}
		if got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", text, got, want)
		}
	}
	deep := ""
	for i := range 40 {
		deep += strings.Repeat(" ", i) + "def f():\n"
	}
	if f := Parse("a.py", code.Python, deep+strings.Repeat(" ", 40)+"if a: pass\n"); len(f.Funcs) != MaxFuncDepth || f.Funcs[0].Cyclomatic != 41 {
		t.Errorf("got %d functions, the first with %d", len(f.Funcs), f.Funcs[0].Cyclomatic)
	}
}

func TestHalstead(t *testing.T) {
	f := Parse("a.py", code.Python, "def f(a):\n  # c\n  return a + a + 1\n")
	Halstead(f)
	// The operators are def, a pair of brackets, :, return and + twice; the operands f, a
	// three times and 1.
	if want := (code.Halstead{Operators: 6, Operands: 5, DistinctOperators: 5, DistinctOperands: 3}); f.Funcs[0].Halstead != want {
		t.Errorf("got %+v, want %+v", f.Funcs[0].Halstead, want)
	}
}

// Functions that overlap more often than they can be nested are not all counted.
func TestHalsteadIsBounded(t *testing.T) {
	f := Parse("a.py", code.Python, "def f(a):\n  return a\n")
	fn := f.Funcs[0]
	fn.Halstead, fn.Start, fn.End = code.Halstead{}, 0, len(f.Tokens)
	f.Funcs = slices.Repeat([]code.Func{fn}, overlap+1)
	Halstead(f)
	if f.Funcs[overlap-1].Halstead == (code.Halstead{}) || f.Funcs[overlap].Halstead != (code.Halstead{}) || len(f.Gaps) != 1 || f.Gaps[0].Field != "halstead" {
		t.Errorf("got %+v and %+v, gaps %v; want the last one not counted, and a gap", f.Funcs[overlap-1].Halstead, f.Funcs[overlap].Halstead, f.Gaps)
	}
}

// TestPythonStringsAreBounded checks that strings within strings, and formats within
// formats, are read up to a maximum depth.
func TestPythonStringsAreBounded(t *testing.T) {
	for text, want := range map[string]int{
		strings.Repeat("f'{", 50): 50,
		// Each string beyond the maximum depth is a plain string up to the next quote.
		strings.Repeat("f'{", 300):       200,
		"f'" + strings.Repeat("{a:", 50): 50,
		// The string ends at the maximum depth, and the text after it is code.
		"f'''" + strings.Repeat("{a:", 3*maxPieces): 3 * maxPieces,
	} {
		lexed := newPyLexer(text)
		braces := 0
		for _, k := range lexed.tokens {
			if k.Kind == code.Operator && text[k.Start] == '{' {
				braces++
			}
		}
		if braces != want || lexed.fault == "" || cap(lexed.strings) > 4*maxPieces {
			t.Errorf("%.10q: got %d braces of expressions, %q, %d strings; want %d", text, braces, lexed.fault, cap(lexed.strings), want)
		}
	}
}

// The text before the dot of a call is a short piece of the source.
func TestCallsOfLongExpressions(t *testing.T) {
	long := strings.Repeat("a", 100)
	f := Parse("a.py", code.Python, "def f():\n  "+long+".b.call()\n")
	g := Parse("a.go", code.Go, "package a\n\nfunc f() { "+long+".b(1)[2].call() }\n")
	if got, want := f.Funcs[0].Calls[0].Of, strings.Repeat("a", 62)+".b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := g.Funcs[0].Calls[0].Of, strings.Repeat("a", 56)+".b(1)[2]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
