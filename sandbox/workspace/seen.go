package workspace

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// seenName is the file that lists the paths which the set changed while the base had them,
// one path on each line, in base64. After Apply itself has removed a file, a line with its
// path after a "-" is added. If another path of the list is missing from the base, a
// person deleted it.
//
// The layers do not show this. A file that was copied up has an attribute for it, but a
// renamed file has it too. A file that replaced the old one by a rename, which is how
// editors save, does not have it.
const seenName = "seen"

// readSeen reads the record seenName.
func (h *held) readSeen() (map[string]bool, error) {
	text, err := readSmall(h.dir, seenName, maxMarks)
	if errors.Is(err, unix.ENOENT) {
		return map[string]bool{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what was seen: %w", err)
	}
	seen := map[string]bool{}
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	lines.Buffer(nil, 2*maxPath)
	for lines.Scan() {
		name, gone := strings.CutPrefix(lines.Text(), "-")
		if path, err := base64.StdEncoding.DecodeString(name); err == nil { // a crash can leave the last line incomplete
			if gone {
				delete(seen, string(path))
			} else {
				seen[string(path)] = true
			}
		}
	}
	return seen, nil
}

// addSeen adds paths to the record seenName, each after prefix. If that fails, or the
// record has its maximum length, such a file counts as added later.
func (h *held) addSeen(prefix string, paths []string) {
	if len(paths) == 0 {
		return
	}
	fd, err := unix.Openat(int(h.dir.Fd()), seenName, unix.O_RDWR|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), seenName)
	defer f.Close()
	var text strings.Builder
	if !endsLine(f) {
		text.WriteByte('\n') // ends a line that a crash left incomplete
	}
	for _, path := range paths {
		text.WriteString(prefix + base64.StdEncoding.EncodeToString([]byte(path)) + "\n")
	}
	if info, err := f.Stat(); err == nil && info.Size()+int64(text.Len()) <= maxMarks {
		_, _ = f.WriteString(text.String())
	}
}

// endsLine reports whether text that is appended to a file begins a new line.
func endsLine(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return true
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] == '\n'
}

// see adds the paths that both the top and the base have now to the record. It is called
// when a box releases the set and at each checkpoint. If a person deletes a file before
// that, it looks like a file that was never in the base.
func (h *held) see() {
	base, err := openBase(&h.meta, false)
	if err != nil {
		return
	}
	defer base.Close()
	top, err := h.store.upper(h.meta.Top)
	if err != nil {
		return
	}
	defer top.Close()
	seen, err := h.readSeen()
	if err != nil {
		return
	}
	l := looking{seen: seen, left: maxMarked}
	l.dir("", top, base)
	h.addSeen("", l.news)
}

type looking struct {
	seen map[string]bool
	news []string
	left int
}

func (l *looking) dir(at string, top, base *os.File) {
	names, err := listDir(top)
	if err != nil {
		return
	}
	for _, name := range names {
		path := join(at, name)
		if l.left--; l.left < 0 || l.seen[path] || tooDeep(path) != nil {
			continue
		}
		st, err := statAt(top, name)
		if err != nil || st == nil || kindOf(st) == unix.S_IFCHR {
			continue
		}
		if was, err := statAt(base, name); err != nil || was == nil {
			continue
		}
		if !isDir(st) {
			l.news = append(l.news, path)
			continue
		}
		l.enter(path, name, top, base)
	}
}

func (l *looking) enter(path, name string, top, base *os.File) {
	sub, err := openDir(top, name)
	if err != nil {
		return
	}
	defer sub.Close()
	old, err := openDir(base, name)
	if err != nil {
		return // the base has no such directory
	}
	defer old.Close()
	l.dir(path, sub, old)
}

// records returns the files of the set that a fork needs as well.
func (h *held) records() (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, name := range []string{appliedName, seenName} {
		text, err := readSmall(h.dir, name, maxMarks)
		switch {
		case err == nil:
			all[name] = text
		case !errors.Is(err, unix.ENOENT):
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return all, nil
}
