package mcp

import "strings"

// clip cuts a text between two characters; most is the largest number of its bytes.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xc0 == 0x80 { // s[most] is inside a UTF-8 character
		most--
	}
	return s[:most]
}

// isToolName reports whether all known clients accept a name: 1 to 64 letters, digits, _
// and -.
func isToolName(s string) bool {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, other)
}
