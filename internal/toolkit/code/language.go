package code

import (
	"path"
	"slices"
	"strings"
)

// Language is one that a file is written in.
type Language string

// The languages with functions. Those of [Plain] have lines, comments and tokens only.
const (
	Go         Language = "go"
	Rust       Language = "rust"
	Python     Language = "python"
	TypeScript Language = "typescript"
	TSX        Language = "tsx"
	JavaScript Language = "javascript" // with JSX
	C          Language = "c"
	CPP        Language = "cpp"
	Java       Language = "java"
	Shell      Language = "shell" // functions without metrics
	Other      Language = ""
)

// Lexed returns the languages with functions.
func Lexed() []Language {
	return []Language{Go, Rust, Python, TypeScript, TSX, JavaScript, C, CPP, Java, Shell}
}

// Lexed reports whether a language has a lexer of its own, which finds functions.
func (l Language) Lexed() bool { return slices.Contains(Lexed(), l) }

// Detect returns the language of a file by its name and, where the name does not
// decide, by the beginning of its text.
func Detect(name, head string) Language {
	base := path.Base(name)
	switch ext := strings.ToLower(path.Ext(base)); ext {
	case ".go":
		return Go
	case ".rs":
		return Rust
	case ".py", ".pyi", ".pyw":
		return Python
	case ".ts", ".mts", ".cts":
		if strings.HasPrefix(strings.TrimLeft(head, "\ufeff \t\r\n"), "<") || strings.IndexByte(head, 0) >= 0 {
			return Other // translations of Qt, and films
		}
		return TypeScript
	case ".tsx":
		return TSX
	case ".js", ".mjs", ".cjs", ".jsx", ".es6":
		return JavaScript
	case ".c":
		if path.Ext(base) == ".C" {
			return CPP
		}
		return C
	case ".h":
		if hasClasses(head) {
			return CPP
		}
		return C
	case ".cc", ".cpp", ".cxx", ".c++", ".hh", ".hpp", ".hxx", ".h++", ".ipp", ".tpp", ".inl", ".cppm", ".ixx":
		return CPP
	case ".java":
		return Java
	case ".sh", ".bash", ".bats", ".ksh":
		return Shell
	case ".m":
		if head != "" && !strings.Contains(head, "#import") && !strings.Contains(head, "#include") && !strings.Contains(head, "\n@") {
			return Other // MATLAB
		}
		return plainName("", ext)
	case ".pl":
		if strings.Contains(head, ":-") {
			return Other // Prolog
		}
		return plainName("", ext)
	default:
		if l := plainName(strings.ToLower(base), ext); l != Other {
			return l
		}
	}
	switch base {
	case ".bashrc", ".bash_profile", ".bash_aliases", ".bash_logout", ".profile", "PKGBUILD", "APKBUILD":
		return Shell
	case "SConstruct", "SConscript", "wscript":
		return Python
	}
	return interpreter(head)
}

// hasClasses reports whether a header has a line that only C++ begins so.
func hasClasses(head string) bool {
	for line := range strings.Lines(head) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "class", "namespace", "using", "constexpr", "public:", "private:", "protected:", "template":
			return true
		case "#include":
			if strings.HasPrefix(rest, "<") && !strings.Contains(rest, ".") {
				return true // <vector>
			}
		}
		if strings.HasPrefix(word, "template<") {
			return true
		}
	}
	return false
}

// interpreter returns the language of the program that a script's first line names.
func interpreter(head string) Language {
	line, ok := strings.CutPrefix(head, "#!")
	if !ok {
		return Other
	}
	if end := strings.IndexAny(line, "\r\n"); end >= 0 {
		line = line[:end]
	}
	for i, word := range strings.Fields(line) {
		program := path.Base(word)
		switch {
		case i > 0 && (strings.HasPrefix(word, "-") || strings.Contains(word, "=")):
			continue // an option or a variable for env
		case i == 0 && program == "env":
			continue
		}
		program = strings.TrimRight(program, "0123456789.")
		switch program {
		case "sh", "bash", "dash", "ash", "ksh", "mksh", "bats":
			return Shell
		case "python", "pypy":
			return Python
		case "node", "nodejs":
			return JavaScript
		case "deno", "bun", "ts-node", "tsx":
			return TypeScript
		}
		return plainProgram(strings.ToLower(program))
	}
	return Other
}

// headLines is how many lines of a file may say that a program wrote it.
const headLines = 40

// Generated reports whether a program wrote a file: by its name, or by a mark in a
// comment of its first lines. The marks are those of Go, of protobuf, of C#, of Rust's
// bindgen, of Facebook's tools and of tools that say so in a sentence.
func Generated(name, head string) bool {
	base := path.Base(name)
	lower := strings.ToLower(base)
	for _, end := range []string{".pb.go", ".pb.gw.go", ".pb.cc", ".pb.h", "_pb2.py", "_pb2_grpc.py", "_pb2.pyi", ".min.js", ".min.mjs", ".min.css", ".js.map", ".css.map", ".designer.cs", ".g.dart", ".freezed.dart"} {
		if strings.HasSuffix(lower, end) {
			return true
		}
	}
	switch base {
	case "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "deno.lock", "bun.lock", "Cargo.lock", "go.sum", "go.work.sum", "poetry.lock", "uv.lock", "Pipfile.lock", "pdm.lock", "composer.lock", "Gemfile.lock", "flake.lock", "gradle.lockfile", "mix.lock", "pubspec.lock", "Podfile.lock", "Package.resolved":
		return true
	}
	n := 0
	for line := range strings.Lines(head) {
		if n++; n > headLines {
			break
		}
		if marked(strings.TrimSpace(line)) {
			return true
		}
	}
	return false
}

// marked reports whether a line is a comment that says that a program wrote the file.
func marked(line string) bool {
	said := strings.TrimLeft(line, "/*#;%-<!\" ")
	if len(said) == len(line) && !strings.HasPrefix(line, "@generated") {
		return false // not a comment
	}
	if strings.HasPrefix(said, "Code generated ") && strings.HasSuffix(said, " DO NOT EDIT.") ||
		strings.HasPrefix(said, "auto-generated") || // <auto-generated> of C#
		strings.HasPrefix(said, "@generated") {
		return true
	}
	said = strings.ToLower(said)
	return strings.HasPrefix(said, "generated by the protocol buffer compiler") ||
		strings.HasPrefix(said, "automatically generated by ") ||
		strings.Contains(said, "file is automatically generated") ||
		strings.Contains(said, "file was automatically generated") ||
		strings.Contains(said, "file is auto-generated") ||
		strings.Contains(said, "generated") && strings.Contains(said, "do not edit")
}

// Foreign reports whether a directory of this name holds what others wrote: it is
// part of the project's files, but not of its own code.
func Foreign(dir string) bool {
	switch strings.ToLower(dir) {
	case "vendor", "third_party", "third-party", "thirdparty", "3rdparty", "external", "externals", "extern", "vendored", "_vendor", "_vendored", "vendored-libs":
		return true
	}
	return false
}

// IsTest reports whether a file is one of tests, or of data for them, by its path.
func IsTest(name string) bool {
	dir, base := path.Split(strings.ToLower(name))
	for part := range strings.SplitSeq(dir, "/") {
		switch part {
		case "test", "tests", "testdata", "__tests__", "__mocks__", "spec", "e2e":
			return true
		}
	}
	if class, java := strings.CutSuffix(path.Base(name), ".java"); java && (strings.HasSuffix(class, "Test") || strings.HasSuffix(class, "Tests")) {
		return true
	}
	stem := strings.TrimSuffix(base, path.Ext(base))
	switch path.Ext(stem) {
	case ".test", ".tests", ".spec":
		return true
	}
	return strings.HasPrefix(base, "test_") || strings.HasSuffix(stem, "_test") || strings.HasSuffix(stem, "_tests") || strings.HasSuffix(stem, "_spec") || base == "conftest.py"
}
