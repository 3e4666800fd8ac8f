package protect

import (
	"hash/maphash"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/printable"
	"belljar.dev/sandbox/workspace"
)

// workdir is the directory of a workspace, and what is known about its file system.
type workdir struct {
	root  *os.File
	where string // path on the host
	dev   uint64
	trust              // trust in its file system
	seed  maphash.Seed // seed for sums of texts
}

// place returns a path that a configuration names, relative to the workspace, and whether
// it is in the workspace. from is the directory from which the path starts.
func (w *workdir) place(from, to string) (string, bool) {
	if path.IsAbs(to) {
		for _, top := range []string{w.where, workspace.InBox} {
			if rel, err := filepath.Rel(top, to); err == nil && inside(rel) {
				return rel, true
			}
		}
		return "", false
	}
	to = path.Join(from, to)
	return to, inside(to)
}

// trail returns the links of the workspace that are on a path, and the end to which they
// lead; "." is a place outside, where no box can write.
func (w *workdir) trail(at string) (links []string, end string) {
	done, left := ".", strings.Split(at, "/")
	for len(left) > 0 {
		here := path.Join(done, left[0])
		left = left[1:]
		if !inside(here) {
			return links, "."
		}
		to, err := w.readlink(here)
		if err != nil {
			done = here
			continue
		}
		if links = append(links, here); len(links) > maxLinks {
			return links, "."
		}
		from := path.Dir(here)
		if path.IsAbs(to) {
			rel, ok := w.place(".", to)
			if !ok {
				return links, "."
			}
			from, to = ".", rel
		}
		done, left = from, append(strings.Split(to, "/"), left...)
	}
	return links, done
}

// maxLinks is how many links the kernel follows in one path (path_resolution(7)).
const maxLinks = 40

// readlink returns the target of a link of the workspace.
func (w *workdir) readlink(at string) (string, error) {
	dir, err := openDir(w.root, path.Dir(at), unix.O_PATH)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	return readlinkAt(dir, path.Base(at))
}

// within reports whether a path is a directory or is in it.
func within(dir, at string) bool { return at == dir || strings.HasPrefix(at, dir+"/") }

// inside reports whether a clean path relative to the workspace stays in it.
func inside(p string) bool { return p != ".." && !strings.HasPrefix(p, "../") && !path.IsAbs(p) }

// folded returns a path in one spelling for all spellings that a file system could take for
// it: in one case, and without characters that it ignores.
func folded(at string) string {
	if isASCII(at) {
		return strings.ToUpper(at) // upper case is the same here, and most paths are ASCII
	}
	return foldedRunes(at)
}

// isASCII reports whether a text contains only ASCII characters.
func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// foldedRunes is folded for any text.
func foldedRunes(at string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x80 && !printable.Rune(r) {
			return -1
		}
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, ligatures.Replace(at))
}

// foldedSet returns a set of names, folded.
func foldedSet(names ...string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[folded(name)] = true
	}
	return set
}

// ligatures are the characters that a directory that folds case (chattr +F, ext4(5)) takes
// for ASCII letters: the full case folding of Unicode.
var ligatures = strings.NewReplacer("\u00df", "ss", "\u1e9e", "ss", "\ufb00", "ff", "\ufb01", "fi", "\ufb02", "fl", "\ufb03", "ffi", "\ufb04", "ffl", "\ufb05", "st", "\ufb06", "st")
