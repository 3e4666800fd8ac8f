package history

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
)

// field is the part of a result that is incomplete if this package returns a [code.Gap].
const field = "churn"

// History is the changes of the files of a directory in a period.
type History struct {
	Commits int       // number of commits that changed one of the files
	Files   []File    // sorted by score, the highest first
	Newest  time.Time // time of the newest of all commits; zero without commits
	Gaps    []code.Gap
}

// File is the changes of one file. A renamed file is a new file under its new path.
type File struct {
	Path        string // relative to the measured directory
	Was         string // path before the last time that it was renamed in the period
	Commits     int
	Added       int // number of lines
	Deleted     int // number of lines
	Authors     []string
	First, Last time.Time // times of its first and last commit in the period
	Binary      bool      // a commit changed it as a binary file, whose lines are not counted
	Score       float64   // score of the file, from 0 to 1
}

// LogArgs returns the command line of the git command whose output [Parse] reads. git reads
// the commits from its standard input, one name per line. A merge has no files of its own.
func LogArgs(dir string) []string {
	return Args(dir, append(diffs("log", "-z", "--numstat", "--format="+format,
		"--no-show-signature", "--no-decorate", "--no-notes", "--encoding=UTF-8", "--no-walk=unsorted", "--stdin"), "--", ".")...)
}

// Measure counts what was committed since a time. If the time is zero, it counts all
// commits that the last commit is based on. The repository must lie in root, which contains
// dir; both paths are absolute and without symbolic links. An error is the error of ctx;
// anything else that could not be measured is a gap.
//
// The score of a file is 0.6 times its commits plus 0.4 times its lines, added and deleted.
// Both numbers are divided by the highest that a file has.
func Measure(ctx context.Context, run Run, dir, root string, since time.Time) (h History, err error) {
	r, reason, err := open(ctx, run, dir, root)
	if err != nil {
		return h, err
	}
	if reason != "" {
		return History{Gaps: []code.Gap{{Field: field, Reason: reason}}}, nil
	}
	commits, newest, more, err := r.commits(ctx, since)
	if err == nil {
		h, err = r.count(ctx, commits)
	}
	h.Newest = newest
	if err == nil {
		h.Gaps, err = r.modules(ctx, field)
	}
	switch {
	case ctx.Err() != nil:
		return History{}, ctx.Err()
	case err != nil:
		return History{Gaps: []code.Gap{{Field: field, Reason: clause(err)}}}, nil
	}
	if more {
		h.Gaps = append(h.Gaps, code.Gap{Field: field, Reason: fmt.Sprintf("only the newest %d commits are counted", maxCommits)})
	}
	return h, nil
}

// commits returns the names of the commits since a time, one per line, the time of the
// newest of all commits, and whether there are more commits than are read. The time of each
// commit itself decides. git's --since would stop at the first commit that is older, so
// that a single wrong clock would hide the commits before it.
func (r repo) commits(ctx context.Context, since time.Time) (names string, newest time.Time, more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := r.stream(ctx, Env(r.root), "rev-list", "--timestamp", "--max-count="+strconv.Itoa(maxCommits+1), "HEAD", "--")
	if err != nil {
		return "", newest, false, err
	}
	var all strings.Builder
	in := bufio.NewScanner(out)
	for n := 0; in.Scan(); n++ {
		if n == maxCommits {
			return all.String(), newest, true, nil
		}
		seconds, hash, _ := strings.Cut(in.Text(), " ")
		at, err := when(seconds)
		if err != nil || !isHash(hash) {
			return "", newest, false, fmt.Errorf("not a commit: %.80q", in.Text())
		}
		if at.After(newest) {
			newest = at
		}
		if !at.Before(since) {
			all.WriteString(hash + "\n")
		}
	}
	return all.String(), newest, false, in.Err()
}

// count reads the changes of the commits.
func (r repo) count(ctx context.Context, commits string) (h History, err error) {
	if commits == "" { // without a commit, git log would show the last one
		return h, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := r.run(ctx, LogArgs(r.dir), Env(r.root), strings.NewReader(commits))
	if err != nil {
		return h, err
	}
	var t tally
	if err := Parse(out, t.add); err != nil {
		return h, err
	}
	return t.history(), nil
}

// Sum counts the commits in an output of git log, which [Parse] describes.
func Sum(log io.Reader) (History, error) {
	var t tally
	if err := Parse(log, t.add); err != nil {
		return History{}, err
	}
	return t.history(), nil
}

// tally is the counts so far.
type tally struct {
	commits int
	files   map[string]*counted
}

// counted is a file with its authors: the name under each address. The name is that of the
// commit that was read first.
type counted struct {
	File
	authors map[string]string
}

// add counts one commit.
func (t *tally) add(c Commit) bool {
	if len(c.Files) == 0 {
		return true
	}
	if t.files == nil {
		t.files = make(map[string]*counted)
	}
	t.commits++
	for _, s := range c.Files {
		f := t.files[s.Path]
		if f == nil {
			f = &counted{File: File{Path: s.Path, First: c.Time, Last: c.Time}, authors: make(map[string]string)}
			t.files[s.Path] = f
		}
		f.Commits++
		f.Added += s.Added
		f.Deleted += s.Deleted
		f.Binary = f.Binary || s.Binary
		if f.Was == "" {
			f.Was = s.Was
		}
		if c.Time.Before(f.First) {
			f.First = c.Time
		}
		if c.Time.After(f.Last) {
			f.Last = c.Time
		}
		who := strings.ToLower(cmp.Or(c.Email, c.Name))
		if _, known := f.authors[who]; !known {
			f.authors[who] = cmp.Or(c.Name, c.Email)
		}
	}
	return true
}

// history returns the counts, with the scores.
func (t *tally) history() History {
	h := History{Commits: t.commits}
	commits, lines := 0, 0
	for _, f := range t.files {
		commits, lines = max(commits, f.Commits), max(lines, f.Added+f.Deleted)
	}
	for _, f := range t.files {
		f.Authors = slices.Sorted(maps.Values(f.authors))
		f.Score = 0.6 * float64(f.Commits) / float64(commits)
		if lines > 0 {
			f.Score += 0.4 * float64(f.Added+f.Deleted) / float64(lines)
		}
		h.Files = append(h.Files, f.File)
	}
	order.By(h.Files, func(a, b *File) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Path, b.Path))
	})
	return h
}
