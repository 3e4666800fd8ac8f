package cond_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/policies/cond"
)

var fields = cond.Args{
	"wait_ms": cond.Int, "url": cond.Text, "changes": cond.Bool, "env": cond.Named, "tags": cond.Texts, "odd": cond.Any,
}

func TestHolds(t *testing.T) {
	in := &cond.Input{
		Tool: "ReadDocs", Tenant: "ci", Session: "s-1", Profile: "offline", Upstream: "",
		Args: map[string]any{
			"wait_ms": float64(5000), "url": "https://a.example/x", "env": map[string]any{"CI": "1"}, "tags": []any{"a", "b"}, "odd": []any{1.0, "x"},
		},
		Commands: func() [][]string { return [][]string{{"git", "status"}, {"ls"}} },
		Paths:    []string{"/workspace/a"}, URLs: []string{"https://a.example/x"}, Hosts: []string{"a.example"},
		Annotations: map[string]bool{"readOnlyHint": true},
		Now:         time.Date(2026, 11, 22, 14, 30, 0, 0, time.UTC), // a Sunday
	}
	tests := []struct {
		text string
		want bool
		err  string
	}{
		{`true`, true, ""},
		{`args.wait_ms <= 10000`, true, ""},
		{`args.wait_ms > 5000`, false, ""},
		{`args.wait_ms == 5000 && args.url.startsWith("https://a.")`, true, ""},
		{`args.changes`, false, ""}, // the call leaves it out
		{`has(args.changes)`, false, ""},
		{`has(args.url) && args.url.size() < 100`, true, ""},
		{`args.env["CI"] == "1" && "a" in args.tags`, true, ""},
		{`args.env["NO"] == "1"`, false, "no such key: NO"},
		{`args.odd[1] == "x" && args.odd[0] == 1`, true, ""},
		{`tool == "ReadDocs" && tenant == "ci" && session == "s-1" && profile == "offline" && upstream == ""`, true, ""},
		{`commands.all(c, c[0] in ["git", "ls"])`, true, ""},
		{`commands.exists(c, c.size() > 1 && c[1] == "push")`, false, ""},
		{`commands[0][7] == ""`, false, "index out of bounds: 7"},
		{`paths.exists(p, p.startsWith("/workspace/")) && hosts == ["a.example"] && urls.size() == 1`, true, ""},
		{`annotations.readOnlyHint`, true, ""},
		{`annotations.destructiveHint`, false, "no such key: destructiveHint"},
		{`now.getDayOfWeek() in [0, 6]`, true, ""},
		{`now.getHours("+02:00") == 16`, true, ""},
		{`now > timestamp("2026-01-01T00:00:00Z") && now - timestamp("2026-11-22T14:00:00Z") == duration("30m")`, true, ""},
		{`args.url.matches("^https://[a-z.]+/")`, true, ""},
		{`1 / (args.wait_ms - 5000) == 1`, false, "division by zero"},
		{`args.url.contains("example") ? true : false`, true, ""},
	}
	for _, tt := range tests {
		c, wrong := cond.Compile(tt.text, fields)
		if wrong != nil {
			t.Errorf("%s: %+v", tt.text, wrong)
			continue
		}
		got, err := c.Holds(in)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %v, %v; want %v, %q", tt.text, got, err, tt.want, tt.err)
		}
		if c.String() != tt.text {
			t.Errorf("String: got %q", c.String())
		}
	}
}

// An argument that a call leaves out reads as its zero value. An argument of another type
// is an error, and not false.
func TestHoldsOddArguments(t *testing.T) {
	for _, tt := range []struct {
		text string
		args map[string]any
		want bool
		err  string
	}{
		{`args.wait_ms < 1 && args.url == "" && !args.changes && args.tags == [] && args.env == {} && args.odd == null`, nil, true, ""},
		{`args.wait_ms < 1`, map[string]any{"wait_ms": "5"}, false, "another type"},
		{`args.wait_ms < 1`, map[string]any{"wait_ms": 0.5}, false, "not a whole number"},
		{`args.wait_ms < 1`, map[string]any{"wait_ms": 1e300}, false, "not a whole number"},
		{`args.changes`, map[string]any{"changes": []any{}}, false, "another type"},
		{`"x" in args.tags`, map[string]any{"tags": map[string]any{"x": 1}}, false, "another type"},
		{`args.tags.exists(s, s == "a")`, map[string]any{"tags": []any{1.0, "a"}}, true, ""},
		{`args.env["A"] == "x"`, map[string]any{"env": map[string]any{"A": 1.0}}, false, ""},
	} {
		c, wrong := cond.Compile(tt.text, fields)
		if wrong != nil {
			t.Fatalf("%s: %+v", tt.text, wrong)
		}
		got, err := c.Holds(&cond.Input{Args: tt.args})
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s of %v: got %v, %v; want %v, %q", tt.text, tt.args, got, err, tt.want, tt.err)
		}
	}
	c, wrong := cond.Compile(`args.anything.deep == 1 && args.n < 2.5`, nil)
	if wrong != nil {
		t.Fatal(wrong)
	}
	if got, err := c.Holds(&cond.Input{Args: map[string]any{"anything": map[string]any{"deep": 1.0}, "n": 2.0}}); !got || err != nil {
		t.Errorf("arguments of an unknown tool: got %v, %v", got, err)
	}
	if got, err := c.Holds(&cond.Input{}); got || err == nil {
		t.Errorf("no arguments: got %v, %v", got, err)
	}
	c, _ = cond.Compile(`now.getHours() < 24`, fields)
	if got, err := c.Holds(&cond.Input{}); got || err == nil || !strings.Contains(err.Error(), "time") {
		t.Errorf("no time: got %v, %v", got, err)
	}
}

func TestFaults(t *testing.T) {
	long := strings.Repeat("x", cond.MaxText+1)
	for _, tt := range []struct {
		text      string
		line, col int
		message   string
		name      string
	}{
		{`args.wait_mss > 1`, 1, 6, `the tool has no argument "wait_mss"`, "wait_mss"},
		{"true &&\n  tenat == 'x'", 2, 3, `"tenat" does not exist`, "tenat"},
		{`args.wait_ms > "1"`, 1, 14, `> cannot be applied to (int, string)`, ""},
		{`args.url`, 1, 1, `is of the type string, and a condition is true or false`, ""},
		{`tool = "x"`, 1, 6, `"=" is not expected here`, ""},
		{`tool ==`, 1, 8, `ends where more is expected`, ""},
		{``, 1, 1, `ends where more is expected`, ""},
		{`tool.matches("(")`, 1, 14, `invalid matches argument`, ""},
		{`tool.matches(args.url)`, 1, 18, `matches takes a regular expression that is written here, not one that is computed`, ""},
		{`tool.matches("(a{1,500}){1,500}")`, 1, 14, `invalid matches argument`, ""},
		{`now > timestamp("soon")`, 1, 17, `invalid timestamp argument`, ""},
		{`args{url: "x"}.url == "x"`, 1, 5, "a condition cannot make objects", ""},
		{long, 1, 1, `has 4097 bytes, more than 4096`, ""},
		{strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200), 1, 0, "", ""},
		{"[" + strings.Repeat("1,", 1500) + "1].size() > 0", 1, 0, "", ""},
		{`open("/etc/passwd") == ""`, 1, 5, `"open" does not exist`, "open"},
	} {
		c, wrong := cond.Compile(tt.text, fields)
		if c != nil || len(wrong) == 0 {
			t.Errorf("%.60s: got no fault", tt.text)
			continue
		}
		f := wrong[0]
		if f.Line != tt.line || tt.col > 0 && f.Col != tt.col || !strings.HasPrefix(f.Message, tt.message) || f.Name != tt.name || strings.Contains(f.Message, "\n") {
			t.Errorf("%.60s: got %+v, want %d:%d %q", tt.text, wrong, tt.line, tt.col, tt.message)
		}
	}
}

// The evaluation of a condition that would look at too much ends with an error.
func TestCost(t *testing.T) {
	c, wrong := cond.Compile(`commands.all(a, commands.all(b, commands.all(d, a[0] != b[0] || d[0] != a[0] || true)))`, nil)
	if wrong != nil {
		t.Fatal(wrong)
	}
	many := make([][]string, 1000)
	for i := range many {
		many[i] = []string{fmt.Sprint(i)}
	}
	if got, err := c.Holds(&cond.Input{Commands: func() [][]string { return many }}); got || err == nil || !strings.Contains(err.Error(), "cost") {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestConcurrently(t *testing.T) {
	c, wrong := cond.Compile(`args.wait_ms < 10 && commands.exists(c, c[0] == "ls") && args.url.matches("^x+$")`, fields)
	if wrong != nil {
		t.Fatal(wrong)
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 50 {
				in := &cond.Input{Args: map[string]any{"wait_ms": float64(i), "url": "xx"}, Commands: func() [][]string { return [][]string{{"ls"}} }}
				if got, err := c.Holds(in); got != (i < 10) || err != nil {
					t.Errorf("%d: got %v, %v", i, got, err)
				}
			}
		})
	}
	all.Wait()
}

func TestUses(t *testing.T) {
	c, wrong := cond.Compile(`hosts.all(h, h != "") || now.getHours() == 1`, fields)
	if wrong != nil {
		t.Fatal(wrong)
	}
	got := map[string]bool{}
	for _, name := range []string{"hosts", "now", "commands", "args"} {
		got[name] = c.Uses(name)
	}
	if diff := cmp.Diff(map[string]bool{"hosts": true, "now": true, "commands": false, "args": false}, got); diff != "" {
		t.Error(diff)
	}
}

// Whatever the text is, compiling it ends, and so does the evaluation of the condition.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		`args.wait_ms <= 10000`, `commands.all(c, c[0] in ["git"])`, `now.getDayOfWeek('Europe/Berlin') in [0, 6]`,
		`args.env["CI"] == "1" ? tool == "x" : false`, `[1,2].map(x, x * 2).exists(y, y == 4)`, `"\u00e9" + r'\d' == b"x"`, `args.url.matches("[a-")`,
	} {
		f.Add(s)
	}
	in := &cond.Input{
		Args: map[string]any{"url": "x", "wait_ms": 1.0}, Commands: func() [][]string { return [][]string{{"a", "b"}, {}} },
		Hosts: []string{"h"}, Now: time.Unix(0, 0),
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range []cond.Args{fields, nil} {
			c, wrong := cond.Compile(text, a)
			if (c == nil) != (len(wrong) > 0) {
				t.Fatalf("got %v and %v", c, wrong)
			}
			for _, w := range wrong {
				if w.Line < 1 || w.Col < 1 || w.Message == "" {
					t.Fatalf("got fault %+v", w)
				}
			}
			if c != nil {
				_, _ = c.Holds(in)
			}
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, wrong := cond.Compile(`args.wait_ms <= 10000 && args.url.startsWith("https://")`, fields); wrong != nil {
			b.Fatal(wrong)
		}
	}
}

func BenchmarkHolds(b *testing.B) {
	for name, text := range map[string]string{
		"simple":   `args.wait_ms <= 10000`,
		"commands": `commands.all(c, c[0] in ["git", "go", "make"])`,
		"regex":    `args.url.matches("^https://[a-z.]+/")`,
	} {
		b.Run(name, func(b *testing.B) {
			c, wrong := cond.Compile(text, fields)
			if wrong != nil {
				b.Fatal(wrong)
			}
			in := &cond.Input{Args: map[string]any{"wait_ms": 5000.0, "url": "https://a.example/x"}, Commands: func() [][]string {
				return [][]string{{"git", "status"}, {"go", "test", "./..."}, {"make"}}
			}}
			for b.Loop() {
				_, _ = c.Holds(in)
			}
		})
	}
}
