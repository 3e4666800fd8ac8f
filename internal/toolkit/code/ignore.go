package code

import "strings"

// Limits of ignore files: the bytes that are read of one file, and the patterns that a path
// is compared with.
const (
	maxIgnoreFile     = 256 << 10
	maxIgnorePatterns = 5000
)

// ignores are the patterns of the ignore files of a directory and of those above it.
type ignores struct {
	above *ignores
	dir   string // path of the directory, with a slash at its end; empty for the top
	rules []rule // rules of the file, in its order
	total int    // number of rules, including those of the directories above
}

type rule struct {
	glob

	keep bool // the pattern has ! before it: a path that it matches is not ignored
}

// with returns the patterns for a directory that has an ignore file with a text. It leaves
// out the patterns beyond the limit; full reports whether there were any.
func (ig *ignores) with(dir, text string) (all *ignores, full bool) {
	all = &ignores{above: ig, dir: dir}
	if ig != nil {
		all.total = ig.total
	}
	for line := range strings.Lines(text) {
		r, ok := newRule(strings.TrimRight(line, "\r\n"))
		if !ok {
			continue
		}
		if all.total == maxIgnorePatterns {
			full = true
			break
		}
		all.rules = append(all.rules, r)
		all.total++
	}
	return all, full
}

// newRule reads a line of an ignore file. git treats a wrong pattern as one that matches
// nothing.
func newRule(line string) (rule, bool) {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if line == "" || line[0] == '#' {
		return rule{}, false
	}
	var r rule
	if line[0] == '!' {
		r.keep, line = true, line[1:]
	}
	var err error
	r.glob, err = newGlob(line)
	return r, err == nil
}

// match reports whether a path, relative to the top, is ignored. The last pattern that
// matches decides. The patterns of the nearest directory are compared last.
func (ig *ignores) match(file string, dir bool) bool {
	for ; ig != nil; ig = ig.above {
		from := strings.TrimPrefix(file, ig.dir)
		for i := len(ig.rules) - 1; i >= 0; i-- {
			if r := &ig.rules[i]; r.glob.match(from, dir) {
				return !r.keep
			}
		}
	}
	return false
}
