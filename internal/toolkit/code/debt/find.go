package debt

import (
	"context"
	"strings"

	"belljar.dev/internal/printable"
	"belljar.dev/internal/toolkit/code"
)

// Bounds of a result.
const (
	maxRemarks = 10_000
	maxText    = 240 // maximum size of the text of a remark in bytes
)

// Remark is a place where an author admits debt.
type Remark struct {
	Path     string   `json:"path" jsonschema:"path from project_path"`
	Line     int      `json:"line" jsonschema:"line of the comment"`
	Kind     Kind     `json:"kind" jsonschema:"kind of debt"`
	Severity Severity `json:"severity" jsonschema:"how much it matters"`
	Marker   string   `json:"marker,omitempty" jsonschema:"such as TODO; absent if a phrase was found instead"`
	Author   string   `json:"author,omitempty" jsonschema:"name in parentheses after the marker"`
	Text     string   `json:"text" jsonschema:"what is to be done, at most 240 bytes"`
}

// Result contains the remarks of files.
type Result struct {
	Remarks  []Remark   `json:"remarks"`  // sorted as the files are, and by line within a file
	Comments int        `json:"comments"` // number of blocks of comments that were read
	Gaps     []code.Gap `json:"gaps,omitempty"`
}

// Find returns the remarks in files. If ctx ends first, it returns the remarks so far, a
// gap, and the cause.
func Find(ctx context.Context, files []*code.File) (Result, error) {
	var res Result
	cut := false
	for _, f := range files {
		if ctx.Err() != nil {
			res.Gaps = append(res.Gaps, code.Gap{Path: f.Path, Field: "remarks", Reason: "the time was up before this file and the files after it were read"})
			return res, context.Cause(ctx)
		}
		for _, b := range blocks(f) {
			res.Comments++
			cues := b.cues()
			for i, c := range cues {
				if len(res.Remarks) == maxRemarks {
					cut = true
					break
				}
				end, last := len(b.text), len(b.words)
				if i+1 < len(cues) {
					last = cues[i+1].word
					end = b.words[last].begin
				}
				end = c.from + b.paragraph(c.from, end)
				words := b.words[c.word:last]
				if c.marker != "" {
					words = words[1:]
				}
				for len(words) > 0 && words[len(words)-1].begin >= end {
					words = words[:len(words)-1]
				}
				kind, severity := classify(c.marker, words, strings.Contains(b.text[c.from:end], "?"))
				res.Remarks = append(res.Remarks, Remark{
					Path:     f.Path,
					Line:     b.words[c.word].line,
					Kind:     kind,
					Severity: severity,
					Marker:   c.marker,
					Author:   c.author,
					Text:     clip(strings.Join(strings.Fields(b.text[c.from:end]), " ")),
				})
			}
		}
	}
	if cut {
		res.Gaps = append(res.Gaps, code.Gap{Field: "remarks", Reason: "there are more remarks than are listed"})
	}
	return res, nil
}

// clip removes the punctuation between a marker and its text, and cuts a long text.
func clip(text string) string {
	for text != "" && (text[0] == ':' || text[0] == ' ' || text[0] == '-' || text[0] == ',' || text[0] == '.') {
		text = text[1:]
	}
	if len(text) <= maxText {
		return text
	}
	return printable.Head(text, maxText-len("...")) + "..."
}
