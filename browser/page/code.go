package page

import (
	"strings"

	"golang.org/x/net/html"
)

// gutters are classes of line numbers and of other additions to a block of code that are
// not code.
var gutters = []string{
	"lineno", "linenos", "linenodiv", "line-number", "line-numbers", "line-numbers-rows", "linenumber", "linenumbers", "gutter", "lnt", "ln",
	"blob-num", "hljs-ln-numbers", "rouge-gutter", "react-code-line-number", "lines-number", "code-line-number", "gl", "lntd-num",
	"copy", "copybtn", "copy-button", "code-copy", "clipboard", "clipboard-copy", "btn-copy", "tooltip", "src-run",
}

// codeTables replaces tables with blocks of code, if a highlighter uses them to put line
// numbers next to the code, or each line into a row.
func codeTables(root *html.Node) {
	for _, table := range named(root, "table") {
		if table.Parent == nil {
			continue
		}
		number, code := gutterTable(table)
		if !number {
			continue
		}
		pre := element("pre")
		pre.Attr = append(pre.Attr, html.Attribute{Key: "class", Val: languageClass(table)})
		if len(code) == 1 {
			if inner := first(code[0], func(n *html.Node) bool { return is(n, "pre") }); inner != nil {
				setAttr(pre, "class", languageClass(inner))
			}
		}
		lines := make([]string, 0, len(code))
		for _, td := range code {
			lines = append(lines, strings.TrimSuffix(codeText(td), "\n"))
		}
		pre.AppendChild(textNode(strings.Join(lines, "\n")))
		top := table
		if p := within(table, nil, "pre"); p != nil {
			top = p // some themes of chroma put the table into a pre
		}
		replace(top, pre)
	}
}

// gutterTable reports whether a table has cells of line numbers, and returns the other
// cells.
func gutterTable(table *html.Node) (number bool, code []*html.Node) {
	rows := named(table, "tr")
	for _, tr := range rows {
		cells := named(tr, "td")
		if len(cells) < 2 || len(cells) > 3 {
			return false, nil
		}
		last := cells[len(cells)-1]
		gutter := hasClass(cells[0], gutters...) || hasAttr(cells[0], "data-line-number") || first(cells[0], func(n *html.Node) bool { return hasClass(n, gutters...) }) != nil && isNumbers(cells[0])
		shown := first(last, func(n *html.Node) bool { return is(n, "pre") }) != nil || hasClass(last, "code", "blob-code", "hljs-ln-code", "rouge-code", "lntd")
		switch {
		case gutter:
			number = true
		case shown && isNumbers(cells[0]):
			number = true
		case len(rows) == 1:
			return false, nil
		}
		code = append(code, last)
	}
	return number, code
}

// isNumbers reports whether an element holds numbers only.
func isNumbers(n *html.Node) bool {
	text := rawTextOf(n)
	found := false
	for _, r := range text {
		switch {
		case r >= '0' && r <= '9':
			found = true
		case r == ' ' || r == '\n' || r == '\r' || r == '\t' || r == '\u00a0' || r == '.':
		default:
			return false
		}
	}
	return found
}

// codeBlocks gives every block of code the same form: a pre with only its text, and the
// language as a class.
func codeBlocks(root *html.Node) {
	codeTables(root)
	walk(root, func(n *html.Node) bool {
		switch {
		case is(n, "pre") && memoParts(n):
			return false
		case is(n, "pre", "listing", "xmp"):
			codeBlock(n)
			return false
		case is(n, "div") && hasClass(n, "fragment") && first(n, func(n *html.Node) bool { return hasClass(n, "line") }) != nil:
			for _, tip := range all(n, func(n *html.Node) bool { return hasClass(n, "ttc") }) {
				remove(tip) // a tooltip of doxygen for a name
			}
			n.Data, n.DataAtom = "pre", atomOf("pre")
			codeBlock(n)
			return false
		case is(n, "code") && within(n, nil, "p", "li", "td") == nil && strings.Contains(rawTextOf(n), "\n") && languageOf(n) != "":
			n.Data, n.DataAtom = "pre", atomOf("pre")
			codeBlock(n)
			return false
		}
		return true
	})
}

func codeBlock(pre *html.Node) {
	if numbersBeside(pre) {
		remove(pre)
		return
	}
	pre.Data, pre.DataAtom = "pre", atomOf("pre")
	class := languageClass(pre)
	text := codeText(pre)
	if strings.TrimSpace(text) == "" && first(pre, func(n *html.Node) bool { return is(n, "img") }) != nil {
		pre.Data, pre.DataAtom = "div", atomOf("div")
		return
	}
	empty(pre)
	pre.AppendChild(textNode(text))
	pre.Attr = nil
	if class != "" {
		setAttr(pre, "class", class)
	}
}

// numbersBeside reports whether a pre contains the line numbers of the next pre.
func numbersBeside(pre *html.Node) bool {
	if !isNumbers(pre) || pre.Parent == nil || !strings.Contains(strings.TrimSpace(rawTextOf(pre)), "\n") {
		return false
	}
	return hasClass(pre.Parent, gutters...) || hasClass(pre, gutters...)
}

// codeText returns the text of a block of code, without line numbers and buttons. Elements
// that show as lines become lines.
func codeText(n *html.Node) string {
	var b strings.Builder
	newline := func() {
		if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
	}
	var visit func(*html.Node)
	visit = func(n *html.Node) {
		switch {
		case n.Type == html.TextNode:
			b.WriteString(n.Data)
			return
		case is(n, "br"):
			b.WriteByte('\n')
			return
		case n.Type != html.ElementNode || is(n, "script", "style", "button", "template", "svg") || hasClass(n, gutters...):
			return
		case is(n, "span") && hasAttr(n, "data-lineno"), is(n, "a") && hasClass(n, "headerlink", "anchor"):
			return
		}
		block := is(n, "div", "p", "li", "tr", "ol", "ul", "table") || is(n, "code") && hasClass(n.Parent, "shcb-language", "code-lines")
		if block && b.Len() > 0 {
			newline()
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			visit(c)
		}
		if block {
			newline()
		}
	}
	// b.String copies nothing, so looking at its end for each line is cheap.
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		visit(c)
	}
	text := strings.ReplaceAll(b.String(), "\r\n", "\n")
	text = strings.ReplaceAll(text, "\u00a0", " ")
	text = strings.TrimPrefix(text, "\n") // the parser of a browser does the same
	return strings.TrimRight(text, " \t\n")
}

// languageClass returns the class for the language of a block of code, or "" if the
// language is not known.
func languageClass(pre *html.Node) string {
	if lang := languageOf(pre); lang != "" {
		return "language-" + lang
	}
	return ""
}

// languageOf returns the language of a block of code: from its own attributes, or else from
// those of the code element in it, or else from those of the nearest elements around it.
func languageOf(pre *html.Node) string {
	if lang := languageHere(pre); lang != "" {
		return lang
	}
	if code := first(pre, func(n *html.Node) bool { return is(n, "code") }); code != nil {
		if lang := languageHere(code); lang != "" {
			return lang
		}
	}
	p := pre.Parent
	for range 6 {
		if p == nil || is(p, "body", "main", "article", "section") || len(named(p, "pre")) > 2 {
			return ""
		}
		if lang := languageHere(p); lang != "" {
			return lang
		}
		p = p.Parent
	}
	return ""
}

func languageHere(n *html.Node) string {
	for _, key := range []string{"data-lang", "data-language", "data-code-lang", "data-code-language", "lang-name", "data-highlight-language"} {
		if lang := languageName(attr(n, key)); lang != "" {
			return lang
		}
	}
	if lang := languageName(attr(n, "lang")); known.has(lang) && is(n, "pre", "code") {
		return lang // lang is meant for languages that people speak, but some pages name the programming language there
	}
	words := strings.Fields(attr(n, "class"))
	for i, w := range words {
		for _, prefix := range []string{"language-", "lang-", "highlight-source-", "highlight-text-", "source-", "brush:", "brush-", "src-", "code-", "highlight-", "listingblock-", "hl-"} {
			rest, ok := strings.CutPrefix(w, prefix)
			if !ok {
				continue
			}
			if rest == "" && prefix == "brush:" && i+1 < len(words) {
				rest = strings.TrimSuffix(words[i+1], ";")
			}
			general := prefix == "src-" || prefix == "code-" || prefix == "highlight-" || prefix == "source-" || prefix == "brush-" || prefix == "listingblock-" || prefix == "hl-"
			if lang := languageName(rest); lang != "" && (!general || known.has(lang)) {
				return lang
			}
		}
	}
	for i, w := range words {
		w = strings.ToLower(w)
		// pandoc, highlight.js, rouge and rustdoc name the language as a separate word of
		// the class.
		marked := i > 0 && (words[0] == "sourceCode" || words[0] == "hljs" || words[0] == "highlight" || words[0] == "code" || words[0] == "src" || words[0] == "chroma" || words[0] == "prettyprint" || words[0] == "example-wrap" || words[0] == "programlisting")
		if lang := languageName(w); known.has(lang) && (marked || is(n, "pre", "code") && len(words) <= 3) {
			return lang
		}
	}
	return ""
}

// languageName returns the usual name of a language, or "" for a word that does not name
// one.
func languageName(s string) string {
	s = strings.ToLower(strings.Trim(strings.TrimSpace(s), "{}.;'\""))
	if i := strings.IndexAny(s, ",:;{[ ("); i >= 0 {
		s = s[:i]
	}
	switch s {
	case "", "none", "text", "plain", "plaintext", "txt", "default", "notranslate", "nohighlight", "no-highlight", "code", "raw", "output", "literal", "auto", "unknown", "block", "toolbar", "copy", "wrapper", "container", "lines", "line", "inline", "lang", "highlight":
		return ""
	case "python3", "ipython3", "ipython", "py3", "py":
		return "python"
	case "pycon3", "ipythonconsole":
		return "pycon"
	case "golang":
		return "go"
	case "c++", "source-c++":
		return "cpp"
	case "shell-session", "shellsession", "sh-session":
		return "console"
	case "js+":
		return "js"
	}
	if len(s) > 20 {
		return ""
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte("+#-_.", c) < 0 {
			return ""
		}
	}
	return s
}

// known contains the languages that are accepted even if the class does not say that the
// word names a language.
var known = set(`ada apache asm awk bash bat batch c c# clojure cmake cmd coffeescript console cpp crystal cs csharp css csv cython d dart
	diff docker dockerfile elixir elm erlang fish fortran fsharp gherkin git go gradle graphql groovy haskell hcl html http ini
	java javascript js json json5 jsonc jsx julia kotlin latex less lisp llvm lua make makefile markdown matlab md mdx mermaid
	nasm nginx nim nix objc objectivec ocaml pascal perl php postgresql powershell proto protobuf pycon python r racket rb regex rest rst
	ruby rust sass scala scheme scss sh shell sml solidity sql svelte svg swift tcl terraform tex toml ts tsx typescript v vb vbnet verilog
	vhdl vim vue wasm xml yaml yml zig zsh`)
