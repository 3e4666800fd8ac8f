package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
)

// The program that starts is not always the one that execve(2) names: the kernel starts the
// interpreter that the first line of a script names, links lead to programs of another
// name, and the loader of shared libraries starts the program that its words name. So the
// supervisor also looks at the file, from outside and with the caller's own root and
// directory. Like the words, the file may be changed before the kernel reads it again.

const (
	// maxFollowed is how many programs may start one another: the kernel gives up with
	// ELOOP after five interpreters (fs/exec.c), and a loader may stand before each.
	maxFollowed = 12

	// scriptHead is how many bytes of a script the kernel reads, BINPRM_BUF_SIZE.
	scriptHead = 256
)

// errUnread is returned for a file that can be executed but not read.
var errUnread = errors.New("its file can be executed but not read, so it is not known whether it is a script")

// follow completes an exec with the file that it leads to, and with the program
// that is started in its place. The error is ENOENT, ENOTDIR or EACCES if the
// kernel would not find a file either.
func (f *execFiles) follow(pid int, at execPlace, e *policies.Exec) error {
	searched := false // whether a loader looks for the name among its libraries
	for range maxFollowed {
		head, target, err := f.headOf(pid, at)
		switch {
		case err != nil && searched && errors.Is(err, unix.ENOENT):
			return nil
		case err != nil:
			return err
		}
		if target != e.Path {
			e.Target = target
		}
		next := script(e, head)
		searched = false
		if next == nil {
			if next, err = loaded(e); err != nil {
				return err
			}
			// The loader of glibc looks for a bare name among its libraries. That of musl
			// takes the name from the working directory, like the kernel for a script.
			searched = next != nil && !strings.Contains(next.Path, "/")
		}
		if next == nil {
			return nil
		}
		e.Then = next
		e, at = next, execPlace{unix.AT_FDCWD, next.Path}
	}
	return fmt.Errorf("more than %d programs start one another", maxFollowed)
}

// execPlace is where a process names a file, execveat(2): below the directory of a
// descriptor. If the name is empty, the descriptor is the file itself.
type execPlace struct {
	dir  int
	name string
}

// lookAt returns the beginning of the file that a process means, and the path of the file
// itself.
func (f *execFiles) lookAt(pid int, at execPlace) (head []byte, target string, err error) {
	fd, readable, err := f.openFor(pid, at.dir, at.name)
	if err != nil {
		return nil, "", err
	}
	defer unix.Close(fd)
	return headOfOpen(fd, readable)
}

// headOfOpen is lookAt for an open file.
func headOfOpen(fd int, readable bool) (head []byte, target string, err error) {
	if target, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil {
		return nil, "", err
	}
	target = strings.TrimSuffix(target, " (deleted)")
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, "", err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, target, nil // the kernel does not execute it
	case !readable && policies.OfSystem(target):
		return nil, target, nil // no box has written it
	case !readable:
		return nil, target, errUnread
	}
	buf := make([]byte, scriptHead)
	n, err := unix.Pread(fd, buf, 0)
	if err != nil {
		return nil, target, err
	}
	return buf[:n], target, nil
}

// ownFile matches names that lead each process to its own files.
var ownFile = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:/proc/(?:self|thread-self)/(exe|fd/\d+)|/dev/(fd/\d+))$`)
})

// openFor opens a file as a process would.
func (f *execFiles) openFor(pid, dir int, name string) (fd int, readable bool, err error) {
	proc := fmt.Sprintf("/proc/%d/", pid)
	if name == "" {
		return openEither(func(flags uint64) (int, error) {
			return unix.Open(fmt.Sprintf("%sfd/%d", proc, dir), int(flags), 0)
		})
	}
	if own := ownFile().FindStringSubmatch(name); own != nil {
		return openEither(func(flags uint64) (int, error) { return unix.Open(proc+own[1]+own[2], int(flags), 0) })
	}
	root, own, err := f.rootOf(pid)
	if err != nil {
		return 0, false, err
	}
	if own {
		defer unix.Close(root)
	}
	const careful = unix.RESOLVE_NO_MAGICLINKS
	if !strings.HasPrefix(name, "/") {
		base := proc + "cwd"
		if dir != unix.AT_FDCWD {
			base = fmt.Sprintf("%sfd/%d", proc, dir)
		}
		at, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0, false, err
		}
		defer unix.Close(at)
		fd, readable, err := openEither(func(flags uint64) (int, error) {
			return openat2(at, name, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_BENEATH | careful})
		})
		if !errors.Is(err, unix.EXDEV) {
			return fd, readable, err
		}
		// The name leads out of the directory, so the directory's path is needed.
		from, err := pathIn(root, at)
		if err != nil {
			return 0, false, err
		}
		name = from + "/" + name
	}
	return openEither(func(flags uint64) (int, error) {
		return openat2(root, name, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_IN_ROOT | careful})
	})
}

// openEither opens a file to read it or, if that is not allowed, only for its path.
func openEither(open func(flags uint64) (int, error)) (fd int, readable bool, err error) {
	// The flags avoid waiting for the other end of a pipe, and making a terminal
	// the controlling one.
	fd, err = open(unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENXIO) {
		fd, err = open(unix.O_PATH | unix.O_CLOEXEC)
		return fd, false, err
	}
	return fd, err == nil, err
}

// pathIn returns the path of dir below root. It fails if dir is not below root.
func pathIn(root, dir int) (string, error) {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir))
	if err != nil {
		return "", err
	}
	fd, err := openat2(root, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		// Not wrapped: with ENOENT, the program itself would be reported as missing.
		return "", errors.New("its directory cannot be found: " + err.Error())
	}
	defer unix.Close(fd)
	var a, b unix.Stat_t
	if unix.Fstat(fd, &a) != nil || unix.Fstat(dir, &b) != nil || a.Dev != b.Dev || a.Ino != b.Ino {
		return "", errors.New("its directory cannot be found")
	}
	return name, nil
}

// isScript reports whether the kernel starts an interpreter for a file that begins
// with head.
func isScript(head []byte) bool { return bytes.HasPrefix(head, []byte("#!")) }

// script returns the program and argument that the kernel starts for a script that
// begins with head, or nil if it is not a script. It follows load_script of
// fs/binfmt_script.c: there is at most one argument, which is the rest of the line.
func script(e *policies.Exec, head []byte) *policies.Exec {
	if !isScript(head) {
		return nil
	}
	var buf [scriptHead]byte // zeroes after a short file, as in the kernel
	copy(buf[:], head)
	all := buf[2:]
	line := all[:len(all)-1] // the kernel writes the end of the line into the last byte
	text, _, _ := bytes.Cut(all, []byte{0})
	if first, _, ended := bytes.Cut(text, []byte{'\n'}); ended {
		line = first
	} else if !bytes.ContainsAny(bytes.TrimLeft(all, " \t"), " \t\x00") {
		return nil // the name may be cut off
	}
	line = bytes.TrimLeft(bytes.TrimRight(line, " \t"), " \t")
	name, arg := line, []byte(nil)
	if i := bytes.IndexAny(line, " \t\x00"); i >= 0 {
		if name = line[:i]; line[i] != 0 {
			arg = bytes.TrimLeft(line[i:], " \t")
			arg, _, _ = bytes.Cut(arg, []byte{0})
		}
	}
	if len(name) == 0 {
		return nil
	}
	argv := []string{string(name)}
	if arg != nil {
		argv = append(argv, string(arg))
	}
	argv = append(append(argv, e.Path), e.Argv[min(1, len(e.Argv)):]...)
	return &policies.Exec{Path: string(name), Argv: argv, Cut: e.Cut}
}

// loaders are names of ld.so(8), the loader of shared libraries: of glibc, and of musl,
// whose loader is also its C library.
var loaders = []string{"ld.so*", "ld-*.so*", "ld64.so*", "libc.so", "libc.musl-*.so*"}

func isLoader(file string) bool {
	name := path.Base(file)
	return strings.HasPrefix(name, "l") && slices.ContainsFunc(loaders, func(pattern string) bool {
		ok, err := filepath.Match(pattern, name)
		return ok && err == nil
	})
}

// loaded returns the program that a loader of shared libraries starts, or nil if e runs no
// loader, or a loader without a program.
func loaded(e *policies.Exec) (*policies.Exec, error) {
	if !isLoader(e.Path) && !isLoader(e.Target) {
		return nil, nil //nolint:nilnil // documented
	}
	words, name := e.Argv[min(1, len(e.Argv)):], ""
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		option, value, given := strings.Cut(words[0], "=")
		words = words[1:]
		switch option {
		case "--list", "--verify", "--list-tunables", "--list-diagnostics", "--help", "--version":
			return nil, nil //nolint:nilnil // with this option the loader starts no program
		case "--inhibit-cache":
			continue
		case "--library-path", "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask", "--inhibit-rpath", "--audit", "--preload", "--argv0":
		case "--":
			return started(e, words, name), nil
		default:
			return nil, fmt.Errorf("the option %s of %s is not known", option, e.Path)
		}
		if !given && len(words) > 0 {
			value, words = words[0], words[1:]
		}
		if option == "--argv0" {
			name = value
		}
	}
	return started(e, words, name), nil
}

// started returns the program that a loader starts: the words after its options.
func started(e *policies.Exec, words []string, name string) *policies.Exec {
	if len(words) == 0 {
		return nil
	}
	argv := slices.Clone(words)
	if name != "" {
		argv[0] = name
	}
	return &policies.Exec{Path: words[0], Argv: argv, Cut: e.Cut}
}

// headOf is lookAt, or what it returned for the same name at most knownFor ago. The result
// is remembered if the name, each link on the way and the file are in one tree that no box
// can write: a mount over a part of the tree is another mount, and a link that leads out of
// the tree is not followed.
func (f *execFiles) headOf(pid int, at execPlace) (head []byte, target string, err error) {
	dir, rest, ok := f.tree(at.name)
	if !ok {
		return f.lookAt(pid, at)
	}
	begun := time.Now()
	if k, ok := f.known[at.name]; ok && begun.Before(k.until) {
		return k.head, k.target, nil
	}
	fd, readable, err := openEither(func(flags uint64) (int, error) {
		return openat2(dir, rest, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS})
	})
	if err != nil { // for example, a link or a mount leads elsewhere
		return f.lookAt(pid, at)
	}
	defer unix.Close(fd)
	if head, target, err = headOfOpen(fd, readable); err != nil {
		return head, target, err
	}
	k := knownFile{target: target, until: begun.Add(knownFor)}
	if isScript(head) {
		k.head = head
	}
	if len(f.known) >= maxKnown {
		clear(f.known)
	}
	f.known[at.name] = k
	return head, target, nil
}
