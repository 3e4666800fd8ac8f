package protect

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/printable"
)

// guard returns the guard of a path for this look. A new one says that nothing was
// at the path when no command ran.
func (l *look) guard(at string, r rule) *guard {
	g := l.p.guards[at]
	if l.settledBefore(at) {
		g.used = true
		return g
	}
	if g == nil {
		g = new(guard)
		l.p.guards[at] = g
		if l.fresh != nil {
			l.fresh[at] = true
		}
	}
	g.watched = g.watched || l.loose
	g.rule, g.used = r, true
	return g
}

// settledBefore reports whether a late adoption must not change what is known of
// a path: a command may have changed it since.
func (l *look) settledBefore(at string) bool {
	return l.late != "" && l.p.guards[at] != nil && !l.fresh[at]
}

// allowed reports whether a rule lets something be where nothing was.
func (l *look) allowed(dir *os.File, name string, st *unix.Stat_t, r *rule, depth int) bool {
	switch {
	case isDir(st):
		return r.dir || r.samples && depth == 0
	case r.samples:
		return isRegular(st) && strings.HasSuffix(name, ".sample")
	case r.text != nil && isRegular(st):
		text, err := readAt(dir, name, 4096)
		return err == nil && r.text(text)
	}
	return false
}

// open opens a directory and marks it. It returns nil if the path is missing, a
// link or a file.
func (l *look) open(dir *os.File, at string) *os.File {
	sub, err := openDir(dir, path.Base(at), unix.O_PATH)
	switch {
	case err == nil:
		l.watch(sub, at)
		return sub
	case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP):
		l.fail(at, err)
	}
	return nil
}

// enter is open for a directory that a box may have closed to its owner to hide
// something in it: enter gives the owner the right to read it back.
func (l *look) enter(dir *os.File, at string) *os.File {
	sub := l.open(dir, at)
	if sub == nil || l.adopt {
		return sub
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(sub.Fd()), &st); err == nil && st.Mode&0o500 != 0o500 {
		if err := chmod(sub, st.Mode|0o700); err != nil {
			l.fail(at, err)
		}
	}
	return sub
}

// watch marks a directory whose entries matter.
func (l *look) watch(dir *os.File, at string) {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		l.fail(at, err)
		return
	}
	l.mark(at, &st)
}

// watchSome is watch within a bound that a command can reach.
func (l *look) watchSome(dir *os.File, at string) {
	if len(l.marked) >= 2*maxMarked {
		l.young = true
		return
	}
	l.watch(dir, at)
}

func (l *look) mark(at string, st *unix.Stat_t) {
	if l.marked[at] {
		return
	}
	l.marked[at] = true
	l.young = l.young || l.mayHide(at, st)
	l.marks = append(l.marks, mark{path: at, id: identOf(st), time: st.Ctim})
}

func (l *look) markText(at string, text []byte) {
	l.marks = append(l.marks, mark{path: at, text: true, sum: maphash.Bytes(l.p.seed, text)})
}

// mayHide reports whether the time of what is at a path may not show its next
// change.
func (l *look) mayHide(at string, st *unix.Stat_t) bool {
	t := l.p.trustAt(cmp.Or(at, "."), st)
	return !t.times || t.tooYoung(st, l.begun)
}

func (l *look) addExtra(at, why string) {
	if at == "." {
		l.note("the workspace itself is named where hooks or configuration are looked for; it cannot be protected as a whole")
		return
	}
	if len(l.extra) >= maxExtra+len(l.p.also) && l.extra[at] == "" {
		l.note("%s is not protected: it is named as one that runs, and at most %d such paths are taken", plain(at), maxExtra)
		return
	}
	l.extra[at] = why
}

func (l *look) fail(at string, err error) {
	if len(l.errs) < maxTold {
		l.errs = append(l.errs, fmt.Errorf("%s: %w", at, err))
	}
}

func (l *look) tell(at, format string, args ...any) {
	switch {
	case len(l.told) < maxTold:
		l.told = append(l.told, Reverted{Path: plain(at), What: fmt.Sprintf(format, args...)})
	case len(l.told) == maxTold:
		l.told = append(l.told, Reverted{Path: plain(at), What: "and other protected paths were put back or removed as well."})
	}
}

func (l *look) note(format string, args ...any) {
	if len(l.notes) < maxTold {
		l.notes = append(l.notes, fmt.Sprintf(format, args...))
	}
}

// plain is a name that a box chose, fit to be shown.
func plain(name string) string {
	const most = 200
	name = strings.Map(func(r rune) rune {
		if r == '`' || !printable.Rune(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "..."
	}
	return name
}
