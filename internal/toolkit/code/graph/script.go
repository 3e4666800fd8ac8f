package graph

import (
	"encoding/json"
	"path"
	"strings"
)

// project is what a tsconfig.json or a deno.json states about imports.
type project struct {
	base  string              // directory of paths that are not relative; empty if not set
	paths map[string][]string // patterns with at most one star
}

// readProject reads the settings, which may contain comments and trailing commas. It
// returns nil if it cannot read them.
func readProject(text string) *project {
	var raw struct {
		CompilerOptions struct {
			BaseURL string              `json:"baseUrl"`
			Paths   map[string][]string `json:"paths"`
		} `json:"compilerOptions"`
		Imports map[string]string `json:"imports"`
	}
	if len(text) > 1<<20 || json.Unmarshal([]byte(plainJSON(text)), &raw) != nil {
		return nil
	}
	p := &project{base: raw.CompilerOptions.BaseURL, paths: raw.CompilerOptions.Paths}
	if p.paths == nil {
		p.paths = make(map[string][]string)
	}
	for from, to := range raw.Imports { // in an import map, a slash at the end stands for all paths below
		if strings.HasSuffix(from, "/") && strings.HasSuffix(to, "/") {
			from, to = from+"*", to+"*"
		}
		if strings.HasPrefix(to, "./") || strings.HasPrefix(to, "../") {
			p.paths[from] = []string{to}
		}
	}
	return p
}

// plainJSON removes comments and trailing commas from a JSON text.
func plainJSON(text string) string {
	var out strings.Builder
	comma := false // a comma was read and not written yet
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			end := i + 1
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
			if comma {
				out.WriteByte(',')
				comma = false
			}
			out.WriteString(text[i:end])
			i = end - 1
		case strings.HasPrefix(text[i:], "//"):
			n := strings.IndexByte(text[i:], '\n')
			if n < 0 {
				return out.String()
			}
			i += n
		case strings.HasPrefix(text[i:], "/*"):
			n := strings.Index(text[i+2:], "*/")
			if n < 0 {
				return out.String()
			}
			i += n + 3
		case c == ',':
			comma = true
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			out.WriteByte(c)
		default:
			if comma && c != '}' && c != ']' {
				out.WriteByte(',')
			}
			comma = false
			out.WriteByte(c)
		}
	}
	return out.String()
}

// scriptImport finds the file of an import in TypeScript or JavaScript.
func (x *resolver) scriptImport(file, imported string) target {
	dir := dirOf(file)
	if imported == "." || imported == ".." || strings.HasPrefix(imported, "./") || strings.HasPrefix(imported, "../") {
		return x.script(path.Join(dir, imported), Certain)
	}
	for up := dir; ; up = dirOf(up) {
		if p := x.paths[up]; p != nil {
			return x.aliased(up, p, imported)
		}
		if up == "" {
			return target{}
		}
	}
}

// aliased resolves an import by the nearest settings.
func (x *resolver) aliased(dir string, p *project, imported string) target {
	var best []string
	star, long := "", -1
	for pattern, to := range p.paths {
		before, after, wild := strings.Cut(pattern, "*")
		switch {
		case !wild && pattern == imported:
			best, star, long = to, "", 1<<30
		case wild && len(before) > long && len(imported) >= len(before)+len(after) && strings.HasPrefix(imported, before) && strings.HasSuffix(imported, after):
			best, star, long = to, imported[len(before):len(imported)-len(after)], len(before)
		}
	}
	for _, to := range best {
		if t := x.script(path.Join(dir, p.base, strings.Replace(to, "*", star, 1)), Certain); len(t.files) > 0 {
			return t
		}
	}
	if p.base != "" {
		return x.script(path.Join(dir, p.base, imported), Certain)
	}
	return target{}
}

// script finds the file of a module: the path as it is written, the path with an extension,
// a file in a directory of this name, or the TypeScript source of a JavaScript path.
func (x *resolver) script(at string, sure Sure) target {
	if at == ".." || strings.HasPrefix(at, "../") {
		return target{}
	}
	try := []string{at}
	ext := path.Ext(at)
	stem := strings.TrimSuffix(at, ext)
	switch ext {
	case ".js":
		try = append(try, stem+".ts", stem+".tsx", stem+".d.ts", stem+".jsx")
	case ".mjs":
		try = append(try, stem+".mts", stem+".d.mts")
	case ".cjs":
		try = append(try, stem+".cts", stem+".d.cts")
	case ".jsx":
		try = append(try, stem+".tsx")
	}
	for _, e := range []string{".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mts", ".cts", ".mjs", ".cjs"} {
		try = append(try, at+e)
	}
	for _, e := range []string{".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs"} {
		try = append(try, path.Join(at, "index"+e))
	}
	for _, name := range try {
		if i, ok := x.byPath[name]; ok {
			return target{files: []int{i}, sure: sure}
		}
	}
	return target{}
}
