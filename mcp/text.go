package mcp

import "strings"

// clip cuts a text to a number of bytes, between two characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xc0 == 0x80 { // within a character of UTF-8
		most--
	}
	return s[:most]
}

// isToolName reports whether all known clients take a name: 1 to 64 letters, digits, _
// and -.
func isToolName(s string) bool {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, other)
}
