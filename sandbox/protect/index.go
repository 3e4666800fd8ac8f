package protect

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// git asks each repository in the work tree that the index names as a submodule for its
// state, at any depth, and follows the configuration of that repository. So if a command
// makes a repository deep in the work tree and adds it to the index, `git status` at the
// top runs its settings (git: diff-lib.c, match_stat_with_submodule). Therefore what the
// index names is looked at as a repository too.

// Bounds of the cost of indexes, which a command cannot exceed. Each part of the path of a
// submodule can be a system call.
const (
	maxIndex     = 64 << 20  // bytes of one index
	maxIndexes   = 256 << 20 // bytes of all indexes that one look reads
	maxLinkParts = 65_536    // parts of the paths that indexes name
)

var errIndex = errors.New("it is not a valid index")

// links looks at the repositories that the index in gitDir names. They are in the work tree
// dir, whose path in the workspace is at. A git directory has as many work trees as ".git"
// files lead to it, and names other repositories in each.
func (l *gitLook) links(dir *os.File, at, gitDir string) {
	index := path.Join(gitDir, "index")
	tree := index + "\x00" + at
	if l.done[tree] {
		return
	}
	l.done[tree] = true
	git, err := openDir(l.p.root, gitDir, unix.O_PATH)
	if err != nil {
		return
	}
	defer git.Close()
	st, err := statAt(git, "index")
	if err != nil || st == nil {
		return // the time of its directory shows when there is one
	}
	g := l.guard(index, rule{why: byGit, loose: true})
	names, err := l.readIndex(git, index, st.Size)
	switch {
	case err == nil:
		g.unread = false
	case l.adopt:
		g.unread = true
		l.note("%s cannot be read; repositories that it names deep in the work tree are not protected", plain(index))
	case !g.unread:
		l.remove(git, index, "index", &rule{why: "git runs what is set in the repositories that it names, and it could not be read (" + err.Error() + ")"})
		return
	}
	if l.quiet(index, st) {
		l.mark(index, st)
	} else {
		text, err := readAt(git, "index", maxConfigText)
		l.markText(index, text)
		l.young = l.young || err != nil
	}
	for _, name := range names {
		l.link(dir, at, name)
	}
}

// readIndex returns what the index in a git directory names. It reads each index once in a
// look, and within the bounds.
func (l *gitLook) readIndex(git *os.File, index string, size int64) ([]string, error) {
	names, known := l.linked[index]
	var err error
	if !known {
		if l.indexes -= size; l.indexes < 0 {
			return nil, errBound
		}
		if names, err = readLinks(git, "index", hashSize(git)); err == nil {
			l.linked[index] = names
		}
	}
	parts := 0
	for _, name := range names {
		parts += strings.Count(name, "/") + 1
	}
	if parts > l.linkParts {
		return nil, errBound
	}
	l.linkParts -= parts
	return names, err
}

// quiet reports whether nothing is left that could change a file through a mapping that
// exists already. Such a write does not show in the times of the file. The first write
// through a new mapping does, except on tmpfs.
func (l *gitLook) quiet(at string, st *unix.Stat_t) bool {
	return (l.adopt || l.last) && l.p.trustAt(at, st).mapped
}

// link looks at one repository that an index names.
func (l *gitLook) link(dir *os.File, at, name string) {
	here := path.Join(at, name)
	if l.done[here+"/"] {
		return
	}
	l.done[here+"/"] = true
	sub, err := openDir(dir, name, unix.O_PATH)
	for err != nil {
		// The repository does not exist, or is behind a link, which git does not follow
		// either. The time of the directory above shows when that changes.
		if name = path.Dir(name); name == "." {
			return
		}
		if sub, err = openDir(dir, name, unix.O_PATH); err == nil {
			l.watchSome(sub, path.Join(at, name))
			sub.Close()
			return
		}
	}
	defer sub.Close()
	l.watchSome(sub, here)
	l.gitAt(sub, here+"/.git")
}

// hashSize returns the size of an object's name in a repository. The configuration states
// it (gitformat-index(5) does not).
func hashSize(git *os.File) int {
	text, err := readAt(git, "config", maxConfigText)
	if err == nil {
		all, _ := readConfig(text)
		for i := range all {
			if all[i].name() == "extensions.objectformat" && all[i].value == "sha256" {
				return 32
			}
		}
	}
	return 20
}

// readLinks returns the paths of submodules in an index (gitformat-index(5)). It reads
// entries wherever git could: one after the other, in the blocks of an offset table, which
// git may read in several threads instead, and in the index that a split index shares.
func readLinks(git *os.File, name string, hash int) ([]string, error) {
	text, err := readAt(git, name, maxIndex)
	if err != nil {
		return nil, err
	}
	r := indexReader{text: text, hash: hash, links: map[string]bool{}}
	if err := r.read(); err != nil {
		return nil, err
	}
	if r.shared != "" && name == "index" {
		more, err := readLinks(git, "sharedindex."+r.shared, hash)
		if err != nil || r.nameless {
			return nil, errIndex
		}
		for _, m := range more {
			r.links[m] = true
		}
	}
	names := make([]string, 0, len(r.links))
	for link := range r.links {
		if clean := path.Clean(link); filepath.IsLocal(clean) && clean != "." {
			names = append(names, clean)
		}
	}
	return names, nil
}

type indexReader struct {
	text     []byte
	hash     int
	version  uint32
	links    map[string]bool
	shared   string // object name of the index that this one extends
	nameless bool   // whether it replaces an entry of that index by a submodule
}

func (r *indexReader) read() error {
	if len(r.text) < 12+r.hash || string(r.text[:4]) != "DIRC" {
		return errIndex
	}
	r.version = binary.BigEndian.Uint32(r.text[4:])
	if r.version < 2 || r.version > 4 {
		return errIndex
	}
	end, err := r.entries(12, binary.BigEndian.Uint32(r.text[8:]))
	if err != nil {
		return err
	}
	if err := r.extensions(end); err != nil {
		return err
	}
	// The last extension may say where the others begin, and git trusts it.
	if at := len(r.text) - r.hash - (8 + 4 + r.hash); at >= end && string(r.text[at:at+4]) == "EOIE" {
		if begin := int(binary.BigEndian.Uint32(r.text[at+8:])); begin != end {
			return errIndex
		}
	}
	return nil
}

// entries reads n entries from an offset on, and returns the offset after them.
func (r *indexReader) entries(at int, n uint32) (int, error) {
	var name []byte
	for range n {
		fixed := 40 + r.hash + 2
		if at < 0 || at+fixed+2 > len(r.text) {
			return 0, errIndex
		}
		e := r.text[at:]
		mode, flags := binary.BigEndian.Uint32(e[24:]), binary.BigEndian.Uint16(e[40+r.hash:])
		if flags&0x4000 != 0 && r.version >= 3 {
			fixed += 2
		}
		if r.version == 4 {
			strip, used := stripLength(e[fixed:])
			if used == 0 || strip > uint64(len(name)) {
				return 0, errIndex
			}
			tail, _, ok := bytes.Cut(e[fixed+used:], []byte{0})
			if !ok {
				return 0, errIndex
			}
			name = append(name[:len(name)-int(strip):len(name)-int(strip)], tail...)
			at += fixed + used + len(tail) + 1
		} else {
			size := int(flags & 0xfff)
			if size == 0xfff {
				if size = bytes.IndexByte(e[fixed:], 0); size < 0 {
					return 0, errIndex
				}
			}
			if fixed+size > len(e) {
				return 0, errIndex
			}
			name = e[fixed : fixed+size]
			at += (fixed + size + 8) &^ 7
		}
		switch mode & unix.S_IFMT {
		case unix.S_IFDIR:
			// A directory of a sparse index: git reads the tree with this name in its
			// place, and that tree can contain submodules (git: sparse-index.c,
			// expand_index).
			return 0, errIndex
		case 0o160000:
			r.links[string(name)] = true
			r.nameless = r.nameless || len(name) == 0
		}
	}
	return at, nil
}

// stripLength reads how many bytes of the name before it a name drops, and in how many
// bytes that is written; used is 0 if they are not valid (git: varint.c, decode_varint).
func stripLength(b []byte) (value uint64, used int) {
	for i, c := range b[:min(len(b), 8)] {
		if i > 0 {
			value++
		}
		value = value<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			return value, i + 1
		}
	}
	return 0, 0
}

func (r *indexReader) extensions(at int) error {
	for at+8 <= len(r.text)-r.hash {
		size := int(binary.BigEndian.Uint32(r.text[at+4:]))
		body := at + 8
		if size > len(r.text)-r.hash-body {
			return errIndex
		}
		switch string(r.text[at : at+4]) {
		case "link":
			if size < r.hash {
				return errIndex
			}
			if r.shared = hex.EncodeToString(r.text[body : body+r.hash]); strings.Trim(r.shared, "0") == "" {
				r.shared = ""
			}
		case "IEOT":
			for block := body + 4; block+8 <= body+size; block += 8 {
				from, n := binary.BigEndian.Uint32(r.text[block:]), binary.BigEndian.Uint32(r.text[block+4:])
				if _, err := r.entries(int(from), n); err != nil {
					return err
				}
			}
		}
		at = body + size
	}
	return nil
}
