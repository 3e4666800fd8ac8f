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
	"unicode/utf8"

	"belljar.dev/internal/golden"
)

// These expressions match the forms of code that a module of the page may use. The tests in
// a browser check the joined module as a whole, because they load nothing else.
var (
	imports = regexp.MustCompile(`(?m)^import (\{[^}]*\}|\* as \w+) from '([^']+)'\n`)
	exports = regexp.MustCompile(`(?m)^export (?:async )?(?:function|class|const|let) (\w+)`)
	// no text of the page has two slashes after a space
	comments = regexp.MustCompile("(?s:/\\*\\*.*?\\*/) ?|(?m:^\\s*//.*\\n)|(?m: +// [^'\"`\n]*$)")
	indents  = regexp.MustCompile(`(?m)^\s+`)
	rules    = regexp.MustCompile(`(?s:/\*.*?\*/)|(?m:^\s+)|\n`)
	spaces   = regexp.MustCompile(` *([{};,>]) *|(:) +`) // spaces in a style sheet
	// hard matches what may stand before a regular expression that looks like a division.
	hard = regexp.MustCompile(`\b(?:return|typeof|case|of|in) /`)
)

// painted makes the browser draw the contents of index.html before it evaluates the
// modules, which takes as long as all work before it. If the browser draws no frame, for
// example in a hidden tab, the script waits at most 100 ms.
const painted = "await new Promise(f=>{requestAnimationFrame(()=>setTimeout(f));setTimeout(f,100)})\n"

// sources returns the files of the page, by their paths.
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

// joined returns one script of all modules, each after the modules that it imports. A
// module becomes a function that returns its exports, so that its other names stay private.
func joined(t *testing.T, files map[string]string) string {
	t.Helper()
	const main = "main.js"
	var out strings.Builder
	out.WriteString(painted)
	state := make(map[string]int) // 1 while the imports of a module are written, 2 after that
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
			if strings.Count(line, "`")%2 == 1 || strings.HasPrefix(line, "import ") || strings.Contains(line, " //") {
				t.Fatalf("%s: the form of line %d (without comments) cannot be joined: %s", name, i+1, line)
			}
		}
		if found := hard.FindString(text); found != "" {
			t.Fatalf("%s: give the regular expression behind %q a name; it looks like a division", name, found)
		}
		text = squeezed(indents.ReplaceAllString(text, ""))
		if name == main {
			out.WriteString("{" + text + "}\n") // its names are private too
			return
		}
		fmt.Fprintf(&out, "const %s=(()=>{%sreturn{%s}})()\n", called(name), text, strings.Join(names, ","))
	}
	write(main)
	for name := range files {
		if path.Ext(name) == ".js" && state[name] == 0 {
			t.Errorf("no module imports %s", name)
		}
	}
	return out.String()
}

// squeezed returns a script without the spaces and line breaks that only people need.
func squeezed(text string) string {
	var out strings.Builder
	last := byte('\n') // last character that was written
	for len(text) > 0 {
		n := literal(text, last)
		switch {
		case n > 0:
		case text[0] == ' ' && !needsSpace(last, text[1]), text[0] == '\n' && !needsBreak(last, text[1:]):
			text = text[1:]
			continue
		default:
			n = 1
		}
		out.WriteString(text[:n])
		last, text = text[n-1], text[n:]
	}
	return out.String()
}

// needsSpace reports whether two characters would have another meaning without a space
// between them.
func needsSpace(a, b byte) bool {
	isWord := func(c byte) bool {
		return c == '_' || c == '$' || c >= utf8.RuneSelf || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
	}
	return isWord(a) && isWord(b) || a == b && (a == '+' || a == '-')
}

// needsBreak reports whether a line break after the character last may end a statement that
// would otherwise continue with rest.
func needsBreak(last byte, rest string) bool {
	return !strings.ContainsRune("{([,;\n", rune(last)) && (rest == "" || !strings.ContainsRune("})]", rune(rest[0])))
}

// literal returns the length of the string, template or regular expression at the beginning
// of a text. last is the character before the text. The length is zero if the text does not
// begin with a literal.
func literal(text string, last byte) int {
	quote, class := text[0], false
	if quote != '\'' && quote != '"' && quote != '`' && (quote != '/' || !strings.ContainsRune("(,=:[!&|?{};\n", rune(last))) {
		return 0
	}
	for n := 1; n < len(text); n++ {
		switch c := text[n]; {
		case c == '\\':
			n++
		case quote == '/' && (c == '[' || c == ']'):
			class = c == '['
		case c == quote && !class:
			return n + 1
		case quote == '`' && strings.HasPrefix(text[n:], "${"):
			for depth := 0; n < len(text); n++ {
				if inner := literal(text[n:], 0); inner > 0 {
					n += inner - 1
				}
				if depth += strings.Count(text[n:n+1], "{") - strings.Count(text[n:n+1], "}"); depth == 0 && text[n] == '}' {
					break
				}
			}
		}
	}
	return len(text)
}

// Spaces and line breaks are removed where they have no meaning, and are kept in texts,
// templates and regular expressions.
func TestSqueezed(t *testing.T) {
	for text, want := range map[string]string{
		"const a = b + c\n": "const a=b+c\n", "return x in y\n": "return x in y\n", "a + +b - -c\n": "a+ +b- -c\n", "f('a  b', \"c ' d\", 'e \\' f')\n": "f('a  b',\"c ' d\",'e \\' f')\n",
		"`a  ${b ? `c  ${d}  ` : '} '}  e` + f\n": "`a  ${b ? `c  ${d}  ` : '} '}  e`+f\n", "x = /[/ ' ]  /.test(y) / 2 / z\n": "x=/[/ ' ]  /.test(y)/2/z\n", "(a) => ({b: 1, c})\n": "(a)=>({b:1,c})\n",
		"é = ü of ö\n": "é=ü of ö\n", "a = b / 2, c = 'x  y' / 2\n": "a=b/2,c='x  y'/2\n",
		"f(a,\n[\nb]\n)\ng(() => {\nx = 1\ny = 2\n})\n": "f(a,[b])\ng(()=>{x=1\ny=2})\n", "a = [1]\nb = (2)\nc\n": "a=[1]\nb=(2)\nc\n",
	} {
		if got := squeezed(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// The files in the binary were made from the current sources.
func TestPacked(t *testing.T) {
	files := sources(t)
	for name, want := range map[string]string{"main.js": joined(t, files), "style.css": spaces.ReplaceAllString(rules.ReplaceAllString(files["style.css"], ""), "$1$2")} {
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
