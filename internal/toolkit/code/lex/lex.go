package lex

import (
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// MaxText is the length of the longest text that is measured, in bytes. Nothing is measured
// in a longer text.
const MaxText = 5 << 20

// MaxFuncDepth is how many functions may be nested in each other. The blocks of deeper
// functions belong to the function at this depth.
const MaxFuncDepth = 16

// Parse measures a text, except for what [Halstead] counts. It never fails: a measure that
// it cannot take is absent, and the gaps of the file state why.
//
// Parse takes time in proportion to the length of the text.
func Parse(path string, language code.Language, text string) *code.File {
	f := &code.File{Path: path, Language: language, Text: text}
	if why := unreadable(text); why != "" {
		gap(f, "file", why)
		f.Text = ""
		return f
	}
	switch language {
	case code.Go:
		parseGo(f)
	case code.Python:
		parsePython(f)
	case code.Shell:
		parseShell(f)
	case code.Rust:
		parseRust(f)
	case code.TypeScript, code.TSX, code.JavaScript:
		parseScript(f)
	case code.C, code.CPP:
		parseC(f)
	case code.Java:
		parseJava(f)
	case code.Other:
		parsePlain(f)
	default:
		parsePlain(f)
	}
	if f.Lines == (code.Lines{}) {
		f.Lines = countLines(f.Text, f.Tokens)
	}
	return f
}

// unreadable returns why a text is not measured at all, or "" if it is.
func unreadable(text string) string {
	switch {
	case len(text) > MaxText:
		return "larger than 5 MiB"
	case strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff"):
		return "text in UTF-16; only UTF-8 is read"
	case strings.IndexByte(text[:min(len(text), 8000)], 0) >= 0:
		return "binary: a NUL byte among its first 8,000 bytes"
	}
	return ""
}
