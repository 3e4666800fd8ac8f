package hostexec

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
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

// partings are the characters that separate a path from the rest of an argument or of a
// variable: --file=/a, @/a, -v/a:/b, file:///a, FILE:/a, or the script of sh -c.
const partings = " \t\n=:,;@'\"`()[]{}<>|&$!?*#"

// checkArgument refuses an argument of a program that runs in dir, if the argument names a
// path which a box can write. The path may also come after the letter of an option (-I/a).
func (b Boxes) checkArgument(arg, dir string) error {
	option := -1
	if strings.HasPrefix(arg, "-") {
		option = strings.IndexByte(arg, '/')
	}
	return b.checkText(arg, dir, reading{option: option, useless: tooLong})
}

// reading says how the paths in a text are found.
type reading struct {
	option  int              // a further position at which a path may begin, or -1
	plain   bool             // addresses are not paths, nor are relative paths without ./ or ../
	useless func(error) bool // reports whether an error of Check only means that the program cannot open the path
}

// checkText refuses an argument, or the value of a variable, that names a path which a box
// can write. The path may be at the beginning of the text, after a parting, or at the
// position of an option. A relative path with a slash begins in dir. Other meanings that a
// program gives to a text are not known here.
func (b Boxes) checkText(text, dir string, r reading) error {
	end := 0 // of the last address
	for i := range len(text) {
		if i != r.option && i > 0 && !strings.ContainsRune(partings, rune(text[i-1])) {
			continue
		}
		if r.plain {
			end = max(end, i+address(text[:i], text[i:]))
			if i < end || !rooted(text[i:]) {
				continue
			}
		}
		rest := text[i:]
		if !strings.Contains(rest, "/") {
			break // a word, and not a path
		}
		rest = rest[:min(len(rest), unix.PathMax)] // the kernel takes no longer path
		if dir, in := b.holds(filepath.Clean(from(dir, rest))); in {
			return fmt.Errorf("%s lies in %s, which a box can write", upTo(rest, partings), dir)
		}
		// File names may contain any character, so a path may end at each parting. Links are
		// not followed for all of these, because a text may have many words: the path ends
		// at the first parting, at the end of an entry of a list, or with the text if it is
		// the first path in it or a value after =.
		paths := []string{upTo(rest, partings), upTo(rest, ":;,")}
		if !strings.Contains(text[:i], "/") || text[i-1] == '=' {
			paths = append(paths, rest)
		}
		for _, path := range slices.Compact(paths) {
			if !strings.Contains(path, "/") {
				continue
			}
			if err := b.Check(from(dir, path)); err != nil && !r.useless(err) {
				return err
			}
		}
	}
	return nil
}

// rooted reports whether a text begins with a path that no name of anything else looks like.
func rooted(text string) bool {
	return strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../")
}

// address returns the length of the address at the beginning of a text, which is 0 if the
// text does not begin with // and a host after a scheme (RFC 3986, section 3.2). An address
// of the web ends with its URL. Any other ends with the host, since the rest may name a
// file, for example that of a certificate. After file: and unix:, a path follows.
func address(before, text string) int {
	scheme, named := strings.CutSuffix(strings.ToLower(before), ":")
	scheme = scheme[strings.LastIndexAny(scheme, partings)+1:]
	host, slashes := strings.CutPrefix(text, "//")
	switch {
	case !named || scheme == "" || !slashes || strings.HasPrefix(host, "/"), scheme == "file", strings.HasPrefix(scheme, "unix"):
		return 0
	case slices.Contains([]string{"http", "https", "ws", "wss"}, scheme):
		return len("//") + len(upTo(host, " \t\n,;'\"`<>|"))
	}
	return len("//") + len(upTo(host, "/?# \t\n,;'\"`<>|"))
}

// tooLong reports whether a text is too long to name a file.
func tooLong(err error) bool { return errors.Is(err, syscall.ENAMETOOLONG) }

// upTo returns the part of a text before the first of some characters.
func upTo(text, ends string) string {
	if end := strings.IndexAny(text, ends); end >= 0 {
		return text[:end]
	}
	return text
}

// from returns a path as a program in dir resolves it.
func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return dir + "/" + path
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
		err = b.Check(words[0])
		for _, word := range words[1:] {
			err = cmp.Or(err, b.checkArgument(word, "/"))
		}
		if err != nil {
			return fmt.Errorf("the first line of %s: %w", name, err)
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
