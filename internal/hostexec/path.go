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

// Boxes are the directories that boxes can write. The zero value is refused: a
// caller without such directories says so by WrittenIn().
type Boxes struct {
	known  bool
	dirs   []string // absolute and cleaned; also their targets, where they are links
	inside bool     // the paths are a box's own
}

// WrittenIn are boxes that can write some directories, by their absolute paths.
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

// WrittenInside are the same as a program in a box sees them. Nothing can be looked
// at there, so links are not followed.
func WrittenInside(dirs ...string) Boxes {
	b := Boxes{known: true, inside: true}
	for _, dir := range dirs {
		b.dirs = append(b.dirs, filepath.Clean(dir))
	}
	return b
}

// holds reports whether a cleaned absolute path lies in a directory that boxes can
// write, and in which.
func (b Boxes) holds(path string) (dir string, in bool) {
	for _, dir := range b.dirs {
		if path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") {
			return dir, true
		}
	}
	return "", false
}

// maxLinks is how many symbolic links the kernel follows (path_resolution(7)).
const maxLinks = 40

// Check says why a path cannot be relied on: it lies in a directory that a box
// can write, or a link on the way does. It is not enough to look at where a path
// ends: a link in the workspace can point to a proper program today. A path need
// not exist; the part that does is followed.
func (b Boxes) Check(path string) error {
	if !b.known {
		return errors.New("the directories that boxes can write are not named")
	}
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is not an absolute path", path)
	}
	// Not cleaned: a/link/.. is where the link leads, and above that.
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
			at = next // it is not a link, or it does not exist
		default:
			return fmt.Errorf("resolve %s: %w", path, err)
		}
	}
	return nil
}

// cleanPath is a PATH without entries that a box can write, and without those
// that depend on the working directory.
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

// standardPath is where programs are on any system (environ(7), FHS 3.0).
const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// ErrNotFound is the cause where no program has the name.
var ErrNotFound = errors.New("no such program")

// Find is the absolute path of a program: a name is looked for in the
// directories of list, a PATH, and an absolute path is taken as it is. No box can
// write the program or what leads to it.
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
		// A link in a proper directory may lead to an improper one.
		if err := b.Check(path); err != nil {
			return "", err
		}
		return path, b.checkScript(path)
	}
	return "", fmt.Errorf("%s: %w", name, ErrNotFound)
}

const (
	scriptHead      = 256 // bytes that the kernel reads of a script, BINPRM_BUF_SIZE
	maxInterpreters = 5   // that the kernel starts for one another (fs/exec.c)
)

// checkScript says why what the kernel starts for a program cannot be relied on:
// the first line of a script names its interpreter, which may lie in the workspace:
// that of a virtual environment, for example (execve(2), "Interpreter scripts").
// Its argument is looked at too: for env(1) it is the program.
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

// firstLine is the words behind the "#!" of a script; none of any other file.
func firstLine(name string) ([]string, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not keep us
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		// The kernel starts no interpreter that is not there. A script that can be
		// executed and not read is of no use to its interpreter.
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

// executable says why a file cannot be executed.
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
