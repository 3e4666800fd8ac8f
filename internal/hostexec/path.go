package hostexec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Boxes are the directories that boxes can write. The zero value is refused: a caller
// without such directories uses WrittenIn().
type Boxes struct {
	known  bool
	dirs   []string // absolute and cleaned paths; if one is a link, also its target
	inside bool     // whether the paths are those that a box sees
}

// WrittenIn returns Boxes that can write some directories, given by their absolute paths.
func WrittenIn(dirs ...string) Boxes {
	b := Boxes{known: true}
	for _, dir := range dirs {
		b.dirs = append(b.dirs, filepath.Clean(dir))
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
			b.dirs = append(b.dirs, real)
		}
	}
	return b
}

// WrittenInside is WrittenIn for paths as a program in a box sees them. The host cannot
// look at these paths, so links are not followed.
func WrittenInside(dirs ...string) Boxes {
	b := Boxes{known: true, inside: true}
	for _, dir := range dirs {
		b.dirs = append(b.dirs, filepath.Clean(dir))
	}
	return b
}

// holds reports whether a cleaned absolute path lies in a directory that boxes can write,
// and returns this directory.
func (b Boxes) holds(path string) (dir string, in bool) {
	for _, dir := range b.dirs {
		if path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") {
			return dir, true
		}
	}
	return "", false
}

// maxLinks is the most symbolic links that the kernel follows in one path
// (path_resolution(7)).
const maxLinks = 40

// Check returns an error if a path cannot be trusted, because the path or a link on the way
// lies in a directory that a box can write. It is not enough to look at the end of the
// path: a link in the workspace can point to a proper program today, and to another one
// tomorrow. A path need not exist; the part that exists is followed.
func (b Boxes) Check(path string) error {
	if !b.known {
		return errors.New("the directories that boxes can write are not named")
	}
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is not an absolute path", path)
	}
	// The path is not cleaned: a/link/.. is the parent of the link's target.
	at, rest, links := "/", strings.Split(path, "/"), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		if dir, in := b.holds(next); in {
			return fmt.Errorf("%s lies in %s, which a box can write", path, dir)
		}
		if b.inside {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		switch {
		case err == nil:
			if links++; links > maxLinks {
				return &fs.PathError{Op: "resolve", Path: path, Err: syscall.ELOOP}
			}
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
		case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			at = next // next is not a link, or does not exist
		default:
			return fmt.Errorf("resolve %s: %w", path, err)
		}
	}
	return nil
}

// cleanPath returns a PATH without entries that a box can write or that depend on the
// working directory.
func (b Boxes) cleanPath(list string) string {
	var kept []string
	for _, dir := range filepath.SplitList(list) {
		if filepath.IsAbs(dir) && b.Check(dir) == nil {
			kept = append(kept, dir)
		}
	}
	if len(kept) == 0 {
		return standardPath
	}
	return strings.Join(kept, ":")
}

// standardPath is the PATH of the directories that contain programs on any system
// (environ(7), FHS 3.0).
const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// ErrNotFound is the cause of an error if no program has the name.
var ErrNotFound = errors.New("no such program")

// Find returns the absolute path of a program. It looks for a name in the directories of
// list, a PATH, and accepts an absolute path as it is. No box can write the program, or a
// directory or link on the way to it.
func (b Boxes) Find(name, list string) (string, error) {
	if filepath.IsAbs(name) {
		if err := b.Check(name); err != nil {
			return "", err
		}
		if err := executable(name); err != nil {
			return "", err
		}
		return name, b.checkScript(name)
	}
	if strings.Contains(name, "/") {
		return "", fmt.Errorf("%s depends on the working directory; give the whole path of the program, or its name alone", name)
	}
	for _, dir := range filepath.SplitList(b.cleanPath(list)) {
		path := filepath.Join(dir, name)
		if name == "" || executable(path) != nil {
			continue
		}
		// A link in a trusted directory may lead to a directory that a box can write.
		if err := b.Check(path); err != nil {
			return "", err
		}
		return path, b.checkScript(path)
	}
	return "", fmt.Errorf("%s: %w", name, ErrNotFound)
}

const (
	scriptHead      = 256 // most bytes of a script that the kernel reads, BINPRM_BUF_SIZE
	maxInterpreters = 5   // most interpreters that the kernel starts for one another (fs/exec.c)
)

// checkScript returns an error if the kernel would start an interpreter that cannot be
// trusted. The first line of a script names its interpreter (execve(2), "Interpreter
// scripts"), which may lie in the workspace, for example in a virtual environment. The
// interpreter's arguments are checked too: for env(1) they name the program.
func (b Boxes) checkScript(path string) error {
	for name, links := path, 0; ; {
		words, err := firstLine(name)
		switch {
		case err != nil:
			return fmt.Errorf("look whether %s is a script: %w", name, err)
		case len(words) == 0:
			return nil
		case !filepath.IsAbs(words[0]):
			return fmt.Errorf("the first line of %s names %s, which depends on the working directory", name, words[0])
		}
		for _, word := range words {
			if _, value, ok := strings.Cut(word, "="); ok && !filepath.IsAbs(word) {
				word = value
			}
			if !filepath.IsAbs(word) {
				continue
			}
			if err := b.Check(word); err != nil {
				return fmt.Errorf("the first line of %s: %w", name, err)
			}
		}
		name = words[0]
		if links++; links > maxInterpreters {
			return fmt.Errorf("%s: more than %d interpreters start one another", path, maxInterpreters)
		}
	}
}

// firstLine returns the words after the "#!" of a script. For any other file it returns no
// words.
func firstLine(name string) ([]string, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK: opening a FIFO must not block
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		// The kernel does not start an interpreter that does not exist. A script that can
		// be executed but not read is useless to its interpreter.
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer f.Close()
	head := make([]byte, scriptHead)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	line, ok := strings.CutPrefix(string(head[:n]), "#!")
	if !ok {
		return nil, nil
	}
	line, _, _ = strings.Cut(line, "\n")
	return strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == 0 }), nil
}

// executable returns an error if a file cannot be executed.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", path, ErrNotFound)
	case err != nil:
		return err
	case info.IsDir() || info.Mode().Perm()&0o111 == 0:
		return &fs.PathError{Op: "execute", Path: path, Err: syscall.EACCES}
	}
	return nil
}
