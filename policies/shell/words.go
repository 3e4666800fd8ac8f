package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// cell is one byte of a word, or stands for a part of the word that is only known when the
// script runs.
type cell struct {
	c    byte
	kind cellKind
}

type cellKind byte

const (
	bare   cellKind = iota // a byte as it is in the text
	quoted                 // a quoted byte, which has no special meaning
	null                   // quotes were here: even an empty word is a word
	one                    // an unknown text
	many                   // an unknown text that may split into words
	wild                   // names of files
)

// words adds the words that a syntax.Word stands for, after brace expansion.
func (r *wordReader) words(to []Word, w *syntax.Word) []Word {
	if word, ok := simple(w); ok {
		return append(to, word)
	}
	var room [64]cell
	for _, cells := range r.braces(r.cells(room[:0], w.Parts, false)) {
		if len(cells) > 0 { // bash drops the empty words of {a,}
			to = append(to, word(cells))
		}
	}
	return to
}

// word does the same as words, for a place where bash expands no braces.
func (r *wordReader) word(w *syntax.Word) Word {
	if w == nil {
		return Word{}
	}
	if word, ok := simple(w); ok {
		return word
	}
	var room [64]cell
	return word(r.cells(room[:0], w.Parts, false))
}

// simple reads a word in which no byte has a special meaning, as in most words.
func simple(w *syntax.Word) (Word, bool) {
	if len(w.Parts) != 1 {
		return Word{}, false
	}
	lit, ok := w.Parts[0].(*syntax.Lit)
	if !ok || strings.ContainsAny(lit.Value, `\*?[{~`) {
		return Word{}, false
	}
	return Word{Text: lit.Value}, true
}

// cells takes the parts of a word apart.
func (r *wordReader) cells(to []cell, parts []syntax.WordPart, inQuotes bool) []cell {
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			to = letters(to, part.Value, inQuotes)
		case *syntax.SglQuoted:
			to = append(to, cell{kind: null})
			text, exact := part.Value, true
			if part.Dollar {
				text, exact = ansi(text)
			}
			if !exact {
				to = append(to, cell{kind: one})
			}
			to = literal(to, text)
		case *syntax.DblQuoted:
			to = append(to, cell{kind: null})
			if part.Dollar { // bash translates the text
				to = append(to, cell{kind: one})
			}
			to = r.cells(to, part.Parts, true)
		case *syntax.ParamExp:
			switch value, bound := r.bound(part); {
			case bound && (inQuotes || plainValue(value)):
				to = literal(to, value)
			case inQuotes && !lists(part):
				to = append(to, cell{kind: one})
			default:
				to = append(to, cell{kind: many})
			}
		case *syntax.ProcSubst:
			to = append(to, cell{kind: one})
		case *syntax.ExtGlob:
			to = append(to, cell{kind: wild})
		default: // a command substitution or arithmetic
			kind := many
			if inQuotes {
				kind = one
			}
			to = append(to, cell{kind: kind})
		}
	}
	return to
}

// letters takes apart a literal that still has its backslashes.
func letters(to []cell, text string, inQuotes bool) []cell {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inQuotes && c == '\\' && i+1 < len(text) && strings.IndexByte("$`\"\\\n", text[i+1]) >= 0,
			!inQuotes && c == '\\' && i+1 < len(text):
			i++
			if text[i] != '\n' {
				to = append(to, cell{text[i], quoted})
			}
		case inQuotes, c == '\\':
			to = append(to, cell{c, quoted})
		default:
			to = append(to, cell{c, bare})
		}
	}
	return to
}

// lists reports whether an expansion within double quotes may become several
// words or none.
func lists(p *syntax.ParamExp) bool {
	switch {
	case p.Param == nil || p.Param.Value == "@" || p.Excl || p.Names != 0 || p.NestedParam != nil:
		return true
	case p.Length:
		return false
	case p.Index != nil:
		w, ok := p.Index.(*syntax.Word)
		if !ok || w.Lit() != "*" && (w.Lit() == "@" || w.Lit() == "") {
			return true
		}
	}
	// The word of ${x:-word} may be a list itself.
	return p.Exp != nil && p.Exp.Word != nil && p.Exp.Word.Lit() == "" && len(p.Exp.Word.Parts) > 0
}

// plainValue reports whether an unquoted variable with the value is one word:
// nothing in it splits it or makes it a pattern.
func plainValue(value string) bool {
	return value != "" && strings.Trim(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+,@%") == ""
}

// word returns the Word for the cells of one word.
func word(cells []cell) Word {
	var b strings.Builder
	b.Grow(len(cells))
	w := Word{}
	known := true // all cells so far are known
	unsure := func(c Certainty) {
		w.Certainty = max(w.Certainty, c)
		known = false
	}
	for i, c := range cells {
		switch {
		case c.kind == null:
		case c.kind == one:
			unsure(One)
		case c.kind == many:
			unsure(Any)
		case c.kind == wild, c.kind == bare && pattern(cells, i):
			unsure(Any)
			w.Glob = true
		case c.kind == bare && c.c == '~' && i == 0:
			// The word is Home if nothing else in it is unknown; the bytes after the ~ are
			// known then.
			w.Certainty = max(w.Certainty, Home)
			b.WriteByte(c.c)
		case c.kind == bare && c.c == '~' && (cells[i-1].c == '=' || cells[i-1].c == ':') && cells[i-1].kind == bare:
			unsure(One)
		case known:
			b.WriteByte(c.c)
		}
	}
	w.Text = b.String()
	if w.Certainty > Home && strings.HasPrefix(w.Text, "~") && cells[0] == (cell{'~', bare}) {
		w.Text = ""
	}
	return w
}

// pattern reports whether the byte at i makes the word a pattern of file names.
func pattern(cells []cell, i int) bool {
	switch cells[i].c {
	case '*', '?':
		return true
	case '[':
		for _, c := range cells[i+1:] {
			if c.kind != bare && c.kind != quoted || c.kind == bare && c.c == ']' {
				return true
			}
		}
	}
	return false
}
