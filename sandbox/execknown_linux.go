package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox/rawsys"
)

// execFiles looks up the files of programs, for one init of a box. A box mostly starts the
// same few programs of the host, which it cannot write. So execFiles remembers for knownFor
// where such a name leads.
type execFiles struct {
	// one says that all processes of the box have the same root and mounts, so that the
	// root and the trees of the first process can be kept for all.
	one   bool
	trees []string          // plan.unwritten
	root  int               // descriptor of the box's root, or -1
	dirs  map[string]int    // descriptors of the trees that are open, by name
	links map[string]string // links from the box's root to the trees, by name
	known map[string]knownFile
}

// knownFile is the file that a name leads to.
type knownFile struct {
	target string
	head   []byte // beginning of a script; nil for another file
	until  time.Time
}

const (
	// knownFor is how long a file is remembered. No box can change the file, but the host
	// may, for example by an upgrade of a package.
	knownFor = time.Second

	// Bounds of what is remembered for a box.
	maxKnown     = 128
	maxKnownName = 256
)

// newExecFiles returns the execFiles of a box with that plan. If each command has mounts of
// its own, nothing can be kept: the mounts of a command that has ended fall apart, so that
// a mount over a file does not hide it any more. A browser's sandbox may change its root,
// chroot(2). No other process of a box may, see package seccomp.
func newExecFiles(p *plan, written ...string) *execFiles {
	f := &execFiles{one: !p.nested && p.nests == 0, root: -1}
	if f.one {
		f.trees = p.unwritten(slices.DeleteFunc(written, func(s string) bool { return s == "" })...)
	}
	return f
}

// unwritten returns the directories of the host's own programs that no process of the box
// can change: the files in them, on the same mount, stay the same for the whole life of the
// box. Boxes write the paths in written, which are paths of the host, and what the box
// mounts writable. A tree that contains one of these, or is inside one, is left out.
func (p *plan) unwritten(written ...string) []string {
	for _, m := range p.mounts {
		if m.writable || m.scratch {
			written = append(written, m.source)
		}
	}
	for i, w := range written {
		w, err := filepath.Abs(w)
		if err != nil {
			return nil
		}
		real, err := filepath.EvalSymlinks(w)
		for ; errors.Is(err, fs.ErrNotExist); real, err = filepath.EvalSymlinks(w) {
			w = filepath.Dir(w) // the directory will be made there
		}
		if err != nil {
			return nil
		}
		written[i] = real
	}
	var trees []string
	for _, m := range p.mounts {
		dir := m.target
		if !m.dir || path.Dir(dir) != "/" || !policies.OfSystem(dir+"/x") ||
			slices.ContainsFunc(written, func(w string) bool { return w == "/" || inTree(dir, w) }) ||
			slices.ContainsFunc(p.mounts, func(o mount) bool { return o.target == dir && o.source != dir }) {
			continue
		}
		// For a link, written contains the directory that the link leads to.
		if real, err := filepath.EvalSymlinks(dir); err == nil && real == dir {
			trees = append(trees, dir)
		}
	}
	return trees
}

// enter opens the root and trees of a box, through the first process that executes a
// program.
func (f *execFiles) enter(listener int, n *notification) {
	if !f.one || f.root >= 0 {
		return
	}
	root, err := openRoot(int(n.pid))
	if err != nil {
		return // the root of each process is then opened separately
	}
	// The process may have ended, and its pid may now be that of a process with the host's
	// root. As long as the notification is valid, the process exists.
	if rawsys.Ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)) != nil {
		unix.Close(root)
		return
	}
	f.root, f.dirs, f.links, f.known = root, map[string]int{}, map[string]string{}, map[string]knownFile{}
	if !closedMount(root) {
		return
	}
	for _, name := range f.trees {
		dir, err := openat2(root, name[1:], &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
		})
		switch {
		case err != nil:
		case closedMount(dir):
			f.dirs[name] = dir
		default:
			unix.Close(dir)
		}
	}
	// If /bin is a link to /usr/bin on the host, it is one in the box too.
	for _, name := range systemTrees {
		to := make([]byte, unix.PathMax)
		if n, err := unix.Readlinkat(root, name[1:], to); err == nil {
			f.links[name] = path.Join("/", string(to[:n]))
		}
	}
}

// closedMount reports whether a mount is read-only.
func closedMount(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Flags&unix.ST_RDONLY != 0
}

// close closes what was kept.
func (f *execFiles) close() {
	for _, fd := range f.dirs {
		unix.Close(fd)
	}
	if f.root >= 0 {
		unix.Close(f.root)
	}
	f.root, f.dirs, f.links, f.known = -1, nil, nil, nil
}

// rootOf opens the root of a process. The caller must close fd if own is set.
func (f *execFiles) rootOf(pid int) (fd int, own bool, err error) {
	if f.root >= 0 {
		return f.root, false, nil
	}
	fd, err = openRoot(pid)
	return fd, true, err
}

func openRoot(pid int) (int, error) {
	return unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// tree returns the open tree in which a name is, and the rest of the name. ok is false for
// a name that may lead to something that a box can change.
func (f *execFiles) tree(name string) (dir int, rest string, ok bool) {
	if len(f.dirs) == 0 || len(name) > maxKnownName || !policies.OfSystem(name) {
		return -1, "", false
	}
	top, rest := firstName(name)
	if to, linked := f.links[top]; linked {
		top, rest = firstName(to + "/" + rest)
	}
	dir, ok = f.dirs[top]
	return dir, rest, ok && rest != ""
}

// firstName splits "/usr/bin/true" into "/usr" and "bin/true".
func firstName(name string) (top, rest string) {
	top, rest, _ = strings.Cut(name[1:], "/")
	return "/" + top, rest
}

// inTree reports whether a path is a directory or lies in it.
func inTree(dir, at string) bool { return at == dir || strings.HasPrefix(at, dir+"/") }
