package lex

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"belljar.dev/internal/toolkit/code"
)

// braces is a text of a language with braces: its tokens, and an item for each token that
// is code. The readers of Rust, scripts, C, C++ and Java share it.
type braces struct {
	*tokenizer
	f     *code.File
	items []item
	open  []int32 // indexes of items that are open brackets, while the text is split into tokens
	deep  int     // number of braces in open
	steps int     // number of items that a reader examined; a test compares it with the length of the text
}

// item is a token of code.
type item struct {
	op    op
	token int32 // index of its token
	match int32 // index of the matching bracket's item; finish sets it for every other item
}

// op is what an item is: the bytes of an operator, one of the constants below, or a
// keyword.
type op uint32

const (
	opNone op = iota // an item after the end
	opName
	opNumber
	opString
	opLabel // a lifetime of Rust
	opRegex
	opText // a piece of a template or of JSX
)

// The names of operators of more than one byte.
const (
	opArrow    op = '-'<<8 | '>'
	opFatArrow op = '='<<8 | '>'
	opAnd      op = '&'<<8 | '&'
	opOr       op = '|'<<8 | '|'
	opNullish  op = '?'<<8 | '?'
	opOptional op = '?'<<8 | '.'
	opAndSet   op = '&'<<16 | '&'<<8 | '='
	opOrSet    op = '|'<<16 | '|'<<8 | '='
	opNullSet  op = '?'<<16 | '?'<<8 | '='
	opColons   op = ':'<<8 | ':'
	opDots     op = '.'<<16 | '.'<<8 | '.'
	opEqual    op = '='<<8 | '='
	opInc      op = '+'<<8 | '+'
	opDec      op = '-'<<8 | '-'
	opHole     op = '$'<<8 | '{' // opens an expression in a template or in JSX
	opShr      op = '>'<<8 | '>'
	opShr3     op = '>'<<16 | '>'<<8 | '>'
	opShl      op = '<'<<8 | '<'
	opGE       op = '>'<<8 | '='
)

// Keywords that a reader treats specially. Every keyword without a number here is kwOther.
const (
	kwOther op = 1<<31 + iota
	kwAsync
	kwAwait
	kwBreak
	kwCase
	kwCatch
	kwClass
	kwConst
	kwContinue
	kwDefault
	kwDelete
	kwDo
	kwElse
	kwEnum
	kwExport
	kwExtends
	kwExtern
	kwFinally
	kwFn
	kwFor
	kwFunction
	kwGoto
	kwIf
	kwImpl
	kwImplements
	kwImport
	kwIn
	kwInterface
	kwLet
	kwLoop
	kwMatch
	kwMod
	kwModifier
	kwMove
	kwNamespace
	kwNew
	kwOperator
	kwPackage
	kwPub
	kwReturn
	kwSelf
	kwStatic
	kwStruct
	kwSwitch
	kwTemplate
	kwThrow
	kwThrows
	kwTrait
	kwTry
	kwType
	kwTypedef
	kwUnion
	kwUnsafe
	kwUse
	kwUsing
	kwValue
	kwVar
	kwWhere
	kwWhile
)

func newBraces(f *code.File) *braces {
	b := &braces{tokenizer: newTokenizer(f.Text), f: f}
	if room, ok := itemRooms.Get().(*[]item); ok && cap(*room) >= len(f.Text)/5+8 {
		b.items = (*room)[:0]
	} else {
		b.items = make([]item, 0, max(len(f.Text)/5+8, 1<<13))
	}
	return b
}

// itemRooms contains slices of items that no reader uses now, for reuse.
var itemRooms sync.Pool // contains *[]item

// maxScratch is the capacity, in items or tokens, of the largest slice that is kept for
// reuse.
const maxScratch = 1 << 18

// free ends the use of the items.
func (b *braces) free() {
	if room := b.items; cap(room) <= maxScratch {
		itemRooms.Put(&room)
	}
	b.items = nil
}

// blanks moves past white space, and reports whether more of the text follows.
func (b *braces) blanks() bool {
	text, at := b.text, b.at
	for ; at < len(text); at++ {
		switch c := text[at]; {
		case c == ' ':
		case c == '\n':
			b.line++
		case c > ' ' && c < utf8.RuneSelf:
			b.at = at
			return true
		case c == '\t' || c == '\r' || c == '\f' || c == '\v' || c == 0:
		case c >= utf8.RuneSelf:
			b.at = at
			r, n := utf8.DecodeRuneInString(text[at:])
			if !unicode.IsSpace(r) && r != '\ufeff' {
				return true
			}
			b.take(code.Operator, at+n) // only some languages read the character as white space: it is a token, but no item
			at += n - 1
		default:
			b.at = at
			return true
		}
	}
	b.at = at
	return false
}

// comment takes a comment in the form of C, and reports whether it found one.
func (b *braces) comment() bool {
	switch {
	case b.text[b.at] != '/':
		return false
	case b.peek(1) == '/':
		b.take(code.Comment, b.lineEnd(b.at))
	case b.peek(1) == '*':
		end := len(b.text)
		if n := strings.Index(b.text[min(b.at+2, end):], "*/"); n >= 0 {
			end = b.at + 2 + n + 2
		}
		b.take(code.Comment, end)
	default:
		return false
	}
	return true
}

// short adds an item that does not span lines, and moves past it.
func (b *braces) short(kind code.Kind, o op, end int) {
	b.items = append(b.items, item{op: o, token: int32(len(b.tokens)), match: -1})
	b.emit(kind, b.at, end, b.line)
	b.at = end
}

// long adds an item for a text that can span lines, and moves past it.
func (b *braces) long(o op, end int) {
	b.items = append(b.items, item{op: o, token: int32(len(b.tokens)), match: -1})
	b.take(code.String, end)
}

// operator adds the operator of n bytes. A bracket is matched with its partner. A closing
// bracket without a partner closes nothing; a closing brace also closes the brackets that
// are open within its braces.
func (b *braces) operator(n int) {
	o := op(b.text[b.at])
	for _, c := range []byte(b.text[b.at+1 : b.at+n]) {
		o = o<<8 | op(c)
	}
	b.bracket(n, o)
}

// bracket adds the operator o, which has n bytes in the text.
func (b *braces) bracket(n int, o op) {
	at := int32(len(b.items))
	b.short(code.Operator, o, b.at+n)
	switch o {
	case '{', opHole:
		b.deep++
		b.open = append(b.open, at)
	case '(', '[':
		b.open = append(b.open, at)
	case ')':
		b.close(at, '(')
	case ']':
		b.close(at, '[')
	case '}':
		if b.deep > 0 {
			b.close(at, '{')
			b.deep--
		}
	}
}

func (b *braces) close(at int32, want op) {
	for n := len(b.open); n > 0; n = len(b.open) {
		top := b.open[n-1]
		got := b.items[top].op
		if got == want || got == opHole && want == '{' {
			b.open = b.open[:n-1]
			b.items[top].match, b.items[at].match = at, top
			return
		}
		if got == '{' || got == opHole {
			return
		}
		b.open = b.open[:n-1]
	}
}

// finish stores the tokens in the file, and sets the match of each item without a partner.
// An open ( or [ matches itself, so that it closes nothing. Every other item matches the
// number of items, so that an open brace reaches to the end of the text.
func (b *braces) finish() {
	b.f.Tokens = b.done()
	n := int32(len(b.items))
	lost := 0
	for i := range b.items {
		if b.items[i].match >= 0 {
			continue
		}
		b.items[i].match = n
		switch b.items[i].op {
		case '(', '[':
			b.items[i].match = int32(i)
			lost++
		case '{', opHole, ')', ']', '}':
			lost++
		}
	}
	if lost > 0 {
		gap(b.f, "functions", "brackets without a partner: the code after them may be attributed wrongly")
	}
}

// op returns the kind of item i; opNone if i is outside of the text.
func (b *braces) op(i int) op {
	if uint(i) < uint(len(b.items)) {
		return b.items[i].op
	}
	return opNone
}

// match returns the item that matches bracket i.
func (b *braces) match(i int) int { return int(b.items[i].match) }

// word returns the text of item i.
func (b *braces) word(i int) string {
	if uint(i) >= uint(len(b.items)) {
		return ""
	}
	t := &b.tokens[b.items[i].token]
	return b.text[t.Start:t.End]
}

// lineOf returns the line on which item i begins.
func (b *braces) lineOf(i int) int {
	if i < 0 || len(b.items) == 0 {
		return 1
	}
	return int(b.tokens[b.items[min(i, len(b.items)-1)].token].Line)
}

// lastLine returns the line on which item i ends.
func (b *braces) lastLine(i int) int {
	if i < 0 || len(b.items) == 0 {
		return 1
	}
	t := b.tokens[b.items[min(i, len(b.items)-1)].token]
	return int(t.Line) + strings.Count(b.text[t.Start:t.End], "\n")
}

// tokenOf returns the index of the token of item i.
func (b *braces) tokenOf(i int) int {
	if uint(i) >= uint(len(b.items)) {
		return len(b.tokens)
	}
	return int(b.items[i].token)
}

// behind returns the index of the token after item i.
func (b *braces) behind(i int) int { return min(b.tokenOf(i)+1, len(b.tokens)) }

// span returns the text from item i to item last, without the text between the items. It
// stops after about maxName bytes.
func (b *braces) span(i, last int) string {
	if i == last {
		return b.word(i)
	}
	var s strings.Builder
	for ; i <= last && s.Len() < maxName; i++ {
		s.WriteString(b.word(i))
	}
	return s.String()
}

// recovery is the largest number of open brackets within a bracket that its closing bracket
// closes as well.
const recovery = 64

// maxName is the longest name, in bytes, that is put together from several tokens.
const maxName = 512

// opens reports whether o is an open bracket.
func opens(o op) bool { return o == '(' || o == '[' || o == '{' || o == opHole }

// closes reports whether o is a closing bracket.
func closes(o op) bool { return o == ')' || o == ']' || o == '}' }

// keyword reports whether o is a keyword.
func keyword(o op) bool { return o >= kwOther }

// of returns the part before the dot or the colons in front of item i: names with dots, or
// "()" for the result of an expression.
func (b *braces) of(i int) string {
	dot := b.op(i - 1)
	if dot != '.' && dot != opColons && dot != opOptional && dot != opArrow {
		return ""
	}
	first := i - 1
	for range 8 {
		b.steps++
		if o := b.op(first - 1); o != opName && !keyword(o) {
			break
		}
		first--
		if o := b.op(first - 1); o != '.' && o != opColons && o != opOptional && o != opArrow {
			return b.span(first, i-2)
		}
		first--
	}
	if first < i-1 {
		return b.span(first+1, i-2)
	}
	return "()"
}
