package debt

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"belljar.dev/internal/toolkit/code"
)

// maxBlock is the maximum size of a block that is read, in bytes.
const maxBlock = 64 << 10

// block contains the comments on consecutive lines, without the marks of comments.
type block struct {
	text  string // lines, each with a line feed at its end
	line  int    // line number of the first line
	words []word
}

// word is a word of a block.
type word struct {
	begin, end int
	line       int
	starts     bool   // whether it is at the beginning of a line or of a sentence
	lower      string // the word in lower case
}

// blocks returns the blocks of comments in a file, with their words.
func blocks(f *code.File) []block {
	var all []block
	var text strings.Builder
	first, next := 0, 0 // first line of the block, and the line on which a comment continues it
	end := func() {
		if text.Len() > 0 {
			all = append(all, block{text: text.String(), line: first})
			text.Reset()
		}
	}
	look := f.Language.Plain()
	for _, t := range f.Tokens {
		if t.Kind != code.Comment {
			continue
		}
		comment := f.Of(t)
		alone := strings.TrimSpace(f.Text[strings.LastIndexByte(f.Text[:t.Start], '\n')+1:t.Start]) == ""
		if !alone || int(t.Line) != next || text.Len()+len(comment) > maxBlock {
			end()
			first = int(t.Line)
		}
		comment = comment[:min(len(comment), maxBlock)]
		for line := range strings.Lines(comment) {
			text.WriteString(bare(line, look))
			text.WriteByte('\n')
		}
		next = int(t.Line) + strings.Count(comment, "\n") + 1
		if !alone { // the comment follows code; a comment below it belongs to the next line of code
			end()
			next = 0
		}
	}
	end()
	for i := range all {
		all[i].read()
	}
	return all
}

// bare returns a line of a comment without the marks around it. look is nil for a language
// with a lexer.
func bare(line string, look *code.Plain) string {
	line = strings.TrimSpace(strings.ToValidUTF8(line, "?"))
	if look != nil {
		line = unmarked(line, look)
	}
	for _, sign := range []string{"///", "//!", "//", "/**", "/*!", "/*", "*/", "*", "#!", "#"} {
		if rest, ok := strings.CutPrefix(line, sign); ok {
			line = rest
			break
		}
	}
	line = strings.TrimSuffix(strings.TrimSpace(line), "*/")
	return strings.TrimSpace(line)
}

// unmarked returns a line of a comment without the marks of its language.
func unmarked(line string, look *code.Plain) string {
	for _, b := range look.Block {
		if rest, ok := strings.CutPrefix(line, b[0]); ok {
			line = rest
			break
		}
	}
	for _, b := range look.Block {
		line = strings.TrimSuffix(line, strings.TrimSpace(b[1]))
	}
	for _, mark := range look.Line {
		if strings.HasPrefix(line, mark) {
			line = strings.TrimLeft(line, mark) // remove one or more of the mark, for example ;;;
			break
		}
	}
	return strings.TrimSpace(line)
}

// read finds the words of a block.
func (b *block) read() {
	line, starts := b.line, true
	b.words = make([]word, 0, len(b.text)/5+1)
	for at := 0; at < len(b.text); {
		r, size := utf8.DecodeRuneInString(b.text[at:])
		if !letter(r) {
			switch r {
			case '\n':
				line++
				starts = true
			case '.', ';', '!', '?', '(', '{', '[', ',':
				// The dot of a.TODO and the bracket of f(XXX) do not end a sentence.
				rest := b.text[at+size:]
				starts = starts || r == '{' || strings.HasPrefix(rest, " ")
			case ' ', '\t', '-', '*', '@', '/', '>':
			default:
				starts = false
			}
			at += size
			continue
		}
		begin := at
		for at < len(b.text) {
			r, size := utf8.DecodeRuneInString(b.text[at:])
			if !letter(r) && (r != '\'' || at+1 == len(b.text)) {
				break
			}
			at += size
		}
		b.words = append(b.words, word{begin, at, line, starts, strings.ToLower(b.text[begin:at])})
		starts = false
	}
}

// letter reports whether a rune is part of a word.
func letter(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// paragraph returns the length of the text between two offsets, up to an empty line.
func (b *block) paragraph(begin, end int) int {
	if i := strings.Index(b.text[begin:end], "\n\n"); i >= 0 {
		return i
	}
	return end - begin
}
