package clone

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

// planted is a function that is copied in different ways.
type planted struct {
	language code.Language
	text     string
}

// planting returns 250 functions of each language: Go functions from the standard library,
// and random functions in Rust, Python and TypeScript. They are always the same with one
// release of Go.
func planting(tb testing.TB) []planted {
	tb.Helper()
	random := rand.New(rand.NewPCG(22, 1))
	all := stdlibFunctions(tb, random, 250)
	for _, l := range []code.Language{code.Rust, code.Python, code.TypeScript} {
		for range 250 {
			g := writer{random: random, language: l}
			all = append(all, planted{l, g.function()})
		}
	}
	return all
}

// stdlibFunctions returns functions of 14 to 60 lines from Go's standard library.
func stdlibFunctions(tb testing.TB, random *rand.Rand, n int) []planted {
	tb.Helper()
	src := testenv.GoSource(tb)
	var found []planted
	for _, tree := range []string{"net/http", "go", "encoding", "text", "image", "archive", "compress", "database", "html"} {
		err := filepath.WalkDir(filepath.Join(src, tree), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f := lex.Parse(path, code.Go, string(text))
			for _, fn := range f.Funcs {
				if lines := fn.Last - fn.First + 1; lines >= 14 && lines <= 60 && strings.HasPrefix(f.Text[f.Tokens[fn.Start].Start:], "func ") {
					found = append(found, planted{code.Go, "package p\n\n" + f.Text[f.Tokens[fn.Start].Start:f.Tokens[fn.End-1].End] + "\n"})
				}
			}
			return nil
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	if len(found) < n {
		tb.Fatalf("%d functions of Go's standard library, want at least %d", len(found), n)
	}
	random.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	return found[:n]
}

// file parses a copy. If the lexer finds no functions in its language, the whole copy is
// one function.
func (p planted) file(path, text string) *code.File {
	f := lex.Parse(path, p.language, text)
	if len(f.Funcs) == 0 {
		f.Funcs = []code.Func{{Symbol: code.Symbol{Name: "f", First: 1, Last: strings.Count(text, "\n")}, Label: "f", End: len(f.Tokens)}}
	}
	return f
}

// writer writes a random function.
type writer struct {
	random   *rand.Rand
	language code.Language
	out      strings.Builder
	lines    int
}

func (w *writer) one(of ...string) string { return of[w.random.IntN(len(of))] }

func (w *writer) line(depth int, text string) {
	fmt.Fprintf(&w.out, "%s%s\n", strings.Repeat("    ", depth), text)
	w.lines++
}

// function returns a random function of at least 14 lines.
func (w *writer) function() string {
	name, arguments := w.one("load", "merge", "route", "paint", "parse", "visit", "fold", "pack")+strconv.Itoa(w.random.IntN(1000)), []string{}
	for range w.random.IntN(4) + 1 {
		arguments = append(arguments, w.name())
	}
	rust, python := w.language == code.Rust, w.language == code.Python
	if rust {
		w.line(0, "fn "+name+"("+strings.Join(arguments, ": &str, ")+": usize) -> Option<usize> {")
	} else if python {
		w.line(0, "def "+name+"("+strings.Join(arguments, ", ")+"):")
	} else {
		w.line(0, "function "+name+"("+strings.Join(arguments, ": string, ")+": number): number {")
	}
	for want := 14 + w.random.IntN(40); w.lines < want; {
		w.statement(1)
	}
	w.line(1, "return "+w.expression(2)+w.end())
	if w.language != code.Python {
		w.line(0, "}")
	}
	return w.out.String()
}

func (w *writer) end() string {
	if w.language == code.Python {
		return ""
	}
	return ";"
}

func (w *writer) name() string {
	return w.one("item", "total", "index", "left", "right", "node", "queue", "state", "offset", "limit", "buffer", "entry", "depth", "score", "key", "value")
}

// expression returns a random expression, nested at most depth levels deep.
func (w *writer) expression(depth int) string {
	if depth == 0 {
		return w.one(w.name(), w.name(), strconv.Itoa(w.random.IntN(500)), w.name()+"."+w.name(), `"`+w.name()+`"`)
	}
	switch w.random.IntN(8) {
	case 0, 1:
		return w.expression(depth-1) + " " + w.one("+", "-", "*", "/", "%", "&", "|", "<<") + " " + w.expression(depth-1)
	case 2:
		return w.name() + "(" + w.expression(depth-1) + ")"
	case 3:
		return w.name() + "." + w.name() + "(" + w.expression(depth-1) + ", " + w.expression(0) + ")"
	case 4:
		return w.name() + "[" + w.expression(depth-1) + "]"
	case 5:
		return "[" + w.expression(0) + ", " + w.expression(depth-1) + "]"
	case 6:
		return "-" + w.name() + "." + w.name()
	}
	return w.expression(0)
}

func (w *writer) condition() string {
	c := w.name() + " " + w.one("<", ">", "<=", ">=", "==", "!=") + " " + w.expression(w.random.IntN(2))
	if w.random.IntN(3) == 0 {
		c += map[bool]string{true: w.one(" and ", " or "), false: w.one(" && ", " || ")}[w.language == code.Python] + w.name()
	}
	return c
}

// block writes a head and some statements in its block.
func (w *writer) block(depth int, head string) {
	if w.language == code.Python {
		w.line(depth, head+":")
	} else {
		w.line(depth, head+" {")
	}
	for range 1 + w.random.IntN(3) {
		w.statement(depth + 1)
	}
	if w.language != code.Python {
		w.line(depth, "}")
	}
}

func (w *writer) statement(depth int) {
	kind := w.random.IntN(12)
	if depth > 3 {
		kind = w.random.IntN(6)
	}
	switch kind {
	case 0, 1:
		head := map[code.Language]string{code.Rust: w.one("let ", "let mut "), code.Python: "", code.TypeScript: w.one("const ", "let ")}[w.language]
		w.line(depth, head+w.name()+" = "+w.expression(1+w.random.IntN(3))+w.end())
	case 2:
		w.line(depth, w.name()+" "+w.one("+=", "-=", "*=")+" "+w.expression(w.random.IntN(2))+w.end())
	case 3:
		w.line(depth, w.name()+"."+w.name()+"("+w.expression(w.random.IntN(3))+")"+w.end())
	case 4:
		w.line(depth, w.name()+"["+w.expression(0)+"] = "+w.expression(2)+w.end())
	case 5:
		w.line(depth, w.name()+"."+w.name()+" = "+w.expression(2)+w.end())
	case 6, 7:
		if w.language == code.TypeScript {
			w.block(depth, "if ("+w.condition()+")")
		} else {
			w.block(depth, "if "+w.condition())
		}
	case 8:
		if w.language == code.TypeScript {
			w.block(depth, "for (const "+w.name()+" of "+w.expression(1)+")")
		} else {
			w.block(depth, "for "+w.name()+" in "+w.expression(1))
		}
	case 9:
		if w.language == code.TypeScript {
			w.block(depth, "while ("+w.condition()+")")
		} else {
			w.block(depth, "while "+w.condition())
		}
	case 10:
		if w.language == code.TypeScript {
			w.line(depth, "if ("+w.condition()+") {")
		} else {
			w.line(depth, "if "+w.condition()+map[bool]string{true: ":", false: " {"}[w.language == code.Python])
		}
		w.line(depth+1, "return "+w.expression(1)+w.end())
		if w.language != code.Python {
			w.line(depth, "}")
		}
	default:
		w.line(depth, w.one("log", "emit", "notify", "check")+"("+w.expression(1)+", "+w.expression(0)+", "+w.expression(1)+")"+w.end())
	}
}

// sample returns a random statement in the language of p.
func (p planted) sample(random *rand.Rand, depth string) string {
	w := writer{random: random, language: p.language}
	if p.language == code.Go {
		w.language = code.TypeScript
	}
	text := w.name() + "." + w.name() + "(" + w.expression(2) + ")" + w.end()
	if random.IntN(2) == 0 {
		text = w.name() + " = " + w.expression(2) + w.end()
	}
	return depth + text
}

// edit returns the text with each token replaced by what change returns for it.
func (p planted) edit(change func(f *code.File, i int) string) string {
	f := lex.Parse("x", p.language, p.text)
	var out strings.Builder
	at := int32(0)
	for i, t := range f.Tokens {
		out.WriteString(f.Text[at:t.Start])
		out.WriteString(change(f, i))
		at = t.End
	}
	out.WriteString(f.Text[at:])
	return out.String()
}

// laidOut returns a copy with other blanks and comments.
func (p planted) laidOut(random *rand.Rand) string {
	comment := "//"
	if p.language == code.Python {
		comment = "#"
	}
	var out strings.Builder
	inString := strings.Contains(p.text, "`") // in a raw string, blanks and line ends are not layout
	for line := range strings.Lines(p.text) {
		line = strings.TrimSuffix(line, "\n")
		if inString {
			out.WriteString(line + "\n")
			continue
		}
		body := strings.TrimLeft(line, " \t")
		if random.IntN(4) == 0 {
			out.WriteString("\n" + comment + " this is said twice\n")
		}
		out.WriteString(strings.Repeat("  ", len(line)-len(body)) + body)
		if random.IntN(4) == 0 {
			out.WriteString("   " + comment + " note " + strconv.Itoa(random.IntN(9)))
		}
		out.WriteString("\n")
	}
	return out.String()
}

// renamed returns a copy with other names and literals.
func (p planted) renamed(random *rand.Rand) string {
	names := make(map[string]string)
	return p.edit(func(f *code.File, i int) string {
		text := f.Of(f.Tokens[i])
		kind := f.Tokens[i].Kind
		if kind == code.Name {
			if slices.Contains([]string{"nil", "true", "false", "None", "True", "False", "null", "self"}, text) {
				return text
			}
			if names[text] == "" {
				names[text] = "n" + strconv.Itoa(len(names)) + string(rune('a'+random.IntN(26)))
			}
			return names[text]
		}
		if kind == code.Number {
			return strconv.Itoa(random.IntN(1000))
		}
		if kind == code.String && strings.HasPrefix(text, `"`) && strings.HasSuffix(text, `"`) && len(text) > 2 && !strings.HasPrefix(text, `"""`) {
			return `"other"`
		}
		return text
	})
}

// changed returns a copy in which n lines of the body were replaced or removed, or have a
// new line before them.
func (p planted) changed(random *rand.Rand, n int) string {
	lines := strings.Split(strings.TrimSuffix(p.text, "\n"), "\n")
	first := 1
	if p.language == code.Go {
		first = 3
	}
	for range n {
		i := first + random.IntN(len(lines)-first-1)
		depth := lines[i][:len(lines[i])-len(strings.TrimLeft(lines[i], " \t"))]
		// A line that opens or closes a block stays. It can only get a new line before it.
		plain := !strings.ContainsAny(lines[i], "{}") && !strings.HasSuffix(lines[i], ":") && strings.TrimSpace(lines[i]) != ""
		switch what := random.IntN(3); {
		case plain && what == 0 && p.language != code.Python:
			lines = slices.Delete(lines, i, i+1)
		case plain && what <= 1:
			lines[i] = p.sample(random, depth)
		default:
			lines = slices.Insert(lines, i, p.sample(random, depth))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// rewritten returns a copy in which idioms are written in another way, and names and
// literals are other ones.
func (p planted) rewritten(random *rand.Rand) string {
	text := p.edit(func(f *code.File, i int) string {
		at := func(k int) string {
			if k < 0 || k >= len(f.Tokens) {
				return ""
			}
			return f.Of(f.Tokens[k])
		}
		text := at(i)
		if random.IntN(4) == 0 { // leave a quarter of the tokens as they are
			return text
		}
		simple := func(k int) bool {
			return k >= 0 && k < len(f.Tokens) && (f.Tokens[k].Kind == code.Name || f.Tokens[k].Kind == code.Number)
		}
		// The sides of a < b can be swapped if both are single tokens.
		turn := func(op int) bool {
			if !simple(op-1) || !simple(op+1) || !slices.Contains([]string{"if", "while", "&&", "||", "and", "or"}, at(op-2)) || !slices.Contains([]string{"{", "&&", "||", ":", "and", "or"}, at(op+2)) {
				return false
			}
			return slices.Contains([]string{"<", ">", "<=", ">="}, at(op)) && f.Tokens[op].Start%2 == 0
		}
		other := map[string]string{"<": ">", ">": "<", "<=": ">=", ">=": "<="}
		switch {
		case turn(i + 1):
			return at(i + 2)
		case turn(i):
			return other[text]
		case turn(i - 1):
			return at(i - 2)
		case text == "++":
			return " += 1"
		case text == "--":
			return " -= 1"
		case slices.Contains([]string{"+=", "-=", "*="}, text) && simple(i-1):
			return "= " + at(i-1) + " " + text[:1]
		case text == "===":
			return "=="
		case text == "!==":
			return "!="
		case text == "const" && p.language == code.TypeScript:
			return "let"
		case text == "let" && p.language == code.TypeScript:
			return "var"
		}
		return text
	})
	// Put brackets around what is returned, and leave out semicolons.
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		body := strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(body, "return "); ok && !strings.ContainsAny(rest, "{}`") && !strings.Contains(rest, ", ") && random.IntN(2) == 0 {
			lines[i] = strings.Replace(line, rest, "("+strings.TrimSuffix(rest, ";")+")", 1)
		} else if p.language == code.TypeScript && random.IntN(2) == 0 {
			lines[i] = strings.TrimSuffix(line, ";")
		}
	}
	return planted{p.language, strings.Join(lines, "\n")}.renamed(random)
}

// covers reports whether places have at least 60 % of the lines of a file with one
// function.
func covers(places []Place, f *code.File) bool {
	covered, all := 0, 0
	for line := range strings.Count(f.Text, "\n") {
		if f.Language == code.Go && line < 2 {
			continue
		}
		all++
		if slices.ContainsFunc(places, func(p Place) bool { return p.First <= line+1 && line+1 <= p.Last }) {
			covered++
		}
	}
	return covered*10 >= all*6
}

// found returns the number of functions whose copy is found together with its original.
func found(res Result, copies []*code.File, original func(i int) string) int {
	index := make(map[string]int)
	for i, c := range copies {
		index[c.Path] = i
	}
	places := make([][]Place, len(copies))
	for _, c := range res.Clones {
		for _, p := range c.Places {
			if i, ok := index[p.Path]; ok && slices.ContainsFunc(c.Places, func(q Place) bool { return q.Path == original(i) }) {
				places[i] = append(places[i], p)
			}
		}
	}
	n := 0
	for i := range copies {
		if covers(places[i], copies[i]) {
			n++
		}
	}
	return n
}

// TestPlantedClonesAreFound checks that Find finds nearly all copies of a thousand
// functions if it looks only for their kind of clone.
func TestPlantedClonesAreFound(t *testing.T) {
	functions := planting(t)
	path := func(i int) string { return fmt.Sprintf("original/%d", i) }
	var originals []*code.File
	for i, p := range functions {
		originals = append(originals, p.file(path(i), p.text))
	}
	for _, tt := range []struct {
		name string
		kind Kind
		copy func(planted, *rand.Rand) string
		want float64
	}{
		{"layout and comments", Exact, planted.laidOut, 0.98},
		{"names and literals", Renamed, planted.renamed, 0.98},
		{"one line", Gapped, func(p planted, r *rand.Rand) string { return p.changed(r, 1) }, 0.95},
		{"names and two lines", Gapped, func(p planted, r *rand.Rand) string { return planted{p.language, p.changed(r, 2)}.renamed(r) }, 0.95},
		{"four lines", Gapped, func(p planted, r *rand.Rand) string { return p.changed(r, 4) }, 0.95},
		{"idioms and names", Semantic, planted.rewritten, 0.95},
	} {
		t.Run(tt.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(22, 2))
			var copies []*code.File
			for i, p := range functions {
				copies = append(copies, p.file(fmt.Sprintf("copy/%d", i), tt.copy(p, random)))
			}
			res, err := Find(context.Background(), slices.Concat(originals, copies), Options{Kinds: []Kind{tt.kind}})
			if err != nil {
				t.Fatal(err)
			}
			n := found(res, copies, path)
			t.Logf("%s alone: %d of %d", tt.kind, n, len(functions))
			if float64(n) < tt.want*float64(len(functions)) {
				t.Errorf("%s clones: found %d of %d copies, want %.0f %%", tt.kind, n, len(functions), 100*tt.want)
			}
			if t.Failed() || testing.Verbose() {
				byLanguage := make(map[code.Language]int)
				for i, c := range copies {
					only := func(int) string { return path(i) }
					if found(res, []*code.File{c}, only) == 1 {
						byLanguage[c.Language]++
					}
				}
				t.Logf("by language: %v", byLanguage)
			}
		})
	}
}

// TestFewFalsePairs checks that few pairs of functions that are not copies of each other
// are called clones.
func TestFewFalsePairs(t *testing.T) {
	functions := planting(t)
	var files []*code.File
	for i, p := range functions {
		files = append(files, p.file(fmt.Sprint(i), p.text))
	}
	res, err := Find(context.Background(), files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	pairs := make(map[[2]string]Kind)
	for _, c := range res.Clones {
		for i, p := range c.Places {
			for _, q := range c.Places[:i] {
				if p.Path == q.Path {
					continue
				}
				a, _ := strconv.Atoi(p.Path)
				b, _ := strconv.Atoi(q.Path)
				if covers([]Place{p}, files[a]) && covers([]Place{q}, files[b]) {
					pairs[[2]string{p.Path, q.Path}] = c.Kind
				}
			}
		}
	}
	all := 4 * 250 * 249 / 2 // number of pairs of functions in the same language
	t.Logf("%d of %d pairs (%.3f %%)", len(pairs), all, 100*float64(len(pairs))/float64(all))
	if float64(len(pairs)) > 0.003*float64(all) {
		t.Errorf("%d of %d pairs of functions are called clones, want 0.3 %% at most", len(pairs), all)
	}
}
