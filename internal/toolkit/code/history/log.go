package history

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Limits of one history.
const (
	maxCommits = 100_000
	maxChanges = 2_000_000 // number of changes of files by commits in a log, and of hunks in a diff
	maxBytes   = 1 << 30   // length of the output of git, in bytes
)

// Commit is one commit, with the files that it changed.
type Commit struct {
	Hash  string
	Time  time.Time // time of the commit, not of the author's change
	Email string
	Name  string // name of the author
	Files []Stat
}

// Stat is what one commit changed of one file.
type Stat struct {
	Path           string
	Was            string // path before this commit renamed the file; else empty
	Added, Deleted int
	Binary         bool // its lines are not counted
}

// format is the format of git log that [Parse] reads. No entry of --numstat begins with a
// letter.
const format = "tformat:commit %H%x00%ct%x00%aE%x00%aN"

// Parse reads the output of git log with the options -z, --numstat and the format of
// [LogArgs]. It calls each for each commit in the order of the output, until each returns
// false. Names and paths may contain every byte except NUL.
func Parse(from io.Reader, each func(Commit) bool) error {
	in := newRecords(from, maxBytes)
	changes := 0
	text, err := in.next()
	for err == nil {
		var c Commit
		if c, err = in.header(text); err != nil {
			break
		}
		for text, err = in.next(); err == nil; text, err = in.next() {
			text = strings.TrimPrefix(text, "\n") // between a header and its first entry
			if !isStat(text) {
				break
			}
			if changes++; changes > maxChanges {
				return errBytes
			}
			var s stat
			if s, err = in.stat(text); err != nil {
				break
			}
			c.Files = append(c.Files, Stat{Path: s.path, Was: s.was, Added: s.added, Deleted: s.deleted, Binary: s.binary})
		}
		if err != nil && !errors.Is(err, io.EOF) {
			break
		}
		if !each(c) {
			return nil
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// header reads the rest of the header of a commit, which stands before its files.
func (r *records) header(text string) (c Commit, err error) {
	hash, ok := strings.CutPrefix(text, "commit ")
	if !ok || !isHash(hash) {
		return c, fmt.Errorf("not the header of a commit: %.80q", text)
	}
	c.Hash = hash
	seconds, err := r.must()
	if err != nil {
		return c, err
	}
	if c.Time, err = when(seconds); err != nil {
		return c, err
	}
	if c.Email, err = r.must(); err != nil {
		return c, err
	}
	c.Name, err = r.must()
	return c, err
}

// isHash reports whether a text is the name of a git object.
func isHash(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

// latest is the latest time in seconds: the end of the year 9999, the last that JSON can
// represent.
const latest = 253402300799

// when parses the seconds of a commit.
func when(text string) (time.Time, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return time.Time{}, fmt.Errorf("not a time: %.80q", text)
	}
	return time.Unix(min(n, latest), 0).UTC(), nil
}
