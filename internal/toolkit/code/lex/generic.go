package lex

import (
	"path"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// style is how a family of languages writes comments and strings.
type style struct {
	line   []string    // what begins a comment that ends with its line
	block  [][2]string // what begins and ends a comment over lines
	quotes string      // quotes of strings that end with their line at the latest
	long   string      // quotes of strings over lines, without escapes
	triple bool        // three quotes begin a string over lines
	word   bool        // a line comment begins only behind white space, as # does in a shell
}

// parseOther makes tokens of any text, and finds no functions in it.
func parseOther(f *code.File) {
	f.Tokens = generic(f.Text, styleOf(f.Path, f.Language))
	if f.Language != code.Other {
		gap(f, "functions", "no lexer of its own for "+string(f.Language))
	}
}

// generic splits a text into tokens as a family of languages writes them.
func generic(text string, look style) []code.Token {
	s := newTokenizer(text)
	for s.at < len(text) {
		c := text[s.at]
		if isBlank(c) {
			if c == '\n' {
				s.line++
			}
			s.at++
			continue
		}
		if end := look.comment(s); end > s.at {
			s.take(code.Comment, end)
			continue
		}
		switch {
		case strings.IndexByte(look.quotes, c) >= 0:
			if look.triple && s.peek(1) == c && s.peek(2) == c {
				s.take(code.String, s.past(s.at+3, text[s.at:s.at+3]))
				continue
			}
			s.take(code.String, s.quoted(s.at, false))
		case strings.IndexByte(look.long, c) >= 0:
			s.take(code.String, s.past(s.at+1, text[s.at:s.at+1]))
		case startsName(c):
			s.take(code.Name, s.name(s.at))
		case isDigit(c):
			s.take(code.Number, s.number(s.at))
		default:
			s.take(code.Operator, s.at+1)
		}
	}
	return s.tokens
}

// comment returns the end of the comment that begins where s is; s.at for none.
func (look style) comment(s *tokenizer) int {
	for _, b := range look.block {
		if s.has(b[0]) {
			return s.past(s.at+len(b[0]), b[1])
		}
	}
	for _, mark := range look.line {
		if s.has(mark) && (!look.word || s.at == 0 || isBlank(s.text[s.at-1]) || s.text[s.at-1] == ';') {
			return s.lineEnd(s.at)
		}
	}
	return s.at
}

// styleOf returns how a file writes comments and strings, by its language and its
// name. One that is not known has no comments, and no strings: in prose, an
// apostrophe begins none.
func styleOf(name string, language code.Language) style {
	base := strings.ToLower(path.Base(name))
	slash := style{line: []string{"//"}, block: [][2]string{{"/*", "*/"}}, quotes: `"'`}
	hash := style{line: []string{"#"}, quotes: `"'`}
	switch language {
	case code.Go:
		slash.long = "`"
		return slash
	case code.TypeScript, code.TSX, code.JavaScript:
		slash.long = "`"
		return slash
	case code.Python:
		hash.triple = true
		return hash
	case code.Shell:
		hash.word = true
		return hash
	case code.Rust:
		slash.quotes = `"` // ' begins a lifetime, too
		return slash
	case code.Java:
		slash.triple = true
		return slash
	case code.C, code.CPP:
		return slash
	case code.Other:
	}
	switch base {
	case "makefile", "gnumakefile", "dockerfile", "containerfile", "justfile", "cmakelists.txt", ".gitignore", ".gitattributes", ".dockerignore", ".editorconfig", ".env":
		hash.word = true
		hash.quotes = ""
		return hash
	case "jenkinsfile", "go.mod", "go.work":
		return slash
	case "gemfile", "rakefile", "build", "build.bazel", "workspace":
		return hash
	}
	switch strings.TrimPrefix(path.Ext(base), ".") {
	case "cs", "kt", "kts", "swift", "scala", "sc", "groovy", "gradle", "dart", "zig", "php", "proto", "m", "mm", "d", "v", "sv", "svh", "glsl", "hlsl", "wgsl", "cu", "sol", "jsonc", "json5", "hjson", "odin", "vala", "hx", "as", "pony", "thrift", "avdl", "rego", "bicep", "cue", "jsonnet", "libsonnet":
		return slash
	case "css":
		slash.line = nil
		return slash
	case "scss", "less", "sass":
		return slash
	case "toml":
		hash.triple = true
		return hash
	case "rb", "pl", "pm", "t", "r", "jl", "ex", "exs", "nix", "cr", "nim", "tcl", "awk", "sed", "gd", "coffee", "bzl", "star", "raku", "robot", "feature", "graphql", "gql", "ps1", "psm1":
		return hash
	case "yml", "yaml", "mk", "cmake", "conf", "cfg", "properties", "service", "socket", "timer", "desktop", "dockerfile":
		hash.word = true
		hash.quotes = "" // an apostrophe is plain text there
		return hash
	case "tf", "hcl":
		slash.line = []string{"//", "#"}
		return slash
	case "ini":
		return style{line: []string{";", "#"}, word: true}
	case "sql":
		return style{line: []string{"--"}, block: [][2]string{{"/*", "*/"}}, quotes: `"'`}
	case "lua":
		return style{block: [][2]string{{"--[[", "]]"}}, line: []string{"--"}, quotes: `"'`}
	case "hs", "elm", "purs", "idr", "agda", "dhall":
		return style{line: []string{"--"}, block: [][2]string{{"{-", "-}"}}, quotes: `"`}
	case "adb", "ads", "vhd", "vhdl":
		return style{line: []string{"--"}, quotes: `"`}
	case "ml", "mli", "fs", "fsi", "fsx", "pas", "pp", "dpr":
		return style{line: []string{"//"}, block: [][2]string{{"(*", "*)"}}, quotes: `"`}
	case "lisp", "lsp", "el", "clj", "cljs", "cljc", "edn", "scm", "ss", "rkt", "asm", "s", "wat", "ll":
		return style{line: []string{";"}, quotes: `"`}
	case "tex", "sty", "bib", "erl", "hrl", "pro", "mat":
		return style{line: []string{"%"}}
	case "html", "htm", "xml", "xhtml", "svg", "xsd", "xsl", "vue", "svelte", "astro", "md", "markdown", "plist", "csproj", "pom":
		return style{block: [][2]string{{"<!--", "-->"}}}
	case "f90", "f95", "f03", "f08":
		return style{line: []string{"!"}, quotes: `"'`}
	case "vim":
		return style{line: []string{`"`}, word: true}
	case "bat", "cmd":
		return style{line: []string{"::", "REM ", "rem ", "@REM ", "@rem "}, word: true}
	case "json", "ndjson":
		return style{quotes: `"`}
	}
	return style{}
}
