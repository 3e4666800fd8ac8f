package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxRecord is the longest text between two NULs, such as a path, in bytes.
const maxRecord = 64 << 10

// records reads texts that end in NUL, up to a total number of bytes.
type records struct {
	from *bufio.Reader
	left int64
}

// errBytes is the error of an output that is longer than the limit.
var errBytes = errors.New("the output of git is too long")

func newRecords(from io.Reader, most int64) *records {
	return &records{from: bufio.NewReaderSize(from, maxRecord), left: most}
}

// next returns the text up to the next NUL, and io.EOF after the last one.
func (r *records) next() (string, error) {
	text, err := r.from.ReadSlice(0)
	r.left -= int64(len(text))
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", errBytes
	case errors.Is(err, io.EOF) && len(text) > 0:
		return "", fmt.Errorf("the output of git ends within a record: %w", io.ErrUnexpectedEOF)
	case err != nil:
		return "", err
	case r.left < 0:
		return "", errBytes
	}
	return string(text[:len(text)-1]), nil
}

// must returns the next record. If the output has ended, it returns an error.
func (r *records) must() (string, error) {
	text, err := r.next()
	if errors.Is(err, io.EOF) {
		return "", io.ErrUnexpectedEOF
	}
	return text, err
}

// stat is one entry of --numstat -z.
type stat struct {
	path, was      string // was: path before it was renamed; else empty
	added, deleted int
	binary         bool // if true, added and deleted are not known
}

// isStat reports whether a record begins an entry of --numstat.
func isStat(text string) bool {
	return text != "" && (text[0] == '-' || '0' <= text[0] && text[0] <= '9')
}

// stat reads the rest of an entry of --numstat -z, which begins with the record text:
// added TAB deleted TAB path, or without the path and then two records, the old path
// and the new one.
func (r *records) stat(text string) (s stat, err error) {
	added, rest, ok := strings.Cut(text, "\t")
	deleted, path, ok2 := strings.Cut(rest, "\t")
	if !ok || !ok2 {
		return s, fmt.Errorf("not an entry of --numstat: %.80q", text)
	}
	if s.binary = added == "-" && deleted == "-"; !s.binary {
		if s.added, err = count(added); err != nil {
			return s, err
		}
		if s.deleted, err = count(deleted); err != nil {
			return s, err
		}
	}
	if s.path = path; path != "" {
		return s, nil
	}
	if s.was, err = r.must(); err != nil {
		return s, err
	}
	s.path, err = r.must()
	return s, err
}

// count reads a number of lines.
func count(text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("not a number of lines: %.80q", text)
	}
	return int(n), nil
}
