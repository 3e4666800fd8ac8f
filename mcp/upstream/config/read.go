package config

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Bounds of a file.
const (
	MaxFile = 1 << 20 // bytes of a file

	maxDepth     = 32       // most levels of nested values
	maxBrackets  = 1000     // most brackets that are open at one point of the file, checked before parsing
	maxEntries   = 256      // most servers of a file
	maxKeys      = 512      // most keys of a server, and of each object in it
	maxArgs      = 1024     // most arguments of a command
	maxText      = 64 << 10 // most bytes of one text
	maxTOMLKeys  = 5000     // most keys of a TOML file, including keys of tables
	maxName      = 128      // most bytes of a server's name
	maxPrefix    = 50       // most characters of a prefix
	maxReference = 4 << 10  // most bytes between the braces of a reference
)

const emptyHint = `write {"mcpServers": {"NAME": {"command": "PROGRAM", "args": []}}}`

// Read reads the servers of a file, whatever client it was made for. file is the name of
// the file in faults and sources; only the content decides how it is read.
//
// If Failed(faults), no entries are returned. A fault that names an entry excludes only
// that entry: the other servers are loaded.
func Read(file string, data []byte) ([]Entry, []Fault) {
	r := &report{file: file, data: data}
	if !r.readable(data) {
		return nil, r.sorted()
	}
	top, extra := r.parse(data)
	if r.bad || top == nil {
		return nil, r.sorted()
	}
	is, ok := r.shape(top)
	if !ok {
		return nil, r.sorted()
	}
	if is.plain && extra.line > 0 {
		r.wrong(extra, "remove it", "this shape of file is plain JSON, without comments and trailing commas")
	}
	entries := r.entries(is.servers)
	r.questions(is.inputs, entries)
	if is.narrow != nil {
		narrowed(is.narrow, entries)
	}
	if r.bad {
		return nil, r.sorted()
	}
	digest := Digest(data)
	for i := range entries {
		entries[i].Source.Digest = digest
	}
	return entries, r.sorted()
}

// readable reports whether data is a text of bounded size and depth, in UTF-8.
func (r *report) readable(data []byte) bool {
	c := newCursor(data)
	switch {
	case len(data) > MaxFile:
		r.wrong(place{1, 1}, "", "the file has more than the %d bytes that are read", MaxFile)
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		r.wrong(place{1, 1}, "save it as UTF-8", "the file is in UTF-16")
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		r.wrong(place{1, 1}, "save it as UTF-8 without a byte order mark", "the file begins with a byte order mark")
	case bytes.IndexByte(data, 0) >= 0:
		r.wrong(c.at(bytes.IndexByte(data, 0)), "save it as UTF-8", "the file contains a NUL character: it is not a text in UTF-8")
	case !utf8.Valid(data):
		at := 0
		for at < len(data) {
			char, size := utf8.DecodeRune(data[at:])
			if char == utf8.RuneError && size <= 1 {
				break
			}
			at += size
		}
		r.wrong(c.at(at), "save it as UTF-8", "this character is not UTF-8")
	case tooDeep(data) >= 0:
		r.wrong(c.at(tooDeep(data)), "", "more than %d brackets are open here", maxBrackets)
	default:
		return true
	}
	return false
}

// tooDeep returns the offset where too many brackets are open, or -1. The parsers are
// recursive, and no file that a person writes has so many brackets. Brackets in texts count
// too.
func tooDeep(data []byte) int {
	open := 0
	for i, b := range data {
		switch b {
		case '[', '{':
			open++
		case ']', '}':
			open = max(0, open-1)
		}
		if open > maxBrackets {
			return i
		}
	}
	return -1
}

// parse recognises the language of a file by its first characters, and reads it. extra is the
// place of the first comment or trailing comma of JSON.
func (r *report) parse(data []byte) (top *node, extra place) {
	switch language(data) {
	case "":
		r.wrong(place{1, 1}, emptyHint, "the file is empty")
		return nil, place{}
	case "json":
		return r.readJSON(data)
	case "toml":
		return r.readTOML(data), place{}
	default:
		return r.readYAML(data), place{}
	}
}

// language returns "json", "toml" or "yaml"; empty for a file without content.
func language(data []byte) string {
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '{', strings.HasPrefix(line, "//"), strings.HasPrefix(line, "/*"):
			return "json"
		case line[0] == '[':
			if header(line) {
				return "toml"
			}
			return "json"
		case assigns(line):
			return "toml"
		default:
			return "yaml"
		}
	}
	return ""
}

// header reports whether a line is the header of a table in TOML, and not a list of JSON.
func header(line string) bool {
	inner := strings.TrimLeft(line, "[")
	inner, _, ok := strings.Cut(inner, "]")
	inner = strings.TrimSpace(inner)
	if !ok || inner == "" || strings.ContainsAny(inner, "{[,:") {
		return false
	}
	return inner[0] != '"' || strings.Contains(inner, ".") || strings.HasSuffix(strings.TrimSpace(line), "]")
}

// assigns reports whether a line begins with a key and "=", and not with a key and ":".
func assigns(line string) bool {
	quote := byte(0)
	for i := range len(line) {
		switch c := line[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '=':
			return true
		case c == ':' || c == '#':
			return false
		}
	}
	return false
}
