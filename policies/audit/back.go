package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"belljar.dev/internal/order"
)

// Cursor is the place of a record in a log. The zero value is the place after the last one.
type Cursor struct {
	Seq    uint64
	Offset int64 // offset of the record's line in its file, in bytes
}

// String returns a cursor in the form that ParseCursor reads.
func (c Cursor) String() string {
	return strconv.FormatUint(c.Seq, 10) + "-" + strconv.FormatInt(c.Offset, 10)
}

// ParseCursor reads a cursor.
func ParseCursor(text string) (c Cursor, err error) {
	seq, offset, ok := strings.Cut(text, "-")
	if ok {
		c.Seq, err = strconv.ParseUint(seq, 10, 63)
	}
	if ok && err == nil {
		c.Offset, err = strconv.ParseInt(offset, 10, 64)
	}
	if !ok || err != nil || c.Seq == 0 || c.Offset < 0 {
		return Cursor{}, fmt.Errorf("%.40q is not the position of a record", text)
	}
	return c, nil
}

// Search says which records ReadBack wants.
type Search struct {
	Filter
	Rule     string // id of the rule that decided, or would have decided
	Upstream string // server whose tool was called
	Text     string // text that is somewhere in the record
}

// ErrNoRecord is the error for a cursor whose record does not exist (any more).
var ErrNoRecord = errors.New("the log does not have this record, or no longer has it")

// ReadBack calls use with the records before a place, from the last to the first, until use
// returns false or ctx ends, which is not an error. It returns the place at which it
// stopped, from which ReadBack can continue. more reports whether the reading stopped
// before the beginning of the log. Lines that are not records are left out. ReadBack checks
// nothing; Verify does.
func ReadBack(ctx context.Context, dir string, before Cursor, want Search, use func(Entry, Cursor) bool) (at Cursor, more bool, err error) {
	s, err := snapshot(dir)
	if err != nil {
		return before, false, err
	}
	defer s.close()
	b := backward{want: want, hints: want.hints(), use: use, at: before}
	for i, part := range slices.Backward(s.files) {
		if before.Seq > 0 && i > 0 && part.firstSeq() > before.Seq {
			continue // every record of this file comes after the place
		}
		if stopped, err := b.file(ctx, part); err != nil || stopped {
			return b.at, true, err
		}
	}
	return b.at, false, nil
}

// firstSeq returns the number of the first record of a file, or zero if it is not known.
func (p part) firstSeq() uint64 {
	if p.file == nil {
		digits := strings.TrimSuffix(strings.TrimPrefix(p.name, "audit-"), ".jsonl")
		seq, _ := strconv.ParseUint(digits, 10, 64)
		return seq
	}
	l, err := firstLine(filepath.Join(p.dir, p.name))
	if err != nil {
		return 0
	}
	return l.seq
}

// backward is one reading of a log from its end.
type backward struct {
	want  Search
	hints []hint
	use   func(Entry, Cursor) bool
	at    Cursor // place of the reading: the records before it come next
}

// backBlock is the number of bytes of one read. A line fits into it.
const backBlock = maxLine + 64<<10

// file reads a file backward from the place, if that is in it, or from its end.
func (b *backward) file(ctx context.Context, p part) (stopped bool, err error) {
	file, size, err := p.opened()
	if err != nil {
		return false, err
	}
	if p.file == nil {
		defer file.Close()
	}
	end := size
	if b.at.Seq > 0 && b.at.Offset <= size && holds(file, b.at) {
		end = b.at.Offset
	}
	block := make([]byte, min(backBlock, end))
	for end > 0 {
		if ctx.Err() != nil {
			return true, nil
		}
		from := max(0, end-int64(len(block)))
		text := block[:end-from]
		if _, err := file.ReadAt(text, from); err != nil {
			return false, fmt.Errorf("read %s: %w", p.name, err)
		}
		rest, stopped := b.lines(text, from)
		if stopped {
			return true, nil
		}
		if rest == len(text) {
			return false, fmt.Errorf("read %s: a line is longer than any record; `belljar audit verify` says more", p.name)
		}
		end = from + int64(rest)
	}
	return false, nil
}

// opened returns the file of a part, and the number of its bytes that count.
func (p part) opened() (*os.File, int64, error) {
	file, err := p.open()
	if err != nil || p.size >= 0 {
		return file, p.size, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// holds reports whether a record is where a cursor says.
func holds(file io.ReaderAt, at Cursor) bool {
	head := headSeq + strconv.FormatUint(at.Seq, 10) + headPrev
	text := make([]byte, len(head))
	_, err := file.ReadAt(text, at.Offset)
	return err == nil && string(text) == head
}

// lines passes the lines of a text, which begins at an offset, to line, from the last to
// the first. It returns how many bytes at the beginning are left, since they may be the
// rest of a line.
func (b *backward) lines(text []byte, from int64) (rest int, stopped bool) {
	if from > 0 {
		rest = bytes.IndexByte(text, '\n') + 1
		if rest == 0 || rest == len(text) {
			return len(text), false
		}
	}
	whole := text[rest : bytes.LastIndexByte(text, '\n')+1] // the text behind these lines has no LF yet
	for at := range b.candidates(whole) {
		if !b.line(whole[at[0]:at[1]], from+int64(rest+at[0])) {
			return rest, true
		}
	}
	b.passed(whole, from+int64(rest))
	return rest, false
}

// candidates returns the places of the lines of a text that may be wanted, from the last to
// the first. The other lines are not looked at one by one: a text is searched much faster
// as a whole.
func (b *backward) candidates(text []byte) iter.Seq[[2]int] {
	if len(b.hints) == 0 {
		return allLines(text)
	}
	for _, h := range b.hints {
		if !h.in(text) {
			return func(func([2]int) bool) {}
		}
	}
	// Only the first hint is searched for; line looks for the others.
	var found [][2]int
	for _, part := range b.hints[0] {
		for at := 0; at < len(text); {
			i := bytes.Index(text[at:], part)
			if i < 0 {
				break
			}
			i += at
			end := i + bytes.IndexByte(text[i:], '\n')
			found = append(found, [2]int{bytes.LastIndexByte(text[:i], '\n') + 1, end})
			at = end + 1
		}
	}
	order.By(found, func(a, b *[2]int) int { return b[0] - a[0] })
	return slices.Values(slices.Compact(found)) // a line may contain several spellings
}

// allLines returns the places of all lines of a text, from the last to the first.
func allLines(text []byte) iter.Seq[[2]int] {
	return func(yield func([2]int) bool) {
		for end := len(text) - 1; end >= 0; {
			start := bytes.LastIndexByte(text[:end], '\n') + 1
			if !yield([2]int{start, end}) {
				return
			}
			end = start - 1
		}
	}
}

// passed records that the records of a text, which begins at an offset, were looked at.
func (b *backward) passed(text []byte, offset int64) {
	for start := 0; start < len(text); {
		end := start + bytes.IndexByte(text[start:], '\n')
		if l, err := parseLine(text[start:end]); err == nil {
			if b.at.Seq == 0 || l.seq < b.at.Seq {
				b.at = Cursor{l.seq, offset + int64(start)}
			}
			return
		}
		start = end + 1
	}
}

// line passes the record of a line to use, if the record is wanted, and reports whether to
// continue.
func (b *backward) line(text []byte, offset int64) bool {
	for _, h := range b.hints {
		if !h.in(text) {
			return true
		}
	}
	l, err := parseLine(text)
	if err != nil || b.at.Seq > 0 && l.seq >= b.at.Seq {
		return true
	}
	b.at = Cursor{l.seq, offset}
	var e Entry
	if json.Unmarshal(text, &e) != nil || !b.want.wants(e) {
		return true
	}
	e.Raw = bytes.Clone(text)
	return b.use(e, b.at)
}

// wants reports whether a record is wanted. It checks everything that a hint alone cannot
// decide.
func (s Search) wants(e Entry) bool {
	if !s.Wants(e) || s.Upstream != "" && e.Facts.Upstream != s.Upstream {
		return false
	}
	if s.Rule == "" {
		return true
	}
	for _, r := range e.Rules {
		if r.ID == s.Rule {
			return true
		}
	}
	return false
}

// hint is a list of texts: the line of each wanted record contains one of them. Searching
// for a text takes much less time than decoding the line.
type hint [][]byte

func (h hint) in(line []byte) bool {
	for _, text := range h {
		if bytes.Contains(line, text) {
			return true
		}
	}
	return false
}

// hints returns the hints of a search. Hints that fewer records are likely to match come
// first.
func (s Search) hints() (all []hint) {
	field := func(value string, names ...string) {
		if value == "" {
			return
		}
		var h hint
		for _, name := range names {
			h = append(h, spelled(`"`+name+`":"`, value, `"`)...)
		}
		all = append(all, h)
	}
	if s.Text != "" {
		all = append(all, spelled("", s.Text, ""))
	}
	field(s.Session, "session", "box")
	field(s.Rule, "id")
	field(s.Upstream, "upstream")
	field(s.Tenant, "tenant")
	if s.Verdict != "allow" { // a search for allow also wants outcomes, which contain no verdict
		field(s.Verdict, "verdict")
	}
	field(s.Tool, "tool")
	field(string(s.Kind), "kind")
	return all
}

// spelled returns a value as the encoders of records write it, between two other texts.
func spelled(before, value, behind string) hint {
	own := appendString(nil, value)
	h := hint{[]byte(before + string(own[1:len(own)-1]) + behind)}
	if other, err := json.Marshal(value); err == nil && !bytes.Equal(own, other) {
		h = append(h, []byte(before+string(other[1:len(other)-1])+behind))
	}
	return h
}

// ReadRecord returns the record at a cursor. The error may be ErrNoRecord.
func ReadRecord(dir string, at Cursor) (Entry, error) {
	s, err := snapshot(dir)
	if err != nil {
		return Entry{}, err
	}
	defer s.close()
	for i, part := range slices.Backward(s.files) {
		if i == 0 || part.firstSeq() <= at.Seq {
			return part.record(at)
		}
	}
	return Entry{}, ErrNoRecord
}

// record returns the record at a cursor.
func (p part) record(at Cursor) (e Entry, err error) {
	file, size, err := p.opened()
	if err != nil {
		return e, err
	}
	if p.file == nil {
		defer file.Close()
	}
	if at.Offset > size || !holds(file, at) {
		return e, ErrNoRecord
	}
	text := make([]byte, min(maxLine, size-at.Offset))
	if n, err := file.ReadAt(text, at.Offset); err != nil && n < len(text) {
		return e, fmt.Errorf("read %s: %w", p.name, err)
	}
	end := bytes.IndexByte(text, '\n')
	if end < 0 {
		return e, ErrNoRecord
	}
	if err := json.Unmarshal(text[:end], &e); err != nil {
		return e, fmt.Errorf("read %s: record %d: %w", p.name, at.Seq, err)
	}
	e.Raw = text[:end:end]
	return e, nil
}
