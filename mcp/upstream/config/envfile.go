package config

import "strings"

// ReadEnvFile reads the variables of an entry's EnvFile. A variable is a line NAME=VALUE,
// with an optional export and quotes around the value. Lines that begin with # are
// comments. References in values are not expanded.
//
// If two variables have the same name, the later one is used. The caller gives the entry's
// own variables precedence over these. If there is an error among the faults, no variables
// are returned.
func ReadEnvFile(file string, data []byte) ([]Variable, []Fault) {
	r := &report{file: file, data: data}
	if !r.readable(data) {
		return nil, r.sorted()
	}
	var all []Variable
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		at := place{number, 1}
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		name = strings.TrimSpace(name)
		switch {
		case !ok || name == "" || strings.ContainsAny(name, " \t\"'"):
			r.wrong(at, "write NAME=VALUE", "this line does not set a variable")
			continue
		case len(value) > maxText:
			r.wrong(at, "", "the variable %s has %d bytes, more than the %d that are read", quoted(name), len(value), maxText)
			continue
		case len(all) >= maxKeys:
			r.wrong(at, "", "there are more than the %d variables that are read", maxKeys)
			return nil, r.sorted()
		}
		r.checkVariableName(at, name)
		all = append(all, Variable{name, Text{pieces: Literal(unquoted(strings.TrimSpace(value))).pieces, at: at}})
	}
	if r.bad {
		return nil, r.sorted()
	}
	return all, r.sorted()
}

// unquoted returns a value without its quotes, or without a comment after it.
func unquoted(value string) string {
	if len(value) > 0 && (value[0] == '"' || value[0] == '\'') {
		if end := strings.IndexByte(value[1:], value[0]); end >= 0 {
			inner := value[1 : 1+end]
			if value[0] == '"' {
				inner = strings.ReplaceAll(inner, `\n`, "\n")
			}
			return inner
		}
	}
	before, _, _ := strings.Cut(value, " #")
	return strings.TrimSpace(before)
}
