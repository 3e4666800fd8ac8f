package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Cursor is the place of a record in a log. The zero value is the place behind the last one.
type Cursor struct {
	Seq    uint64
	Offset int64 // of its line in its file
}

// String returns a cursor as ParseCursor reads it.
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
		return Cursor{}, fmt.Errorf("%.40q is not the place of a record", text)
	}
	return c, nil
}

// Search says which records ReadBack wants.
type Search struct {
	Filter
	Rule     string // that decided, or would have
	Upstream string // whose tool was called
	Text     string // that is somewhere in the record
}

// ErrNoRecord is the error for a cursor at which there is no record (any more).
var ErrNoRecord = errors.New("there is no such record in the log (any more)")

// ReadBack calls use with the records before a place, from the last to the first, until use
// returns false or ctx ends, which is not an error. It returns the place at which it stopped,
// from which ReadBack can continue; more says that there are records before that. Lines that
// are not records are left out. ReadBack checks nothing; Verify does.
func ReadBack(ctx context.Context, dir string, before Cursor, want Search, use func(Entry, Cursor) bool) (at Cursor, more bool, err error) {
	s, err := snapshot(dir)
	if err != nil {
		return before, false, err
	}
	defer s.close()
	b := backward{want: want, hints: want.hints(), use: use, at: before}
	for i, part := range slices.Backward(s.files) {
		if before.Seq > 0 && i > 0 && part.firstSeq() > before.Seq {
			continue // all of it comes later
		}
		if stopped, err := b.file(ctx, part); err != nil || stopped {
			return b.at, true, err
		}
	}
	return b.at, false, nil
}

// firstSeq is the number of the first record of a file; zero where it cannot be told.
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

// backward is a reading from the end.
type backward struct {
	want  Search
	hints []hint
	use   func(Entry, Cursor) bool
	at    Cursor // where it is: records before that come next
}

// backBlock is how much is read at once. A line fits into it.
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

// opened is the file of a part, and how much of it counts.
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

// lines takes the lines of a text, which begins at an offset, from the last to the first. It
// returns how much of the beginning is left, since it may be the rest of a line.
func (b *backward) lines(text []byte, from int64) (rest int, stopped bool) {
	end := bytes.LastIndexByte(text, '\n')
	if end < 0 {
		if from == 0 {
			return 0, false // the only line, without its end
		}
		return len(text), false
	}
	for {
		start := bytes.LastIndexByte(text[:end], '\n') + 1
		if start == 0 && from > 0 {
			return end + 1, false
		}
		if !b.line(text[start:end], from+int64(start)) {
			return start, true
		}
		if start == 0 {
			return 0, false
		}
		end = start - 1
	}
}

// line gives a record to use, if it is wanted, and reports whether to go on.
func (b *backward) line(text []byte, offset int64) bool {
	l, err := parseLine(text)
	if err != nil || b.at.Seq > 0 && l.seq >= b.at.Seq {
		return true
	}
	b.at = Cursor{l.seq, offset}
	for _, h := range b.hints {
		if !h.in(text) {
			return true
		}
	}
	var e Entry
	if json.Unmarshal(text, &e) != nil || !b.want.wants(e) {
		return true
	}
	e.Raw = bytes.Clone(text)
	return b.use(e, b.at)
}

// wants reports whether a record passes all that the hints leave open.
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

// hint is texts; the line of each wanted record has one of them. To look for it takes much
// less time than to decode the line.
type hint [][]byte

func (h hint) in(line []byte) bool {
	for _, text := range h {
		if bytes.Contains(line, text) {
			return true
		}
	}
	return false
}

// hints are those of a search.
func (s Search) hints() (all []hint) {
	field := func(name, value string) {
		if value != "" {
			all = append(all, spelled(`"`+name+`":"`, value, `"`))
		}
	}
	field("tenant", s.Tenant)
	field("tool", s.Tool)
	if s.Verdict != "allow" { // which an outcome does not say
		field("verdict", s.Verdict)
	}
	field("id", s.Rule)
	field("upstream", s.Upstream)
	if s.Text != "" {
		all = append(all, spelled("", s.Text, ""))
	}
	return all
}

// spelled is a value as the encoders of records write it, between other texts.
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
