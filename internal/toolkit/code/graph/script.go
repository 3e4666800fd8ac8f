package graph

import (
	"encoding/json"
	"math"
	"path"
	"slices"
	"strings"
)

// importSettings is what a tsconfig.json or jsconfig.json, or a deno.json or deno.jsonc,
// states about imports. Its paths begin at the root of the project.
type importSettings struct {
	based   bool
	base    string              // directory of imports that are not relative, if based
	paths   map[string][]string // paths by patterns, each with at most one star
	from    string              // directory in which paths begin if not based
	imports map[string]string   // paths by patterns, of an import map
	extends []string            // files that say what these settings leave out, the strongest last
}

// readSettings reads the settings of a file in dir, which may contain comments and trailing
// commas. It returns nil if it cannot read them.
func readSettings(dir, text string) *importSettings {
	var raw struct {
		Extends         json.RawMessage `json:"extends"` // a text or a list of texts
		CompilerOptions struct {
			BaseURL string              `json:"baseUrl"`
			Paths   map[string][]string `json:"paths"`
		} `json:"compilerOptions"`
		Imports map[string]string `json:"imports"`
	}
	if len(text) > 1<<20 || json.Unmarshal([]byte(plainJSON(text)), &raw) != nil {
		return nil
	}
	s := &importSettings{
		based: raw.CompilerOptions.BaseURL != "", base: path.Join(dir, raw.CompilerOptions.BaseURL),
		paths: raw.CompilerOptions.Paths, from: dir, imports: make(map[string]string),
	}
	var extends []string
	if json.Unmarshal(raw.Extends, &extends) != nil {
		extends = make([]string, 1)
		_ = json.Unmarshal(raw.Extends, &extends[0]) // if this fails too, nothing is extended
	}
	for _, file := range extends {
		if isRelative(file) { // others are in packages
			s.extends = append(s.extends, path.Join(dir, file))
		}
	}
	for from, to := range raw.Imports { // in an import map, a slash at the end stands for all paths below
		if strings.HasSuffix(from, "/") && strings.HasSuffix(to, "/") {
			from, to = from+"*", to+"*"
		}
		if isRelative(to) {
			s.imports[from] = path.Join(dir, to)
		}
	}
	return s
}

func isRelative(imported string) bool {
	return strings.HasPrefix(imported, "./") || strings.HasPrefix(imported, "../")
}

// add adds what other settings state and s leaves out.
func (s *importSettings) add(other *importSettings) {
	if !s.based {
		s.based, s.base = other.based, other.base
	}
	if s.paths == nil {
		s.paths, s.from = other.paths, other.from
	}
	for from, to := range other.imports {
		if _, ok := s.imports[from]; !ok {
			s.imports[from] = to
		}
	}
}

// maxExtended is the most files that the settings of a directory may extend.
const maxExtended = 16

// scriptSettings reads the settings of a directory. It returns nil if the directory has
// none. If two of its files state the same, the first in this order counts.
func (x *resolver) scriptSettings(dir string) *importSettings {
	var all *importSettings
	left := maxExtended
	for _, name := range []string{"tsconfig.json", "jsconfig.json", "deno.json", "deno.jsonc"} {
		s := x.extended(path.Join(dir, name), &left)
		switch {
		case s == nil:
		case all == nil:
			all = s
		default:
			all.add(s)
		}
	}
	return all
}

// extended reads the settings of a file, and those of the files that it extends. left is the
// number of files that may still be read in addition.
func (x *resolver) extended(name string, left *int) *importSettings {
	i, ok := x.byPath[name]
	if !ok {
		return nil
	}
	s := readSettings(dirOf(name), x.files[i].Text)
	if s == nil {
		return nil
	}
	for _, file := range slices.Backward(s.extends) {
		if _, ok := x.byPath[file]; !ok {
			file += ".json"
		}
		if *left--; *left < 0 {
			break
		}
		if upper := x.extended(file, left); upper != nil {
			s.add(upper)
		}
	}
	return s
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

// scriptImport finds the file of an import in TypeScript or JavaScript. A package of the
// project that is imported by its name counts as outside, because package.json is not read.
func (x *resolver) scriptImport(file, imported string) target {
	dir := dirOf(file)
	if imported == "." || imported == ".." || isRelative(imported) {
		return x.script(path.Join(dir, imported))
	}
	for up := dir; ; up = dirOf(up) {
		if s := x.scripts[up]; s != nil {
			return x.aliased(s, imported)
		}
		if up == "" {
			return target{}
		}
	}
}

// aliased resolves an import by the nearest settings.
func (x *resolver) aliased(s *importSettings, imported string) target {
	var best match
	for pattern, to := range s.imports {
		best.try(imported, pattern, "", []string{to})
	}
	from := s.from
	if s.based {
		from = s.base
	}
	for pattern, to := range s.paths {
		best.try(imported, pattern, from, to)
	}
	for _, to := range best.to {
		if t := x.script(path.Join(best.from, strings.Replace(to, "*", best.star, 1))); len(t.files) > 0 {
			return t
		}
	}
	if s.based {
		return x.script(path.Join(s.base, imported))
	}
	return target{}
}

// match is the pattern that fits an import best so far: one without a star, then the one
// with the longest text before its star, then the one with the longest text after it.
type match struct {
	to    []string // the paths of the pattern, in the order in which they are tried
	from  string   // directory in which they begin
	star  string   // text that the star of the pattern stands for
	ranks [2]int
}

func (m *match) try(imported, pattern, from string, to []string) {
	before, after, wild := strings.Cut(pattern, "*")
	ranks, star := [2]int{len(before) + 1, len(after)}, ""
	switch {
	case !wild && pattern == imported:
		ranks[0] = math.MaxInt
	case wild && len(imported) >= len(before)+len(after) && strings.HasPrefix(imported, before) && strings.HasSuffix(imported, after):
		star = imported[len(before) : len(imported)-len(after)]
	default:
		return
	}
	if ranks[0] > m.ranks[0] || ranks[0] == m.ranks[0] && ranks[1] >= m.ranks[1] {
		*m = match{to, from, star, ranks}
	}
}

// script finds the file of a module. It tries the path as it is written, the TypeScript
// source of a JavaScript path, the path with an extension, and the index file of a
// directory, in this order.
func (x *resolver) script(at string) target {
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
			return target{files: []int{i}, sure: Certain}
		}
	}
	return target{}
}
