package code

import "slices"

// Plain is a language without a lexer of its own. The lines, comments and tokens of its
// files are known, but no functions. The fields after Programs state how the language
// writes comments and strings.
type Plain struct {
	Language Language
	Names    []string // extensions with their dot and whole names of its files, in lower case
	Programs []string // programs that run its scripts

	Line    []string    // marks that begin a comment that ends with its line
	Spaced  bool        // such a comment begins only after white space or at the start of a line
	Block   [][2]string // marks that begin and end a comment over several lines
	Nested  bool        // such comments can contain each other
	AtStart bool        // both marks of such a comment stand at the start of a line
	Except  []string    // operators that begin like a comment or a string
	Quotes  string      // quotes of strings that end with their line at the latest
	Char    bool        // an apostrophe quotes one character, or is an operator
	Raw     [][2]string // marks that begin and end a string over several lines, without escapes

	Fold bool // keywords are the same in upper and lower case
	Data bool // a language for data: no word of a clone can differ
}

// Marks that many languages share.
const (
	tripleQuote      = `"""`
	tripleApostrophe = `'''`
	never            = "\n\x00" // ends a comment that continues to the end of the file
)

// plains is the one table of the languages without a lexer. It is ordered by the marks
// of their comments.
var plains = []Plain{
	// Comments as in C.
	{Language: "csharp", Names: []string{".cs", ".csx"}, Line: []string{"//"}, Block: [][2]string{{"/*", "*/"}}, Quotes: `"`, Char: true, Raw: [][2]string{{tripleQuote, tripleQuote}, {`@"`, `"`}}},
	{Language: "kotlin", Names: []string{".kt", ".kts"}, Programs: []string{"kotlin"}, Line: []string{"//"}, Block: [][2]string{{"/*", "*/"}}, Nested: true, Quotes: `"`, Char: true, Raw: [][2]string{{tripleQuote, tripleQuote}}},
	{Language: "swift", Names: []string{".swift"}, Programs: []string{"swift"}, Line: []string{"//"}, Block: [][2]string{{"/*", "*/"}}, Nested: true, Quotes: `"`, Raw: [][2]string{{tripleQuote, tripleQuote}}},
	{Language: "scala", Names: []string{".scala", ".sbt"}, Programs: []string{"scala"}, Line: []string{"//"}, Block: [][2]string{{"/*", "*/"}}, Nested: true, Quotes: `"`, Char: true, Raw: [][2]string{{tripleQuote, tripleQuote}}},
	{Language: "groovy", Names: []string{".groovy", ".gradle", "jenkinsfile"}, Programs: []string{"groovy"}, Line: []string{"//"}, Block: [][2]string{{"/*", "*/"}}, Quotes: `"'`, Raw: [][2]string{{tripleQuote, tripleQuote}, {tripleApostrophe, tripleApostrophe}}},
	{Language: "dart", Names: []string{".dart"}, Programs: []string{"dart"}, Line: []string{"//"}, Block: [][2]string{{"/*", "*/"}}, Nested: true, Quotes: `"'`, Raw: [][2]string{{tripleQuote, tripleQuote}, {tripleApostrophe, tripleApostrophe}}},
	{Language: "objective-c", Names: []string{".m", ".mm"}, Line: []string{"//"}, Block: [][2]string{{"/*", "*/"}}, Quotes: `"`, Char: true},
	{Language: "zig", Names: []string{".zig"}, Line: []string{"//"}, Quotes: `"`, Char: true},
	{Language: "solidity", Names: []string{".sol"}, Line: []string{"//"}, Block: [][2]string{{"/*", "*/"}}, Quotes: `"'`},
	{Language: "verilog", Names: []string{".sv", ".svh", ".vh"}, Line: []string{"//"}, Block: [][2]string{{"/*", "*/"}}, Quotes: `"`},
	{Language: "shader", Names: []string{".glsl", ".vert", ".frag", ".hlsl", ".wgsl", ".metal"}, Line: []string{"//"}, Block: [][2]string{{"/*", "*/"}}},
	{Language: "protobuf", Names: []string{".proto"}, Line: []string{"//"}, Block: [][2]string{{"/*", "*/"}}, Quotes: `"'`, Data: true},
	{Language: "php", Names: []string{".php", ".phtml"}, Programs: []string{"php"}, Line: []string{"//", "#"}, Block: [][2]string{{"/*", "*/"}}, Except: []string{"#["}, Quotes: `"'`},
	{Language: "hcl", Names: []string{".tf", ".hcl"}, Line: []string{"//", "#"}, Block: [][2]string{{"/*", "*/"}}, Quotes: `"`, Data: true},
	{Language: "nix", Names: []string{".nix"}, Line: []string{"#"}, Block: [][2]string{{"/*", "*/"}}, Quotes: `"`, Raw: [][2]string{{"''", "''"}}},
	{Language: "css", Names: []string{".css"}, Block: [][2]string{{"/*", "*/"}}, Quotes: `"'`, Data: true},
	{Language: "sass", Names: []string{".scss", ".sass", ".less"}, Line: []string{"//"}, Spaced: true, Block: [][2]string{{"/*", "*/"}}, Quotes: `"'`, Data: true},
	// Comments as in a shell.
	{Language: "ruby", Names: []string{".rb", ".rake", ".gemspec", ".ru", "gemfile", "rakefile", "vagrantfile"}, Programs: []string{"ruby"}, Line: []string{"#"}, Block: [][2]string{{"=begin", "\n=end"}, {"__END__\n", never}}, AtStart: true, Except: []string{"#{", `?"`, "?'", "?#"}, Quotes: `"'`},
	{Language: "perl", Names: []string{".pl", ".pm"}, Programs: []string{"perl"}, Line: []string{"#"}, Block: [][2]string{{"=pod", "\n=cut"}, {"=head", "\n=cut"}, {"=over", "\n=cut"}, {"=item", "\n=cut"}, {"=begin", "\n=cut"}, {"=for", "\n=cut"}, {"=encoding", "\n=cut"}, {"__END__\n", never}}, AtStart: true, Except: []string{"$#", `$"`, "$'"}, Quotes: `"'`},
	{Language: "r", Names: []string{".r"}, Programs: []string{"rscript"}, Line: []string{"#"}, Quotes: `"'`},
	{Language: "julia", Names: []string{".jl"}, Programs: []string{"julia"}, Line: []string{"#"}, Block: [][2]string{{"#=", "=#"}}, Nested: true, Quotes: `"`, Char: true, Raw: [][2]string{{tripleQuote, tripleQuote}}},
	{Language: "elixir", Names: []string{".ex", ".exs"}, Programs: []string{"elixir"}, Line: []string{"#"}, Except: []string{"#{", `?"`, "?'", "?#"}, Quotes: `"'`, Raw: [][2]string{{tripleQuote, tripleQuote}, {tripleApostrophe, tripleApostrophe}}},
	{Language: "nim", Names: []string{".nim", ".nims"}, Line: []string{"#"}, Block: [][2]string{{"#[", "]#"}}, Nested: true, Quotes: `"`, Char: true, Raw: [][2]string{{tripleQuote, tripleQuote}}},
	{Language: "powershell", Names: []string{".ps1", ".psm1", ".psd1"}, Programs: []string{"pwsh"}, Line: []string{"#"}, Block: [][2]string{{"<#", "#>"}}, Raw: [][2]string{{`@"`, "\n\"@"}, {"@'", "\n'@"}, {`"`, `"`}, {"'", "'"}}, Fold: true},
	{Language: "awk", Names: []string{".awk"}, Programs: []string{"awk", "gawk", "mawk"}, Line: []string{"#"}, Quotes: `"`},
	{Language: "graphql", Names: []string{".graphql", ".gql"}, Line: []string{"#"}, Quotes: `"`, Raw: [][2]string{{tripleQuote, tripleQuote}}, Data: true},
	{Language: "makefile", Names: []string{"makefile", "gnumakefile", ".mk"}, Programs: []string{"make"}, Line: []string{"#"}, Spaced: true, Data: true},
	{Language: "dockerfile", Names: []string{"dockerfile", "containerfile", ".dockerfile"}, Line: []string{"#"}, Spaced: true, Data: true},
	{Language: "cmake", Names: []string{"cmakelists.txt", ".cmake"}, Line: []string{"#"}, Block: [][2]string{{"#[[", "]]"}}, Quotes: `"`, Data: true},
	{Language: "yaml", Names: []string{".yaml", ".yml"}, Line: []string{"#"}, Spaced: true, Data: true},
	{Language: "toml", Names: []string{".toml"}, Line: []string{"#"}, Quotes: `"'`, Raw: [][2]string{{tripleQuote, tripleQuote}, {tripleApostrophe, tripleApostrophe}}, Data: true},
	// Comments with hyphens.
	{Language: "sql", Names: []string{".sql"}, Line: []string{"--"}, Block: [][2]string{{"/*", "*/"}}, Raw: [][2]string{{"'", "'"}, {`"`, `"`}}, Fold: true},
	{Language: "lua", Names: []string{".lua"}, Programs: []string{"lua", "luajit"}, Line: []string{"--"}, Block: [][2]string{{"--[[", "]]"}, {"--[=[", "]=]"}}, Quotes: `"'`, Raw: [][2]string{{"[[", "]]"}, {"[=[", "]=]"}}},
	{Language: "haskell", Names: []string{".hs"}, Programs: []string{"runhaskell", "runghc"}, Line: []string{"--"}, Block: [][2]string{{"{-", "-}"}}, Nested: true, Except: []string{"-->"}, Quotes: `"`, Char: true},
	{Language: "elm", Names: []string{".elm", ".purs"}, Line: []string{"--"}, Block: [][2]string{{"{-", "-}"}}, Nested: true, Quotes: `"`, Char: true, Raw: [][2]string{{tripleQuote, tripleQuote}}},
	{Language: "ada", Names: []string{".adb", ".ads"}, Line: []string{"--"}, Quotes: `"`, Char: true, Fold: true},
	{Language: "vhdl", Names: []string{".vhd", ".vhdl"}, Line: []string{"--"}, Quotes: `"`, Char: true, Fold: true},
	// Comments of other kinds.
	{Language: "ocaml", Names: []string{".ml", ".mli"}, Programs: []string{"ocaml"}, Block: [][2]string{{"(*", "*)"}}, Nested: true, Except: []string{"(*)"}, Quotes: `"`, Char: true, Raw: [][2]string{{"{|", "|}"}}},
	{Language: "fsharp", Names: []string{".fs", ".fsi", ".fsx"}, Line: []string{"//"}, Block: [][2]string{{"(*", "*)"}}, Nested: true, Except: []string{"(*)"}, Quotes: `"`, Char: true, Raw: [][2]string{{tripleQuote, tripleQuote}, {`@"`, `"`}}},
	{Language: "pascal", Names: []string{".pas", ".dpr"}, Line: []string{"//"}, Block: [][2]string{{"{", "}"}, {"(*", "*)"}}, Except: []string{"{$"}, Quotes: "'", Fold: true},
	{Language: "lisp", Names: []string{".lisp", ".lsp", ".el", ".scm", ".ss", ".rkt"}, Programs: []string{"guile", "racket", "sbcl"}, Line: []string{";"}, Block: [][2]string{{"#|", "|#"}}, Nested: true, Except: []string{`#\"`, `#\;`, `?\"`, `?\;`}, Quotes: `"`},
	{Language: "clojure", Names: []string{".clj", ".cljs", ".cljc"}, Line: []string{";"}, Except: []string{`\"`, `\;`}, Quotes: `"`},
	{Language: "erlang", Names: []string{".erl", ".hrl"}, Programs: []string{"escript"}, Line: []string{"%"}, Except: []string{`$"`, "$%", "$'"}, Quotes: `"'`},
	{Language: "fortran", Names: []string{".f90", ".f95", ".f03", ".f08"}, Line: []string{"!"}, Quotes: `"'`, Fold: true},
	{Language: "visual-basic", Names: []string{".vb", ".bas"}, Line: []string{"'"}, Quotes: `"`, Fold: true},
	{Language: "html", Names: []string{".html", ".htm"}, Block: [][2]string{{"<!--", "-->"}}, Data: true},
	{Language: "vue", Names: []string{".vue", ".svelte"}, Line: []string{"//"}, Spaced: true, Block: [][2]string{{"<!--", "-->"}, {"/*", "*/"}}, Data: true},
}

// Plain returns how a language without a lexer of its own writes comments and strings;
// nil for other languages. The caller must not change it.
func (l Language) Plain() *Plain {
	for i := range plains {
		if plains[i].Language == l {
			return &plains[i]
		}
	}
	return nil
}

// plainName returns the language whose files have an extension or a name, both in lower
// case, or [Other].
func plainName(base, ext string) Language {
	for i := range plains {
		for _, name := range plains[i].Names {
			if name == base || name == ext {
				return plains[i].Language
			}
		}
	}
	return Other
}

// plainProgram returns the language whose scripts a program runs, or [Other].
func plainProgram(name string) Language {
	for i := range plains {
		if slices.Contains(plains[i].Programs, name) {
			return plains[i].Language
		}
	}
	return Other
}
