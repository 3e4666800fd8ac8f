package toolkit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
)

// LanguagePart is how much of a project is in one language.
type LanguagePart struct {
	Language string `json:"language" jsonschema:"name of the language"`
	Files    int    `json:"files" jsonschema:"number of files in this language"`
	Code     int    `json:"code_lines" jsonschema:"lines with code"`
	Comment  int    `json:"comment_lines" jsonschema:"lines with a comment and no code"`
	Blank    int    `json:"blank_lines" jsonschema:"lines with nothing but white space"`
	Measured string `json:"measured" jsonschema:"functions: all analyses; declarations: functions without numbers; lines: lines, debt and clones only"`
}

// Parts of a result that are not measured for every language.
const (
	complexityField = "complexity"
	functionsField  = "functions"
)

// languagesOf returns how much code is in each language, the language with the most code
// first.
func languagesOf(files []*code.File) []LanguagePart {
	parts := map[code.Language]LanguagePart{}
	for _, f := range files {
		if !known(f.Language) {
			continue
		}
		p := parts[f.Language]
		p.Language, p.Measured = string(f.Language), "lines"
		switch {
		case measured(f.Language):
			p.Measured = "functions"
		case declares(f.Language):
			p.Measured = "declarations"
		}
		p.Files++
		p.Code += f.Lines.Code
		p.Comment += f.Lines.Comment
		p.Blank += f.Lines.Blank
		parts[f.Language] = p
	}
	all := slices.Collect(maps.Values(parts))
	order.By(all, func(a, b *LanguagePart) int {
		return cmp.Or(cmp.Compare(b.Code, a.Code), cmp.Compare(a.Language, b.Language))
	})
	return all
}

// linesOf returns the parts in one line.
func linesOf(parts []LanguagePart) string {
	all := make([]string, 0, len(parts))
	for _, p := range parts {
		all = append(all, fmt.Sprintf("%s %d", p.Language, p.Code))
	}
	return "Lines of code: " + strings.Join(all, ", ")
}

// unlexed returns gaps for the files in languages without a lexer, which state that a part
// of the result is not measured for them. Languages for data do not have such a part, and
// are not counted.
func unlexed(field string, kept []code.Entry) (gaps []code.Gap) {
	if field == "" {
		return nil
	}
	files, scripts := map[code.Language]int{}, 0
	for _, e := range kept {
		if e.Language == code.Shell {
			scripts++
		} else if look := e.Language.Plain(); look != nil && !look.Data {
			files[e.Language]++
		}
	}
	if scripts > 0 && (field == complexityField || field == functionsField) {
		gaps = append(gaps, code.Gap{Field: complexityField, Reason: fmt.Sprintf("not measured for shell (%s): functions of shell scripts have no numbers", count(scripts, "file"))})
	}
	if len(files) == 0 {
		return gaps
	}
	var all []string
	for _, l := range slices.SortedFunc(maps.Keys(files), func(a, b code.Language) int {
		return cmp.Or(cmp.Compare(files[b], files[a]), cmp.Compare(a, b))
	}) {
		all = append(all, fmt.Sprintf("%s (%s)", l, count(files[l], "file")))
	}
	return append(gaps, code.Gap{Field: field, Reason: "not measured for " + strings.Join(all, ", ") + ": for these languages only lines, debt and clones are measured"})
}

// known reports whether the lines and tokens of a language are known.
func known(l code.Language) bool { return l != code.Other }

// declares reports whether the functions of a language are known, with numbers or without.
func declares(l code.Language) bool { return l.Lexed() }

// measured reports whether the functions of a language have metrics.
func measured(l code.Language) bool { return l.Lexed() && l != code.Shell }
