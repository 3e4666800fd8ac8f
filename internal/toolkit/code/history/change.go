package history

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
)

// Change is how a file differs from a commit, with and without later commits.
type Change struct {
	Path           string // relative to the measured directory
	Was            string // the path at the commit if the file was renamed; else empty
	Added, Deleted int    // numbers of lines
	Ranges         []Range
	New            bool // the file did not exist in the commit: all its lines are new
	Gone           bool // the file no longer exists
	Binary         bool // its lines are not counted
}

// Range is a run of changed lines in a file in its present state, from line 1. If lines
// were only deleted, Last is First-1: the deleted lines stood between these two lines.
type Range struct{ First, Last int }

// Touches reports whether one of the lines from first to last was changed, or a line
// between two of them deleted.
func (c Change) Touches(first, last int) bool {
	return c.New || slices.ContainsFunc(c.Ranges, func(r Range) bool {
		if r.Last < r.First {
			return first <= r.Last && r.First <= last
		}
		return r.First <= last && first <= r.Last
	})
}

// BadBase is the error for a base that cannot be used.
type BadBase struct {
	Base, Reason string
}

func (e *BadBase) Error() string { return fmt.Sprintf("the base %q %s", e.Base, e.Reason) }

// maxBase is the longest name of a base, in bytes.
const maxBase = 250

// CheckBase returns a [BadBase] if a text cannot be the name of a commit.
func CheckBase(base string) error {
	switch {
	case base == "":
		return &BadBase{base, "is empty: name a branch, a tag or a commit"}
	case len(base) > maxBase:
		return &BadBase{base[:20] + "...", fmt.Sprintf("is longer than %d bytes", maxBase)}
	case base[0] == '-':
		return &BadBase{base, "begins with a hyphen, like an option"}
	case strings.ContainsFunc(base, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }):
		return &BadBase{base, "contains a control character"}
	}
	return nil
}

// maxFiles is the largest number of changes that are listed.
const maxFiles = 100_000

// Changed returns what was changed since the last commit that the base and the present
// commit are both based on. So later changes to the base do not count. Files that git
// neither has nor ignores are new. dir and root are those of [Measure]. An error is a
// [*BadBase] or the error of ctx. If something else could not be read, Changed returns a
// gap and no changes.
func Changed(ctx context.Context, run Run, dir, root, base string) (all []Change, gaps []code.Gap, err error) {
	if err := CheckBase(base); err != nil {
		return nil, nil, err
	}
	r, reason, err := open(ctx, run, dir, root)
	if err != nil {
		return nil, nil, err
	}
	if reason != "" {
		return nil, []code.Gap{{Field: "base", Reason: reason}}, nil
	}
	from, err := r.fork(ctx, base)
	if err != nil {
		return nil, nil, err
	}
	all, err = r.changes(ctx, from)
	if err == nil {
		gaps, err = r.modules(ctx, "base")
	}
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case err != nil:
		return nil, []code.Gap{{Field: "base", Reason: clause(err)}}, nil
	}
	return all, gaps, nil
}

// fork returns the last commit that base and the present commit are both based on.
func (r repo) fork(ctx context.Context, base string) (string, error) {
	hash, err := r.ask(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", base+"^{commit}")
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", &BadBase{base, "is not a branch, a tag or a commit of this repository"}
	}
	if hash = strings.TrimSuffix(hash, "\n"); !isHash(hash) {
		return "", &BadBase{base, "is not the name of one commit"}
	}
	from, err := r.ask(ctx, "merge-base", hash, "HEAD")
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", &BadBase{base, "has no commit in common with the present one"}
	}
	return strings.TrimSuffix(from, "\n"), nil
}

// changes compares a commit with the present files.
func (r repo) changes(ctx context.Context, from string) ([]Change, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys, err := r.filters(ctx)
	if err != nil {
		return nil, err
	}
	env := settings(r.root, keys)
	out, err := r.stream(ctx, env, append(diffs("diff", "--raw", "--numstat", "-z", from), "--", ".")...)
	if err != nil {
		return nil, err
	}
	all, err := list(newRecords(out, maxBytes))
	if err != nil {
		return nil, err
	}
	out, err = r.stream(ctx, env, append(diffs("diff", "--patch", "--unified=0", from), "--", ".")...)
	if err != nil {
		return nil, err
	}
	ranges, err := parsePatch(out)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Ranges = ranges[all[i].Path]
	}
	out, err = r.stream(ctx, env, "ls-files", "--others", "--exclude-standard", "-z", "--", ".")
	if err != nil {
		return nil, err
	}
	in := newRecords(out, maxBytes)
	for {
		name, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(all) == maxFiles {
			return nil, errBytes
		}
		if !strings.HasSuffix(name, "/") { // else it is a repository within this one
			all = append(all, Change{Path: name, New: true})
		}
	}
	order.By(all, func(a, b *Change) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// list reads the output of --raw --numstat -z: first the kind of change of each file, then
// the numbers of lines of each file.
func list(in *records) (all []Change, err error) {
	at := make(map[string]int) // index in all, by path
	for {
		text, err := in.next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(all) > maxFiles {
			return nil, errBytes
		}
		if isStat(text) {
			s, err := in.stat(text)
			if err != nil {
				return nil, err
			}
			if i, ok := at[s.path]; ok {
				all[i].Added, all[i].Deleted, all[i].Binary = s.added, s.deleted, s.binary
			}
			continue
		}
		words := strings.Fields(text) // :100644 100644 1234567 89abcde R100
		if len(words) != 5 || words[0][0] != ':' {
			return nil, fmt.Errorf("not an entry of --raw: %.80q", text)
		}
		c := Change{New: words[4] == "A", Gone: words[4] == "D"}
		if c.Path, err = in.must(); err != nil {
			return nil, err
		}
		if words[4][0] == 'R' || words[4][0] == 'C' {
			c.Was = c.Path
			if c.Path, err = in.must(); err != nil {
				return nil, err
			}
		}
		if _, twice := at[c.Path]; twice { // an unresolved merge conflict lists a file twice
			continue
		}
		at[c.Path] = len(all)
		all = append(all, c)
	}
}

// maxFilters is the largest number of filter settings that are read from a repository's
// configuration.
const maxFilters = 1000

// filters returns the names of the settings by which the repository's configuration starts
// a program whenever a file's content is compared. They cannot be turned off together, so
// each is overridden by its name.
func (r repo) filters(ctx context.Context) (keys []string, err error) {
	out, err := r.ask(ctx, "config", "--list", "--name-only", "-z")
	if err != nil {
		return nil, err
	}
	in := newRecords(bufio.NewReader(strings.NewReader(out)), maxAnswer)
	for {
		key, err := in.next()
		if errors.Is(err, io.EOF) {
			return keys, nil
		}
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(key, "filter.") {
			continue
		}
		if keys = append(keys, key); len(keys) > maxFilters {
			return nil, fmt.Errorf("the repository's configuration has more than %d settings of filters", maxFilters)
		}
	}
}
