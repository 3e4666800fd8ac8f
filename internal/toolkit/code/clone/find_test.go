package clone

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

const sum = `package a

// Sum adds up what is even.
func Sum(list []int, limit int) (int, error) {
	total := 0
	for i, x := range list {
		if x%2 == 0 && x < limit {
			total += x * i
		} else if x > 1000 {
			return 0, fmt.Errorf("item %d: too large", i)
		}
	}
	log.Printf("%d items, %d in all", len(list), total)
	return total, nil
}
`

// golang parses a text in Go.
func golang(path, text string) *code.File { return lex.Parse(path, code.Go, text) }

// find returns the clones of files, and fails the test if there is an error.
func find(t testing.TB, o Options, files ...*code.File) Result {
	t.Helper()
	res, err := Find(context.Background(), files, o)
	if err != nil {
		t.Fatalf("Find: %v", err)
	}
	return res
}

// spell returns sum with pairs of texts replaced.
func spell(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(sum) }

func TestFindKinds(t *testing.T) {
	for _, tt := range []struct {
		name, text  string
		kind        Kind // kind of the copy; empty if it is not a clone
		first, last int  // first and last line of the copy
	}{
		{"same", sum, Exact, 1, 15},
		{"other comment and layout", spell("// Sum adds up what is even.", "// Changed.\n\n", "total := 0", "total :=\n0"), Exact, 1, 18},
		{"other package and name", spell("package a", "package other", "Sum", "Add"), Renamed, 1, 15},
		{"other names and literals", spell("total", "n", "list", "many", "1000", "0x10", "item", "thing"), Renamed, 1, 15},
		{"line more", spell("	log.Printf", "	defer wait(list, func() { done <- limit })\n	log.Printf"), Gapped, 1, 16},
		{"condition turned, names", spell("x%2 == 0 && x < limit", "limit > y && !odd(y)", "x", "y", "total += x * i", "total = total + x*i", "log", "debug"), Gapped, 1, 15},
		{"another function", "package b\n\nfunc Read(r io.Reader) string {\n\tvar b strings.Builder\n\tio.Copy(&b, r)\n\tswitch b.Len() {\n\tcase 0:\n\t\tpanic(1)\n\t}\n\tgo func() { close(c) }()\n\tdefer f(<-c, a[1:], []string{1, 2, 3}, struct{}{})\n\treturn b.String()\n}\n", "", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := find(t, Options{}, golang("a.go", sum), golang("b.go", tt.text))
			if tt.kind == "" {
				if len(res.Clones) > 0 || res.Lines != 0 || len(res.Files) != 0 {
					t.Fatalf("got %+v, want no clone", res)
				}
				return
			}
			// The longest clone is listed first; parts of it that belong to a stricter kind
			// follow.
			if len(res.Clones) == 0 || res.Clones[0].Kind != tt.kind || len(res.Clones[0].Places) != 2 {
				t.Fatalf("got %+v, want a clone of kind %s first", res.Clones, tt.kind)
			}
			if got, want := res.Clones[0].Places[1], (Place{Path: "b.go", First: tt.first, Last: tt.last}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// TestKindsContainEachOther checks that a clone of a strict kind is also found by the kinds
// after it, if the strict kind is not asked for.
func TestKindsContainEachOther(t *testing.T) {
	copies := map[Kind]string{Exact: sum, Renamed: spell("total", "n", "list", "many"), Gapped: spell("	log.Printf", "	wait()\n	log.Printf")}
	kinds := []Kind{Exact, Renamed, Gapped, Semantic}
	for of, text := range copies {
		for _, asked := range kinds {
			res := find(t, Options{Kinds: []Kind{asked}}, golang("a.go", sum), golang("b.go", text))
			want := slices.Index(kinds, asked) >= slices.Index(kinds, of)
			if got := len(res.Clones) == 1 && res.Clones[0].Kind == asked && res.Clones[0].Places[1].Last >= 15; got != want {
				t.Errorf("%s copy, %s asked for: got %+v, want found: %v", of, asked, res.Clones, want)
			}
		}
	}
}

func TestSemantic(t *testing.T) {
	res := find(t, Options{Kinds: []Kind{Semantic}}, golang("a.go", sum), golang("b.go", spell("Sum", "Add", "total += x * i", "total = total + x*i", "x < limit", "limit > x", "x%2", "(x%2)", "total, nil", "-total, nil")))
	want := []Place{{"a.go", 4, 15, "Sum"}, {"b.go", 4, 15, "Add"}}
	if len(res.Clones) != 1 || !slices.Equal(res.Clones[0].Places, want) || res.Functions != 2 {
		t.Fatalf("got %+v, want places %+v", res, want)
	}
	if s := res.Clones[0].Similarity; s < 0.7 || s >= 1 {
		t.Errorf("similarity %v, want at least 0.7 and less than 1", s)
	}
}

// TestEachFieldIsMeasured checks that each field of a result changes with what it
// describes.
func TestEachFieldIsMeasured(t *testing.T) {
	files := func(a, b string) []*code.File { return []*code.File{golang("a.go", a), golang("b.go", b)} }
	base := files(sum, sum)
	for _, tt := range []struct {
		field string
		of    func(Result) any
		other []*code.File
	}{
		{"clones", func(r Result) any { return len(r.Clones) }, files(sum, "package b\n")},
		{"kind", func(r Result) any { return r.Clones[0].Kind }, files(sum, spell("1000", "1001"))},
		{"similarity", func(r Result) any { return r.Clones[0].Similarity }, files(sum, spell("	log.Printf", "	wait(1)\n	log.Printf"))},
		{"tokens of a clone", func(r Result) any { return r.Clones[0].Tokens }, files(sum+"var x = 1\n", sum+"var x = 1\n")},
		{"places", func(r Result) any { return len(r.Clones[0].Places) }, append(files(sum, sum), golang("c.go", sum))},
		{"path", func(r Result) any { return r.Clones[0].Places[1].Path }, []*code.File{base[0], golang("d.go", sum)}},
		{"first line", func(r Result) any { return r.Clones[0].Places[1].First }, files(sum, "\n"+sum)},
		{"last line", func(r Result) any { return r.Clones[0].Places[1].Last }, files(sum, spell("total := 0", "total := 0\n"))},
		{"files", func(r Result) any { return r.Files }, files(sum, spell("total := 0", "total :=\n0"))},
		{"lines", func(r Result) any { return r.Lines }, files(sum, spell("total := 0", "total :=\n0"))},
		{"code", func(r Result) any { return r.Code }, files(sum, sum+"\nvar x int\n")},
		{"percentage", func(r Result) any { return r.Percentage }, files(sum, sum+"\nvar x int\n")},
		{"shares", func(r Result) any { return r.Shares }, files(sum, spell("1000", "1001"))},
		{"tokens", func(r Result) any { return r.Tokens }, files(sum, sum+"\nvar x int\n")},
		{"functions", func(r Result) any { return r.Functions }, files(sum, spell("func Sum(", "var f = Sum(", "(int, error) {", ""))},
	} {
		before, after := tt.of(find(t, Options{}, base...)), tt.of(find(t, Options{}, tt.other...))
		if reflect.DeepEqual(before, after) {
			t.Errorf("%s: %v before and after a change", tt.field, after)
		}
	}
	res := find(t, Options{}, base...)
	if want := (Result{
		Clones:     []Clone{{Exact, 1, 84, []Place{{"a.go", 1, 15, ""}, {"b.go", 1, 15, ""}}, 0}},
		Files:      []Duplicated{{"a.go", 13, 13}, {"b.go", 13, 13}},
		Lines:      26,
		Code:       26,
		Percentage: 100,
		Shares:     []Share{{Exact, 26}, {Renamed, 0}, {Gapped, 0}, {Semantic, 0}},
		Tokens:     168,
		Functions:  2,
	}); !reflect.DeepEqual(res, want) {
		t.Errorf("got %+v, want %+v", res, want)
	}
}

func TestLengthsAreForAllKinds(t *testing.T) {
	// The file has 15 lines, 13 of them with code. Its function has 12 lines.
	for _, kind := range []Kind{Exact, Renamed, Gapped, Semantic} {
		a, b := golang("a.go", sum), golang("b.go", sum)
		for _, tt := range []struct {
			o    Options
			want int
		}{
			{Options{}, 1},
			{Options{MinLines: 12}, 1},
			{Options{MinLines: 16}, 0},
			{Options{MinTokens: 70}, 1},
			{Options{MinTokens: 90}, 0},
		} {
			tt.o.Kinds = []Kind{kind}
			res := find(t, tt.o, a, b)
			if got := len(res.Clones); got != tt.want {
				t.Errorf("%+v: got %d clones, want %d", tt.o, got, tt.want)
			}
			if kind == Semantic && res.Functions != 2*tt.want {
				t.Errorf("%+v: %d functions compared, want %d", tt.o, res.Functions, 2*tt.want)
			}
		}
	}
}

func TestThreshold(t *testing.T) {
	text := spell("	log.Printf", "	wait(1, 2, 3)\n	done()\n	log.Printf", "total := 0", "total, x := 0, none(list)", "x%2 == 0 && ", "")
	for threshold, want := range map[float64]int{0.5: 1, 0.85: 1, 0.99: 0, 1: 0} {
		for _, kind := range []Kind{Gapped, Semantic} {
			res := find(t, Options{Kinds: []Kind{kind}, Threshold: threshold, MinTokens: 60}, golang("a.go", sum), golang("b.go", text))
			if len(res.Clones) != want {
				t.Errorf("%s, threshold %v: got %+v, want %d clones", kind, threshold, res.Clones, want)
			}
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{Threshold: 1.01}, {Threshold: -0.5}, {Threshold: math.NaN()}, {Threshold: math.Inf(1)}, {MinLines: -1}, {MinTokens: -1}, {Workers: -1}, {Kinds: []Kind{"fuzzy"}}} {
		if _, err := Find(context.Background(), nil, o); err == nil {
			t.Errorf("Find with %+v: got no error, want one", o)
		}
		if _, err := Match(context.Background(), nil, golang("s.go", sum), o); err == nil {
			t.Errorf("Match with %+v: got no error, want one", o)
		}
	}
}

// TestIndentsCount checks that indents belong to the tokens that are compared. The dedents
// after a Python block stand on the line of the code that follows.
func TestIndentsCount(t *testing.T) {
	text := func(last string) string {
		return "def f(a, b):\n    total = 0\n    for x in a:\n        if x > b and x < 100:\n            total += x * 2\n            print('found', x, total)\n            b = b + total - x\n" + last + "    return total\n"
	}
	parse := func(path, last string) *code.File {
		f := lex.Parse(path, code.Python, text(last))
		indents := slices.ContainsFunc(f.Tokens, func(t code.Token) bool { return t.Kind == code.Dedent })
		if !indents {
			t.Skip("no lexer for Python yet: indents are not tokens")
		}
		return f
	}
	inner := "            call(total)\n"
	if got := find(t, Options{Kinds: []Kind{Exact}}, parse("a.py", inner), parse("b.py", inner)); len(got.Clones) != 1 || got.Clones[0].Places[0].Last != 9 {
		t.Errorf("same indents: got %+v, want lines 1 to 9", got.Clones)
	}
	if got := find(t, Options{Kinds: []Kind{Exact}}, parse("a.py", inner), parse("b.py", strings.TrimPrefix(inner, "        "))); len(got.Clones) == 1 && got.Clones[0].Places[0].Last > 7 {
		t.Errorf("another indent: got %+v, want at most lines 1 to 7", got.Clones)
	}
}

// X4: the result does not depend on the number of goroutines.
func TestWorkersChangeNothing(t *testing.T) {
	functions := planting(t)
	random := rand.New(rand.NewPCG(1, 2))
	var files []*code.File
	for i, p := range functions[:400] {
		files = append(files, p.file(fmt.Sprintf("a/%d", i), p.text), p.file(fmt.Sprintf("b/%d", i), p.changed(random, 2)))
	}
	want := find(t, Options{Workers: 1}, files...)
	if len(want.Clones) < 300 {
		t.Fatalf("%d clones, want many", len(want.Clones))
	}
	for _, n := range []int{2, 3, 8, 0} {
		if got := find(t, Options{Workers: n}, files...); !reflect.DeepEqual(got, want) {
			t.Errorf("%d workers: got another result than one has", n)
		}
	}
}

// TestHostileRepetition checks that clones are found in a text that repeats very often,
// that there are not many, and that their places do not overlap.
func TestHostileRepetition(t *testing.T) {
	var many strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&many, "func f%d(a int) (b int) {\n\tb = a + %d\n\tif a > b {\n\t\treturn g(a, b, %d)\n\t}\n\th(a)\n\treturn b*2 + c[a] - d[b].e + (a | b) - f(a)\n}\n", i, i, i)
	}
	for name, text := range map[string]string{
		"one line a hundred thousand times": "package p\n\nfunc f() {\n" + strings.Repeat("\tx = append(x, 1)\n", 100_000) + "}\n",
		"one bracket":                       strings.Repeat("(", 1<<20),
		"two brackets":                      strings.Repeat("[{\n", 1<<19),
		"a long cycle":                      strings.Repeat("a b c = d (e f) ! g ; h : i . j\n", 40_000),
		"functions of one form":             "package p\n\n" + many.String(),
	} {
		f := golang("a.go", text)
		if name != "functions of one form" {
			f = lex.Parse("a.txt", code.Other, text)
		}
		begin := time.Now()
		res := find(t, Options{}, f, golang("b.go", sum))
		t.Logf("%s: %d tokens, %d functions, %v, %v", name, res.Tokens, res.Functions, time.Since(begin), res.Gaps)
		if name != "one bracket" && len(res.Clones) == 0 || len(res.Clones) > 200 {
			t.Errorf("%s: %d clones, want some, and not many", name, len(res.Clones))
		}
		for _, c := range res.Clones {
			for i, p := range c.Places[1:] {
				if q := c.Places[i]; p.Path == q.Path && p.First < q.Last {
					t.Errorf("%s: places %+v and %+v overlap", name, q, p)
				}
			}
		}
		if name != "one bracket" && res.Percentage < 80 { // the text with one bracket has too few lines
			t.Errorf("%s: %.0f %% of the lines are in a clone, want at least 80 %%", name, res.Percentage)
		}
	}
}

// TestCutIsNamed checks that a gap is reported if there are more functions of one shape
// than are compared.
func TestCutIsNamed(t *testing.T) {
	// Each function shares all rare runs with all others and has some of its own.
	random := rand.New(rand.NewPCG(3, 3))
	var text strings.Builder
	text.WriteString("package p\n")
	for i := range 3000 {
		fmt.Fprintf(&text, "func f%d() {\n\ta <<= b &^ c\n\td ^= e %% f\n\tg &= h | i\n\tj <- k\n\tl >>= ^m\n\tselect {}\n\tgoto n\n", i)
		for range 6 {
			text.WriteString("\tx" + []string{" = ", " += ", ".y = ", "[1] = "}[random.IntN(4)] + []string{"a + b", "c(d)", "<-e", "-f", "!g"}[random.IntN(5)] + "\n")
		}
		text.WriteString("}\n")
	}
	res := find(t, Options{Kinds: []Kind{Semantic}}, golang("a.go", text.String()))
	if len(res.Gaps) == 0 || !slices.ContainsFunc(res.Gaps, func(g code.Gap) bool { return g.Field == "semantic clones" || g.Field == "clones" }) {
		t.Errorf("%d clones, gaps %+v: want a gap that says what was cut", len(res.Clones), res.Gaps)
	}
}

func TestTimeIsUp(t *testing.T) {
	why := errors.New("too late")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	res, err := Find(ctx, []*code.File{golang("a.go", sum), golang("b.go", sum)}, Options{Kinds: []Kind{Renamed}})
	if !errors.Is(err, why) {
		t.Errorf("Find: got error %v, want %v", err, why)
	}
	if want := []code.Gap{{Field: "renamed clones", Reason: "the time was up before they were found"}}; !slices.Equal(res.Gaps, want) {
		t.Errorf("gaps: got %+v, want %+v", res.Gaps, want)
	}
	if _, err := Match(ctx, []*code.File{golang("a.go", sum)}, golang("b.go", sum), Options{}); !errors.Is(err, why) {
		t.Errorf("Match: got error %v, want %v", err, why)
	}
}

func TestMatch(t *testing.T) {
	files := []*code.File{golang("other.go", "package b\n\nfunc f() {}\n"), golang("a.go", sum), golang("renamed.go", spell("total", "n", "list", "many"))}
	body := sum[strings.Index(sum, "	for"):strings.Index(sum, "	log")]
	for _, tt := range []struct {
		name, snippet string
		want          []Hit
	}{
		{"all", sum, []Hit{
			{Place{"a.go", 1, 15, ""}, Exact, 1, 1, 1, 15},
			{Place{"renamed.go", 1, 15, ""}, Renamed, 1, 1, 1, 15},
		}},
		{"a piece", body, []Hit{
			{Place{"a.go", 6, 12, ""}, Exact, 1, 1, 1, 7},
			{Place{"renamed.go", 6, 12, ""}, Renamed, 1, 1, 1, 7},
		}},
		{"one line", "log.Printf(\"%d items, %d in all\", len(list), total)", []Hit{
			{Place{"a.go", 13, 13, ""}, Exact, 1, 1, 1, 1},
			{Place{"renamed.go", 13, 13, ""}, Renamed, 1, 1, 1, 1},
		}},
		{"nothing like it", "type T struct {\n\tA, B, C string `json:\"a\"`\n\tD chan<- map[string][]byte\n}\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, err := Match(context.Background(), files, golang("snippet", tt.snippet), Options{Kinds: []Kind{Exact, Renamed, Gapped}})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(res.Hits, tt.want) {
				t.Errorf("got %+v, want %+v", res.Hits, tt.want)
			}
		})
	}
	res, err := Match(context.Background(), files, golang("snippet", "x"), Options{})
	if err != nil || len(res.Hits) != 0 || len(res.Gaps) != 1 || res.Tokens > 2 {
		t.Errorf("one word: got %+v, %v, want a gap and no hit", res, err)
	}
	res, err = Match(context.Background(), files, golang("snippet", spell("total += x * i", "total = total + x*i", "x < limit", "limit > x")), Options{Kinds: []Kind{Semantic}})
	if err != nil || len(res.Hits) != 2 || res.Hits[0].Func != "Sum" || res.Hits[0].Similarity < 0.6 || res.Hits[0].Share >= 1 {
		t.Errorf("semantic: got %+v, %v, want the function in two files", res, err)
	}
}

func FuzzFind(f *testing.F) {
	f.Add("a b c", uint64(1), 3)
	f.Add(sum, uint64(2), 400)
	f.Add("(((((((((((((((((((((((((((((((((((", uint64(3), 50)
	f.Add("def f():\n\treturn '''\n\n'''\n", uint64(4), 90)
	f.Fuzz(func(t *testing.T, text string, seed uint64, n int) {
		random := rand.New(rand.NewPCG(seed, 0))
		words := strings.Fields(text + " x = ( ) { } func if")
		var made strings.Builder
		for range min(max(n, 0), 2000) {
			made.WriteString(words[random.IntN(min(len(words), 64))])
			made.WriteByte(" \n"[random.IntN(2)])
		}
		languages := []code.Language{code.Go, code.Python, code.Rust, code.Other}
		l := languages[seed%4]
		files := []*code.File{lex.Parse("a", l, text), lex.Parse("b", l, made.String()), lex.Parse("c", l, made.String()+text)}
		for _, file := range files {
			if len(file.Funcs) == 0 && len(file.Tokens) > 0 {
				file.Funcs = []code.Func{{Symbol: code.Symbol{First: 1, Last: 1 + strings.Count(file.Text, "\n")}, Label: "f", End: len(file.Tokens)}}
			}
		}
		res, err := Find(context.Background(), files, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if res.Lines > res.Code || res.Percentage < 0 || res.Percentage > 100 {
			t.Errorf("%d of %d lines, %v %%", res.Lines, res.Code, res.Percentage)
		}
		for _, c := range res.Clones {
			if len(c.Places) < 2 || !(c.Similarity > 0.6 && c.Similarity <= 1) || c.Tokens < 50 {
				t.Errorf("clone %+v", c)
			}
			for _, p := range c.Places {
				if p.First < 1 || p.Last < p.First+4 || p.Path == "" {
					t.Errorf("place %+v", p)
				}
			}
		}
		if _, err := Match(context.Background(), files[:2], files[2], Options{}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHashesAreNotTrusted checks that two texts with the same hash are not an exact clone.
func TestHashesAreNotTrusted(t *testing.T) {
	seen := make(map[uint32]string)
	salt := family(code.Go)
	for i := 0; ; i++ {
		name := fmt.Sprintf("name%d", i)
		h := hash(name, salt)
		if other := seen[h]; other != "" {
			a := golang("a.go", spell("total", name))
			same := find(t, Options{Kinds: []Kind{Exact}}, a, golang("b.go", spell("total", name)))
			res := find(t, Options{Kinds: []Kind{Exact}}, a, golang("b.go", spell("total", other)))
			if len(same.Clones) != 1 || len(res.Clones) != 0 {
				t.Errorf("%s and %s: got %+v, want no clone; with one name %+v, want one", name, other, res.Clones, same.Clones)
			}
			return
		}
		seen[h] = name
	}
}

// TestLanguagesAreApart checks that the same text in two languages is not a clone, unless
// they share their syntax.
func TestLanguagesAreApart(t *testing.T) {
	text := "a = b(c, d)\n"
	for range 30 {
		text += "e = f + g * 2\n"
	}
	for _, tt := range []struct {
		a, b code.Language
		want bool
	}{{code.Rust, code.Java, false}, {code.Other, code.Java, false}, {code.C, code.CPP, true}, {code.TypeScript, code.JavaScript, true}, {code.Shell, code.Shell, true}} {
		res := find(t, Options{MinTokens: 150}, lex.Parse("a", tt.a, text), lex.Parse("b", tt.b, text))
		got := slices.ContainsFunc(res.Clones, func(c Clone) bool { return c.Places[0].Path != c.Places[1].Path })
		if got != tt.want {
			t.Errorf("%q and %q: a clone of both %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

// TestListIsCut checks that the lines of all clones are counted if there are more clones
// than a result lists.
func TestListIsCut(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	var a, b strings.Builder
	for i := range maxClones + 1 {
		var block strings.Builder
		for k := range 50 {
			block.WriteByte(byte('a' + random.IntN(26)))
			block.WriteByte(" \n"[k%10/9])
		}
		fmt.Fprintf(&a, "%s+\n", block.String())
		fmt.Fprintf(&b, "%s%s\n", block.String(), strings.Repeat("-", 1+i%2))
	}
	res := find(t, Options{Kinds: []Kind{Exact}}, lex.Parse("a", code.Other, a.String()), lex.Parse("b", code.Other, b.String()))
	if len(res.Clones) != maxClones || res.Lines != 2*5*(maxClones+1) {
		t.Errorf("got %d clones and %d lines, want %d and %d", len(res.Clones), res.Lines, maxClones, 2*5*(maxClones+1))
	}
	if want := []code.Gap{{Field: "clones", Reason: "there are more clones than are listed; the largest ones are listed, and the numbers of lines count all"}}; !slices.Equal(res.Gaps, want) {
		t.Errorf("gaps: got %+v, want %+v", res.Gaps, want)
	}
}

// TestBudgetEnds checks that align searches no gaps after the end of its budget.
func TestBudgetEnds(t *testing.T) {
	f := golang("a.go", sum)
	r, _ := newRow(context.Background(), []*code.File{f, golang("b.go", spell("	log.Printf", "	wait(1)\n	log.Printf"))}, 1)
	half := span{r.begin[1], r.begin[2]}
	p := pair{0, half.begin, 40}
	g := r.newAligner(0.5, len(r.canon))
	if x := g.align(p, span{0, half.begin}, half); x.gaps != 1 || x.a.end != half.begin {
		t.Errorf("with a budget: got %+v, want one gap and all of the file", x)
	}
	g.steps = 10
	if x := g.align(p, span{0, half.begin}, half); x.gaps != 0 || g.steps > 0 {
		t.Errorf("without a budget: got %+v and %d steps, want no gap and none", x, g.steps)
	}
}

// TestLongGapsEndAClone checks that a gap is at most maxGap lines long.
func TestLongGapsEndAClone(t *testing.T) {
	for lines, want := range map[int]bool{1: true, maxGap: true, maxGap + 2: false} {
		more := strings.Repeat("	wait()\n", lines)
		res := find(t, Options{Kinds: []Kind{Gapped}, Threshold: 0.5}, golang("a.go", sum), golang("b.go", spell("	log.Printf", more+"	log.Printf")))
		got := len(res.Clones) == 1 && res.Clones[0].Places[1].Last == 15+lines
		if got != want {
			t.Errorf("%d more lines: got %+v, want a clone of all: %v", lines, res.Clones, want)
		}
	}
}

// TestShortestRun checks that the shortest run that is found has MinTokens tokens, wherever
// it begins.
func TestShortestRun(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	const operators = "+-*%&|^!<>=?:;,."
	for length, want := range map[int]int{49: 0, 50: 1, 51: 1} {
		for before := range 18 {
			kind := []Kind{Exact, Renamed}[before%2]
			var run strings.Builder
			for i := range length {
				run.WriteByte(operators[random.IntN(len(operators))])
				run.WriteByte(" \n"[i%8/7])
			}
			a, b := strings.Repeat("( ", 3)+run.String()+"\n(", strings.Repeat(") ", before/2)+run.String()+"\n)"
			res := find(t, Options{Kinds: []Kind{kind}}, lex.Parse("a", code.Other, a), lex.Parse("b", code.Other, b))
			if len(res.Clones) != want || want > 0 && res.Clones[0].Tokens != length {
				t.Errorf("%s, %d tokens behind %d others: got %+v, want %d clones", kind, length, before/2, res.Clones, want)
			}
		}
	}
}

// TestPlacesStayInTheirFiles checks that a place ends with its file, even if the next file
// continues like the copy.
func TestPlacesStayInTheirFiles(t *testing.T) {
	other := spell("package a", "package b", "Sum", "Add", "total", "n")
	for _, kind := range []Kind{Exact, Renamed, Gapped} {
		res := find(t, Options{Kinds: []Kind{kind}}, golang("a.go", sum), golang("b.go", other), golang("c.go", sum+other))
		for _, c := range res.Clones {
			for _, p := range c.Places {
				if p.Path != "c.go" && p.Last > 15 {
					t.Errorf("%s: place %+v behind the end of the file", kind, p)
				}
			}
		}
		if res.Lines != 4*13 {
			t.Errorf("%s: %d lines in clones, want all %d", kind, res.Lines, 4*13)
		}
	}
}

// TestGapsKeepTheThreshold checks that a clone is not extended over a gap if its similarity
// would fall below the threshold.
func TestGapsKeepTheThreshold(t *testing.T) {
	f := golang("a.go", sum)
	r, _ := newRow(context.Background(), []*code.File{f, golang("b.go", spell("	log.Printf", "	wait(1)\n	log.Printf", "package a", "package a; import b"))}, 1)
	half := span{r.begin[1], r.begin[2]}
	for floor, gaps := range map[float64]int{0.5: 1, 0.999: 0} {
		if x := r.newAligner(floor, len(r.canon)).align(pair{20, half.begin + 23, 20}, span{0, half.begin}, half); x.gaps != gaps {
			t.Errorf("floor %v: got %+v, want %d gaps", floor, x, gaps)
		}
	}
}

// TestNestedFunctions checks that a function is not a clone of a function inside it.
func TestNestedFunctions(t *testing.T) {
	body := sum[strings.Index(sum, "	total := 0"):strings.LastIndex(sum, "}")]
	text := "package a\n\nfunc f() {\n	g(func(list []int, limit int) (int, error) {\n" + body + "	})\n}\n"
	f := golang("a.go", text)
	inner := slices.IndexFunc(f.Tokens[f.Funcs[0].Start+1:], func(t code.Token) bool { return f.Of(t) == "func" }) + f.Funcs[0].Start + 1
	f.Funcs = append(f.Funcs[:1:1], code.Func{Symbol: code.Symbol{First: 4, Last: 14}, Label: "f.func1", Start: inner, End: len(f.Tokens) - 3})
	for _, kind := range []Kind{Semantic, Gapped} {
		if res := find(t, Options{Kinds: []Kind{kind}}, f); len(res.Clones) != 0 || res.Functions != 2 {
			t.Errorf("%s, %d functions: got %+v, want no clone of two", kind, res.Functions, res.Clones)
		}
	}
}

// TestLinesOfStrings checks that the last line of a long string is the line of its end.
func TestLinesOfStrings(t *testing.T) {
	text := strings.TrimSuffix(sum, "\n") + "\nvar s = `\n\nx\n`\n"
	res := find(t, Options{Kinds: []Kind{Exact}}, golang("a.go", text), golang("b.go", text))
	if len(res.Clones) != 1 || res.Clones[0].Places[0].Last != 19 || res.Code != 2*17 {
		t.Errorf("got %+v, want lines 1 to 19, 17 of them with code", res)
	}
}
