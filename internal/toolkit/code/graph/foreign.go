package graph

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
)

// Crossing is a place where one language calls another, or where it declares what another
// language can call.
type Crossing struct {
	Path string
	Line int
	By   string // one of cgo, extern-c, ctypes, cffi, wasm-bindgen, wasm, jni, python-extension, node-addon, deno-ffi
	Name string // name of the function or the library, if the text contains it
	Out  bool   // true if the file calls; false if others can call what it declares
	To   string // path:line of the only function of another language with this name; else empty
}

// maxCrossings is the largest number of crossings that are listed.
const maxCrossings = 10_000

// Foreign finds the places where files call other languages or can be called by them,
// sorted by path and line.
func Foreign(ctx context.Context, files []*code.File) ([]Crossing, []code.Gap, error) {
	var found []Crossing
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		c := crossings{file: f}
		for _, t := range f.Tokens {
			if t.Kind != code.Comment && t.Start < t.End {
				c.toks = append(c.toks, t)
			}
		}
		switch f.Language {
		case code.Go:
			c.golang()
		case code.Rust:
			c.rust()
		case code.C, code.CPP:
			c.clang()
		case code.Python:
			c.python()
		case code.Java:
			c.java()
		case code.TypeScript, code.TSX, code.JavaScript:
			c.script()
		case code.Shell, code.Other:
		}
		found = append(found, c.found...)
	}
	join(files, found)
	order.By(found, func(a, b *Crossing) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), a.Line-b.Line, cmp.Compare(a.By, b.By), cmp.Compare(a.Name, b.Name))
	})
	found = slices.Compact(found)
	if len(found) > maxCrossings {
		return found[:maxCrossings], []code.Gap{{Field: "cross_language", Reason: "more than 10,000 places: the others are left out"}}, nil
	}
	return found, nil, nil
}

// join finds, for each name that is called, the function of another language that has this
// name, if there is exactly one.
func join(files []*code.File, found []Crossing) {
	type place struct {
		file *code.File
		line int
	}
	wanted := make(map[string][]place)
	languages := make(map[string]code.Language)
	for _, c := range found {
		if c.Out && c.Name != "" {
			wanted[c.Name] = nil
		}
	}
	if len(wanted) == 0 {
		return
	}
	for _, f := range files {
		languages[f.Path] = family(f.Language)
		for i := range f.Funcs {
			name := f.Funcs[i].Name
			if strings.HasPrefix(name, "Java_") {
				name = name[strings.LastIndexByte(name, '_')+1:]
			}
			if all, ok := wanted[name]; ok && len(all) < 20 {
				wanted[name] = append(all, place{f, f.Funcs[i].Line})
			}
		}
	}
	for i := range found {
		c := &found[i]
		var others []place
		for _, p := range wanted[c.Name] {
			if family(p.file.Language) != languages[c.Path] {
				others = append(others, p)
			}
		}
		if c.Out && len(others) == 1 {
			c.To = others[0].file.Path + ":" + strconv.Itoa(others[0].line)
		}
	}
}

// crossings reads one file.
type crossings struct {
	file  *code.File
	toks  []code.Token // tokens of the file without comments
	found []Crossing
}

// at returns the text of a token; an empty text for an index outside of the file.
func (c *crossings) at(i int) string {
	if i < 0 || i >= len(c.toks) {
		return ""
	}
	return c.file.Of(c.toks[i])
}

func (c *crossings) add(i int, by, name string, out bool) {
	if len(c.found) <= maxCrossings && len(name) < 500 {
		c.found = append(c.found, Crossing{Path: c.file.Path, Line: int(c.toks[i].Line), By: by, Name: name, Out: out})
	}
}

// argument returns the first argument of the call whose name is the token i, if that
// argument is a string.
func (c *crossings) argument(i int) string {
	if c.at(i+1) != "(" || i+2 >= len(c.toks) || c.toks[i+2].Kind != code.String {
		return ""
	}
	return strings.Trim(strings.TrimLeft(c.at(i+2), "rbuRBUL"), "\"'`")
}

// golang finds cgo and the directives of WebAssembly.
func (c *crossings) golang() {
	cgo := slices.ContainsFunc(c.file.Imports, func(im code.Import) bool { return im.Path == "C" })
	for i := range c.toks {
		if cgo && c.at(i) == "C" && c.at(i+1) == "." && c.at(i-1) != "." && c.toks[i].Kind == code.Name {
			c.add(i, "cgo", c.at(i+2), true)
		}
	}
	for _, t := range c.file.Tokens {
		if t.Kind != code.Comment {
			continue
		}
		w := strings.Fields(c.file.Of(t))
		if len(w) < 2 || len(c.found) > maxCrossings {
			continue
		}
		crossing := Crossing{Path: c.file.Path, Line: int(t.Line)}
		switch w[0] {
		case "//export":
			crossing.By, crossing.Name = "cgo", w[1]
		case "//go:wasmexport":
			crossing.By, crossing.Name = "wasm", w[1]
		case "//go:wasmimport":
			crossing.By, crossing.Name, crossing.Out = "wasm", w[len(w)-1], true
		default:
			continue
		}
		c.found = append(c.found, crossing)
	}
}

// rust finds extern "C", and the attributes that make a function callable.
func (c *crossings) rust() {
	for i := range c.toks {
		switch c.at(i) {
		case "extern":
			name := i + 2
			if abi := c.at(i + 1); !strings.HasPrefix(abi, `"`) {
				name = i + 1
			} else if abi != `"C"` && abi != `"system"` && abi != `"C-unwind"` {
				continue
			}
			switch c.at(name) {
			case "fn":
				c.add(i, "extern-c", c.at(name+1), false)
			case "{":
				c.block(name)
			}
		case "#":
			if c.at(i+1) == "[" {
				c.attribute(i)
			}
		}
	}
}

// block finds the functions that an extern block declares.
func (c *crossings) block(open int) {
	depth := 0
	for i := open; i < len(c.toks); i++ {
		switch c.at(i) {
		case "{":
			depth++
		case "}":
			if depth--; depth == 0 {
				return
			}
		case "fn":
			c.add(i, "extern-c", c.at(i+1), true)
		}
	}
}

// attribute reads an attribute of Rust, and the name of the function after it.
func (c *crossings) attribute(i int) {
	by := ""
	for at := i + 2; at < min(i+12, len(c.toks)) && c.at(at) != "]"; at++ {
		switch c.at(at) {
		case "wasm_bindgen":
			by = "wasm-bindgen"
		case "pyfunction", "pymodule", "pyclass", "pymethods":
			by = "python-extension"
		case "napi":
			by = "node-addon"
		case "no_mangle", "export_name":
			by = "extern-c"
		}
	}
	if by == "" {
		return
	}
	for at := i + 2; at < min(i+40, len(c.toks)); at++ {
		switch c.at(at) {
		case "fn", "struct", "enum", "mod", "static":
			c.add(i, by, c.at(at+1), false)
			return
		case "extern", "impl", "{", ";":
			if c.at(at) != "extern" || c.at(at+2) != "fn" {
				c.add(i, by, "", c.at(at) == "extern")
				return
			}
		}
	}
}

// clang finds extern "C", JNI, Python's extensions and Emscripten.
func (c *crossings) clang() {
	for i := range c.toks {
		word := c.at(i)
		switch {
		case word == "extern" && c.at(i+1) == `"C"`:
			name := ""
			for at := i + 2; at < min(i+20, len(c.toks)) && c.at(at) != "{" && c.at(at) != ";"; at++ {
				if c.at(at+1) == "(" {
					name = c.at(at)
					break
				}
			}
			c.add(i, "extern-c", name, false)
		case c.toks[i].Kind != code.Name:
		case strings.HasPrefix(word, "Java_") && c.at(i+1) == "(":
			c.add(i, "jni", word, false)
		case strings.HasPrefix(word, "PyInit_") && c.at(i+1) == "(":
			c.add(i, "python-extension", strings.TrimPrefix(word, "PyInit_"), false)
		case word == "EMSCRIPTEN_KEEPALIVE" && c.at(i-1) != "define":
			c.add(i, "wasm", "", false)
		}
	}
}

// python finds ctypes and cffi.
func (c *crossings) python() {
	for i := range c.toks {
		switch c.at(i) {
		case "CDLL", "PyDLL", "WinDLL", "OleDLL", "LoadLibrary":
			if c.at(i+1) == "(" {
				c.add(i, "ctypes", c.argument(i), true)
			}
		case "dlopen":
			if c.at(i+1) == "(" && c.at(i-1) == "." {
				c.add(i, "cffi", c.argument(i), true)
			}
		}
	}
}

// java finds native methods and the libraries that are loaded for them.
func (c *crossings) java() {
	for i := range c.toks {
		switch word := c.at(i); {
		case word == "native" && c.toks[i].Kind != code.String:
			for at := i + 1; at < min(i+20, len(c.toks)) && c.at(at) != ";" && c.at(at) != "{"; at++ {
				if c.at(at+1) == "(" {
					c.add(i, "jni", c.at(at), true)
					break
				}
			}
		case (word == "loadLibrary" || word == "load") && c.at(i-1) == "." && c.at(i-2) == "System":
			c.add(i, "jni", c.argument(i), true)
		}
	}
}

// script finds WebAssembly, addons of Node.js and Deno's dlopen.
func (c *crossings) script() {
	for i := range c.toks {
		switch word := c.at(i); {
		case word == "WebAssembly" && c.at(i+1) == ".":
			switch c.at(i + 2) {
			case "instantiate", "instantiateStreaming", "compile", "compileStreaming", "Module", "Instance":
				c.add(i, "wasm", "", true)
			}
		case word == "dlopen" && c.at(i-1) == "." && c.at(i-2) == "Deno":
			c.add(i, "deno-ffi", c.argument(i), true)
		case (word == "require" || word == "import") && strings.HasSuffix(c.argument(i), ".node"):
			c.add(i, "node-addon", c.argument(i), true)
		case c.toks[i].Kind == code.String && strings.HasSuffix(strings.Trim(word, "\"'`"), ".wasm") && (c.at(i-1) == "from" || c.at(i-1) == "import"):
			c.add(i, "wasm", strings.Trim(word, "\"'`"), true)
		}
	}
}
