package debt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

// labelled is a comment that a person has read and labelled.
type labelled struct {
	label, library, place, text string
}

// read returns the labelled comments of a file of testdata.
func read(t *testing.T, name string) []labelled {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []labelled
	lines, in := bufio.NewScanner(file), false
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line == "":
			in = false
		case in:
			all[len(all)-1].text += line + "\n"
		case !strings.HasPrefix(line, "# "):
			head := strings.Fields(line)
			if len(head) != 3 {
				t.Fatalf("%s: %q is not label, library and place", name, line)
			}
			all = append(all, labelled{label: head[0], library: head[1], place: head[2]})
			in = true
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// file makes a file that consists of a comment. It makes the tokens without a lexer, so
// that the labels test only this package.
func (l labelled) file() *code.File {
	f := &code.File{Path: l.place, Text: l.text}
	at, line := 0, 1
	if strings.HasPrefix(l.text, "/*") {
		f.Tokens = []code.Token{{Start: 0, End: int32(len(l.text) - 1), Line: 1, Kind: code.Comment}}
		return f
	}
	for text := range strings.Lines(l.text) {
		f.Tokens = append(f.Tokens, code.Token{Start: int32(at), End: int32(at + len(text) - 1), Line: int32(line), Kind: code.Comment})
		at += len(text)
		line++
	}
	return f
}

// TestLabelledComments checks that at least 95 % of what is found is debt, and that at
// least 90 % of the debt is found.
func TestLabelledComments(t *testing.T) {
	for _, tt := range []struct {
		name  string
		count int
		kinds float64 // lowest share of remarks whose kind equals the label
	}{{"testdata/comments.txt", 300, 0.7}, {"testdata/heldout.txt", 100, 0.6}} {
		all := read(t, tt.name)
		if len(all) != tt.count {
			t.Errorf("%s: %d comments, want %d", tt.name, len(all), tt.count)
		}
		right, found, debts, kinds := 0, 0, 0, 0
		for _, l := range all {
			res, err := Find(context.Background(), []*code.File{l.file()})
			if err != nil {
				t.Fatal(err)
			}
			is := l.label != "none"
			if is {
				debts++
			}
			if len(res.Remarks) > 0 {
				found++
				if is {
					right++
					if string(res.Remarks[0].Kind) == l.label {
						kinds++
					} else {
						t.Logf("kind %s, label %s: %s", res.Remarks[0].Kind, l.label, res.Remarks[0].Text)
					}
				} else {
					t.Logf("not debt: %s:\n%s", l.place, l.text)
				}
			} else if is {
				t.Logf("not found: %s:\n%s", l.place, l.text)
			}
		}
		precision, recall := float64(right)/float64(found), float64(right)/float64(debts)
		t.Logf("%s: %d admit debt; precision %.3f, recall %.3f, kind as labelled %.3f", tt.name, debts, precision, recall, float64(kinds)/float64(right))
		if precision < 0.95 || recall < 0.90 {
			t.Errorf("%s: precision %.3f and recall %.3f, want 0.95 and 0.90", tt.name, precision, recall)
		}
		if float64(kinds) < tt.kinds*float64(right) {
			t.Errorf("%s: %d of %d kinds are as labelled, want %.0f %%", tt.name, kinds, right, 100*tt.kinds)
		}
	}
}

// find returns the remarks of a text in Go.
func find(t *testing.T, text string) Result {
	t.Helper()
	res, err := Find(context.Background(), []*code.File{lex.Parse("a.go", code.Go, "package a\n\n"+text)})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestWhatIsNoDebt(t *testing.T) {
	for _, text := range []string{
		"var x = \"TODO: not a comment\"",
		"var x = `\n// TODO: in a raw string\n`",
		"// Dates look like XXX-XX-XXXX.\nvar x int",
		"// XXX-1234 is the form of a number.\nvar x int",
		"// The escape \\uXXXX is read.\nvar x int",
		"// mktemp replaces fileXXX at random.\nvar x int",
		"// See https://todo.example/TODO for more.\nvar x int",
		"// todoList keeps what the user has to do.\nvar x int",
		"// TODO comments are found by a linter.\nvar x int",
		"// TODO items of the user.\nvar x int",
		"// The hack language has its own lexer.\nvar x int",
		"// Hack is a language.\nvar x int",
		"// debug prints a bug report.\nvar x int",
		"// If this happens there is a bug in the caller.\nvar x int",
		"// No workaround is needed here.\nvar x int",
		"// A temporary file, removed later.\nvar x int",
		"// ErrUnsupported is returned for what is not supported.\nvar x int",
		"// It should be called once.\nvar x int",
	} {
		if res := find(t, text+"\n"); len(res.Remarks) != 0 {
			t.Errorf("%s: got %+v, want no remark", text, res.Remarks)
		}
	}
}

func TestRemarks(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []Remark
	}{
		{"// TODO(ada): support proxies,\n// also of the environment.\nvar x int", []Remark{{"a.go", 3, Requirement, Medium, "TODO", "ada", "support proxies, also of the environment."}}},
		{"var x int // FIXME: this is wrong", []Remark{{"a.go", 3, Defect, High, "FIXME", "", "this is wrong"}}},
		{"// Sum adds.\n//\n// TODO: make this faster.\n//\n// It never fails.\nfunc f() {}", []Remark{{"a.go", 5, Performance, Medium, "TODO", "", "make this faster."}}},
		{"/*\n * A list.\n * HACK: the order is kept by accident\n */\nvar x int", []Remark{{"a.go", 5, Design, Medium, "HACK", "", "the order is kept by accident"}}},
		{"// TODO: one\n// TODO: add tests\nvar x int", []Remark{{"a.go", 3, Requirement, Medium, "TODO", "", "one"}, {"a.go", 4, Test, Medium, "TODO", "", "add tests"}}},
		{"// XXX maybe this should move\nvar x int", []Remark{{"a.go", 3, Design, Low, "XXX", "", "maybe this should move"}}},
		{"// TODO: an attacker can spoof this\nvar x int", []Remark{{"a.go", 3, Security, Critical, "TODO", "", "an attacker can spoof this"}}},
		{"// TODO: sanitize the input\nvar x int", []Remark{{"a.go", 3, Security, Critical, "TODO", "", "sanitize the input"}}},
		{"// BUG(rsc): The mapping is incomplete.\nvar x int", []Remark{{"a.go", 3, Defect, High, "BUG", "rsc", "The mapping is incomplete."}}},
		{"// Read reads. Links are not supported yet.\nvar x int", []Remark{{"a.go", 3, Requirement, Medium, "", "", "Links are not supported yet."}}},
		{"// An ugly\n// workaround.\nvar x int", []Remark{{"a.go", 3, Design, Medium, "", "", "An ugly workaround."}}},
		{"var x int // XXX", []Remark{{"a.go", 3, Design, Medium, "XXX", "", ""}}},
	} {
		if got := find(t, tt.text+"\n").Remarks; !slices.Equal(got, tt.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", tt.text, got, tt.want)
		}
	}
}

// TestEachFieldIsMeasured checks that each field of a result changes with what it
// describes.
func TestEachFieldIsMeasured(t *testing.T) {
	const base = "// TODO(ada): support proxies\nvar x int\n"
	for _, tt := range []struct {
		field string
		of    func(Result) any
		text  string
	}{
		{"line", func(r Result) any { return r.Remarks[0].Line }, "\n" + base},
		{"kind", func(r Result) any { return r.Remarks[0].Kind }, strings.Replace(base, "support", "optimize", 1)},
		{"severity", func(r Result) any { return r.Remarks[0].Severity }, strings.Replace(base, "support", "maybe support", 1)},
		{"marker", func(r Result) any { return r.Remarks[0].Marker }, strings.Replace(base, "TODO", "FIXME", 1)},
		{"author", func(r Result) any { return r.Remarks[0].Author }, strings.Replace(base, "ada", "bob", 1)},
		{"text", func(r Result) any { return r.Remarks[0].Text }, strings.Replace(base, "proxies", "links", 1)},
		{"remarks", func(r Result) any { return len(r.Remarks) }, strings.Replace(base, "TODO(ada)", "Note", 1)},
		{"comments", func(r Result) any { return r.Comments }, base + "\n// x\nvar y int\n"},
	} {
		if before, after := tt.of(find(t, base)), tt.of(find(t, tt.text)); reflect.DeepEqual(before, after) {
			t.Errorf("%s: %v before and after a change", tt.field, after)
		}
	}
	res, err := Find(context.Background(), []*code.File{lex.Parse("b.go", code.Go, "package b\n\n"+base)})
	if err != nil || res.Remarks[0].Path != "b.go" {
		t.Errorf("got %+v, %v, want a remark in b.go", res, err)
	}
}

func TestBounds(t *testing.T) {
	res := find(t, "// TODO: "+strings.Repeat("ä", 1000)+"\nvar x int\n")
	if text := res.Remarks[0].Text; len(text) > maxText || !strings.HasSuffix(text, "ä...") {
		t.Errorf("a long text: got %d bytes that end with %q, want at most %d and dots", len(text), text[len(text)-8:], maxText)
	}
	res = find(t, strings.Repeat("// TODO: x\n\n", maxRemarks+1)+"var x int\n")
	if len(res.Remarks) != maxRemarks || len(res.Gaps) != 1 {
		t.Errorf("got %d remarks and gaps %+v, want %d and one gap", len(res.Remarks), res.Gaps, maxRemarks)
	}
	why := errors.New("too late")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	res, err := Find(ctx, []*code.File{lex.Parse("a.go", code.Go, "package a // TODO: x\n")})
	if !errors.Is(err, why) || len(res.Gaps) != 1 || res.Gaps[0].Path != "a.go" {
		t.Errorf("got %+v, %v, want a gap and %v", res, err, why)
	}
}

func FuzzFind(f *testing.F) {
	f.Add("TODO(x: y")
	f.Add("XXX\n\nFIXME(")
	f.Add("\xff'TODO'\n*/ not yet")
	f.Add("not\nimplemented\nyet '")
	f.Fuzz(func(t *testing.T, text string) {
		file := labelled{place: "a", text: strings.ReplaceAll(text, "/*", "") + "\n"}.file()
		res, err := Find(context.Background(), []*code.File{file})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range res.Remarks {
			if r.Line < 1 || r.Line > strings.Count(file.Text, "\n") || len(r.Text) > maxText || r.Kind == "" || r.Severity == "" {
				t.Errorf("remark %+v", r)
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	text := fmt.Sprintf("package a\n\n%svar x int\n", strings.Repeat("// This is a comment that says nothing of what should be done later.\n\n// TODO: but this one does\n\n", 5000))
	file := lex.Parse("a.go", code.Go, text)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Find(context.Background(), []*code.File{file}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestDebtInPlainLanguages checks that the marks of comments are removed in languages
// without a lexer.
func TestDebtInPlainLanguages(t *testing.T) {
	for _, tt := range []struct {
		language code.Language
		text     string
		line     int
		want     string
	}{
		{"ruby", "x = 1 # TODO: fold it\n", 1, "fold it"},
		{"ruby", "=begin\nFIXME: it leaks\n=end\n", 2, "it leaks"},
		{"sql", "---- TODO index it\n", 1, "index it"},
		{"lua", "--[[ HACK: until 5.5 ]]\n", 1, "until 5.5"},
		{"haskell", "{- TODO: total -}\n", 1, "total"},
		{"ocaml", "(* FIXME: slow *)\n", 1, "slow"},
		{"lisp", ";;; TODO: name it\n", 1, "name it"},
		{"erlang", "%% TODO: name it\n", 1, "name it"},
		{"html", "<!-- TODO: translate -->\n", 1, "translate"},
		{"visual-basic", "' TODO: rename\n", 1, "rename"},
		{"perl", "=head1 BUGS\n\nTODO: say it\n\n=cut\n", 3, "say it"},
		{"yaml", "a: todo\n", 0, ""},
	} {
		res, err := Find(context.Background(), []*code.File{lex.Parse("a", tt.language, tt.text)})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case tt.want == "" && len(res.Remarks) == 0:
		case len(res.Remarks) != 1 || res.Remarks[0].Text != tt.want || res.Remarks[0].Line != tt.line:
			t.Errorf("%s, %q: got %+v, want %q on line %d", tt.language, tt.text, res.Remarks, tt.want, tt.line)
		}
	}
}
