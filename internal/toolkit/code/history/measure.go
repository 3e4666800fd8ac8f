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

// field is the part of a result that lacks what a [code.Gap] of this room names.
const field = "churn"

// History is what the files of a directory went through in a period.
type History struct {
	Commits int       // that changed one of the files
	Files   []File    // those with the highest score first
	Newest  time.Time // of all commits; zero for none
	Gaps    []code.Gap
}

// File is what one file went through. A renamed file begins anew under its new path.
type File struct {
	Path        string // from the measured directory
	Was         string // the path before the last time it was renamed in the period
	Commits     int
	Added       int // lines
	Deleted     int // lines
	Authors     []string
	First, Last time.Time // of its commits in the period
	Binary      bool      // a commit changed it whose lines are not counted
	Score       float64   // from 0 to 1
}

// LogArgs is the command line of git for [Parse]. The commits are read from the standard
// input, each as a line with its name; merges have no files of their own.
func LogArgs(dir string) []string {
	return Args(dir, append(diffs("log", "-z", "--numstat", "--format="+format,
		"--no-show-signature", "--no-decorate", "--no-notes", "--encoding=UTF-8", "--no-walk=unsorted", "--stdin"), "--", ".")...)
}

// Measure counts what was committed since a time. Of the zero time it counts all that
// the last commit is based on. The repository must lie in root, which contains dir; both
// are absolute and without symbolic links. An error is one of ctx; what else could not
// be measured is a gap.
//
// A file's score is 0.6 of its commits and 0.4 of its lines, added and deleted, each as
// a part of the highest number that a file has.
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

// commits returns the names of the commits since a time, one a line, the time of the newest
// of all, and whether there are more than are read. Each commit's own time decides. git's --since ends the walk at the first
// commit that is older, and a single wrong clock would hide what lies behind it.
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

// count reads what the commits changed.
func (r repo) count(ctx context.Context, commits string) (h History, err error) {
	if commits == "" { // without one, git log shows the last
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

// Sum counts the commits that an output of git log contains, which [Parse] describes.
func Sum(log io.Reader) (History, error) {
	var t tally
	if err := Parse(log, t.add); err != nil {
		return History{}, err
	}
	return t.history(), nil
}

// tally is what was counted so far.
type tally struct {
	commits int
	files   map[string]*counted
}

// counted is a file with its authors: the name under each address, from the commit that
// was read first.
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

// history is what was counted, with the scores.
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
