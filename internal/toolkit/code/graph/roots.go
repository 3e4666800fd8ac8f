package graph

import (
	"path"
	"slices"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// standing returns the highest confidence that nothing reaches a function whose name no
// text contains, the reason if it is not High, and whether the function is reached in any
// case.
func standing(f *code.File, fn *code.Func) (most Confidence, why string, root bool) {
	if fn.Test && f.Language != code.Go || entry(f, fn) || marked(f, fn) || handed(f, fn) {
		return High, "", true
	}
	switch {
	case f.Language == code.Go && strings.Contains("/"+f.Path, "/testdata/"):
		return Low, "it is data of tests, which go does not build", false
	case fn.Exported && f.Language == code.Go && private(f):
		most, why = Medium, "it is exported, but only to this project"
	case fn.Exported && (f.Language == code.C || f.Language == code.CPP):
		most, why = Medium, "it is not static: other files can be linked with it"
	case fn.Exported:
		return Low, "it is exported, and other projects can call it", f.Language == code.Go && fn.Owner != ""
	case fn.Owner != "" && f.Language != code.Go && based(f, fn):
		return Low, "it is a method, and the base of its class can call it", false
	case fn.Owner != "" && f.Language != code.Go:
		most, why = Medium, "it is a method, and a base, a trait or an interface can lead to it"
	case conditional(f):
		most, why = Medium, "its file is compiled only under a condition"
	case f.Language == code.Go && slices.ContainsFunc(f.Imports, func(im code.Import) bool { return im.Path == "C" }):
		most, why = Medium, "its file contains C"
	case generated(f):
		most, why = Medium, "its file is generated"
	case f.Language == code.Java || f.Language == code.Shell || f.Language == code.CPP:
		most, why = Medium, "the language has other ways to reach it"
	default:
		return High, "", false
	}
	// An exported method of Go can implement an interface of any package, and reflection
	// can find it.
	return most, why, f.Language == code.Go && fn.Owner != "" && fn.Exported
}

// entry reports whether the rules of the language start a function.
func entry(f *code.File, fn *code.Func) bool {
	switch f.Language {
	case code.Go:
		if strings.HasSuffix(f.Path, "_test.go") && fn.Owner == "" {
			for _, begins := range []string{"Test", "Benchmark", "Fuzz", "Example"} {
				if strings.HasPrefix(fn.Name, begins) {
					return true
				}
			}
		}
		return fn.Owner == "" && (fn.Name == "init" || fn.Name == "main") || fn.Name == "_"
	case code.Rust, code.C, code.CPP, code.Java, code.Shell:
		return fn.Name == "main" || fn.Name == fn.Owner || strings.HasPrefix(fn.Name, "~") || strings.HasPrefix(fn.Name, "operator")
	case code.Python:
		return strings.HasPrefix(fn.Name, "__") && strings.HasSuffix(fn.Name, "__")
	case code.TypeScript, code.TSX, code.JavaScript:
		return fn.Name == "constructor" || fn.Name == "" || strings.HasPrefix(fn.Name, "(") || strings.HasPrefix(fn.Name, "<")
	case code.Other:
	}
	return false
}

// marked reports whether the text before a function lets foreign code call it: an
// attribute, a decorator, an annotation, or extern.
func marked(f *code.File, fn *code.Func) bool {
	if f.Language == code.Go {
		return false
	}
	header := f.Tokens[min(max(fn.Start, 0), len(f.Tokens)):min(max(fn.End, 0), len(f.Tokens))]
	for _, t := range header[:min(len(header), 30)] { // the tokens up to the function's name
		word := f.Of(t)
		if word == "extern" || word == "@" || word == "#" || strings.HasPrefix(word, "@") || word == "native" {
			return true
		}
		if word == fn.Name || word == "{" {
			break
		}
	}
	// Next are the tokens before the first token, back to the end of the declaration before
	// the function.
	depth := 0
	for i := min(fn.Start, len(f.Tokens)) - 1; i >= max(0, fn.Start-200); i-- {
		word := f.Of(f.Tokens[i])
		switch word {
		case ")", "]":
			depth++
		case "(", "[":
			depth--
		}
		if depth <= 0 && (word == "#" || word == "@" || word == "extern" || f.Tokens[i].Kind == code.Name && strings.HasPrefix(word, "@")) {
			return true
		}
		if depth == 0 && (word == "}" || word == ";" || word == "{") {
			return false
		}
		if f.Language == code.Python && f.Tokens[i].Kind == code.Newline && i > 0 && depth == 0 && !decorated(f, i) {
			return false
		}
	}
	return false
}

// decorated reports whether the line of Python that ends at a token begins with @.
func decorated(f *code.File, end int) bool {
	depth := 0
	for i := end - 1; i >= max(0, end-200); i-- {
		switch f.Of(f.Tokens[i]) {
		case ")", "]", "}":
			depth++
		case "(", "[", "{":
			depth--
		}
		if k := f.Tokens[i].Kind; depth == 0 && (k == code.Newline || k == code.Indent || k == code.Dedent) {
			return i+1 < end && strings.HasPrefix(f.Of(f.Tokens[i+1]), "@")
		}
	}
	return false
}

// based reports whether the type of a method has a base.
func based(f *code.File, fn *code.Func) bool {
	return slices.ContainsFunc(f.Types, func(t code.Symbol) bool {
		return t.Name == fn.Owner && len(t.Bases) > 0 && t.First <= fn.First && fn.Last <= t.Last
	})
}

// handed reports whether a function of a script is a value and not a declaration: a member
// of an object, an argument, or the value of an assignment. Any code that has the value can
// call the function.
func handed(f *code.File, fn *code.Func) bool {
	if script := f.Language == code.TypeScript || f.Language == code.TSX || f.Language == code.JavaScript; !script || fn.Owner != "" {
		return false
	}
	if fn.Kind == "method" {
		return true
	}
	for i := min(fn.Start, len(f.Tokens)) - 1; i >= 0; i-- {
		word := f.Of(f.Tokens[i])
		if f.Tokens[i].Kind == code.Comment || word == "async" {
			continue
		}
		switch word {
		case "=", "(", ",", ":", "?", "[", "=>", "&&", "||", "??", "!", "...", "return", "new", "void", "typeof", "await", "yield":
			return true
		}
		break
	}
	return false
}

// private reports whether no other module can import the package of a file of Go.
func private(f *code.File) bool {
	dir := "/" + dirOf(f.Path) + "/"
	return strings.Contains(dir, "/internal/") || packageName(f) == "main" || strings.HasSuffix(f.Path, "_test.go")
}

// conditional reports whether a file is compiled only under a condition.
func conditional(f *code.File) bool {
	if f.Language != code.Go {
		return false
	}
	if condition(f) != "" {
		return true
	}
	name := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.Path), ".go"), "_test")
	parts := strings.Split(name, "_")
	return len(parts) > 1 && platform(parts[len(parts)-1])
}

// platform reports whether the end of a file's name is a GOOS or a GOARCH.
func platform(name string) bool {
	switch name {
	case "aix", "android", "darwin", "dragonfly", "freebsd", "hurd", "illumos", "ios", "js", "linux", "nacl", "netbsd",
		"openbsd", "plan9", "solaris", "wasip1", "windows", "zos",
		"386", "amd64", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64", "ppc64le", "riscv64", "s390x", "sparc64", "wasm":
		return true
	}
	return false
}

// generated reports whether a comment at the beginning of a file states that the file is
// generated.
func generated(f *code.File) bool {
	for _, t := range f.Tokens[:min(len(f.Tokens), 20)] {
		if t.Kind != code.Comment {
			continue
		}
		if c := f.Of(t); strings.Contains(c, "@generated") || strings.Contains(c, "DO NOT EDIT") {
			return true
		}
	}
	return false
}

// outward returns the names of functions that a file makes reachable from outside: by the
// directives of Go for the linker, for C and for WebAssembly, and by assembly.
func outward(f *code.File) (names []string) {
	if ext := path.Ext(f.Path); ext == ".s" || ext == ".S" || ext == ".asm" {
		for i, part := range strings.Split(f.Text, "·") {
			if i > 0 {
				end := strings.IndexFunc(part, notInName)
				if end < 0 {
					end = len(part)
				}
				names = append(names, part[:end])
			}
		}
		return names
	}
	if f.Language != code.Go {
		return nil
	}
	for _, t := range f.Tokens {
		if t.Kind != code.Comment {
			continue
		}
		said := f.Of(t)
		if !strings.HasPrefix(said, "//go:") && !strings.HasPrefix(said, "//export") {
			continue
		}
		w := strings.Fields(said)
		if len(w) < 2 {
			continue
		}
		switch w[0] {
		case "//go:linkname", "//export", "//go:wasmexport", "//go:cgo_export_dynamic", "//go:cgo_export_static":
			for _, name := range w[1:] {
				names = append(names, name[strings.LastIndexByte(name, '.')+1:])
			}
		}
	}
	return names
}
