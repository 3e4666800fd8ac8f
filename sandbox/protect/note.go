package protect

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/printable"
)

// findings are the results of a look.
type findings struct {
	told     []Reverted // changes that it reverted
	errs     []error
	notes    []string // remarks for the operator
	suspects []string // what changed in doubt, and would run
}

// marking is what a look looked at, with its state then. The next look compares it.
type marking struct {
	in     *workdir
	begun  time.Time // start of the look, by the clock of the times of files
	marks  []mark
	marked map[string]bool // paths that were marked
	young  bool            // whether something changed so recently that its time may not show the next change
}

// guard returns the guard of a path for this look. A new guard says that nothing was at the
// path when no command ran.
func (s *sealer) guard(at string, r rule) *guard {
	g := s.p.guards[at]
	if s.settledBefore(at) {
		g.used = true
		return g
	}
	if g == nil {
		g = new(guard)
		s.p.guards[at] = g
		if s.fresh != nil {
			s.fresh[at] = true
		}
	}
	g.watched = g.watched || s.loose
	g.rule, g.used = r, true
	return g
}

// settledBefore reports whether a late adoption must not change what is known about a path,
// because a command may have changed the path since.
func (s *sealer) settledBefore(at string) bool {
	return s.late != "" && s.p.guards[at] != nil && !s.fresh[at]
}

// allows reports whether a rule allows something at a path where nothing was before.
func (r *rule) allows(dir *os.File, name string, st *unix.Stat_t, depth int) bool {
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
func (s *sealer) open(dir *os.File, at string) *os.File {
	sub, err := openDir(dir, path.Base(at), unix.O_PATH)
	switch {
	case err == nil:
		s.watch(sub, at)
		return sub
	case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP):
		s.fail(at, err)
	}
	return nil
}

// enter is open for a directory that a box may have closed to its owner to hide something
// in it: enter restores the owner's right to read the directory.
func (s *sealer) enter(dir *os.File, at string) *os.File {
	sub := s.open(dir, at)
	if sub == nil || s.adopt {
		return sub
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(sub.Fd()), &st); err == nil && st.Mode&0o500 != 0o500 {
		if err := chmod(sub, st.Mode|0o700); err != nil {
			s.fail(at, err)
		}
	}
	return sub
}

// watch marks a directory whose entries matter.
func (s *sealer) watch(dir *os.File, at string) {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		s.fail(at, err)
		return
	}
	s.mark(at, &st)
}

// watchSome is watch within a bound, which a command can reach.
func (s *sealer) watchSome(dir *os.File, at string) {
	if len(s.marked) >= 2*maxMarked {
		s.young = true
		return
	}
	s.watch(dir, at)
}

func (m *marking) mark(at string, st *unix.Stat_t) {
	if m.marked[at] {
		return
	}
	m.marked[at] = true
	m.young = m.young || m.mayHide(at, st)
	m.marks = append(m.marks, mark{path: at, id: identOf(st), time: st.Ctim})
}

func (m *marking) markText(at string, text []byte) {
	m.marks = append(m.marks, mark{path: at, text: true, sum: maphash.Bytes(m.in.seed, text)})
}

// mayHide reports whether the time of what is at a path may not show its next
// change.
func (m *marking) mayHide(at string, st *unix.Stat_t) bool {
	t := m.in.trustAt(cmp.Or(at, "."), st)
	return !t.times || t.tooYoung(st, m.begun)
}

func (s *sealer) addExtra(at, why string) {
	if at == "." {
		s.note("the workspace itself is named where hooks or configuration are looked for; it cannot be protected as a whole")
		return
	}
	if len(s.extra) >= maxExtra+len(s.p.also) && s.extra[at] == "" {
		s.note("%s is not protected: it is named as a file that runs, and at most %d such paths are protected", plain(at), maxExtra)
		return
	}
	s.extra[at] = why
}

func (f *findings) fail(at string, err error) {
	if len(f.errs) < maxTold {
		f.errs = append(f.errs, fmt.Errorf("%s: %w", plain(at), err))
	}
}

func (f *findings) tell(at, format string, args ...any) {
	switch {
	case len(f.told) < maxTold:
		f.told = append(f.told, Reverted{Path: plain(at), What: fmt.Sprintf(format, args...)})
	case len(f.told) == maxTold:
		f.told = append(f.told, Reverted{Path: plain(at), What: "and other protected paths were put back or removed as well."})
	}
}

func (f *findings) note(format string, args ...any) {
	if len(f.notes) < maxTold {
		f.notes = append(f.notes, fmt.Sprintf(format, args...))
	}
}

// plain returns a name that a box chose, in a form that can be shown.
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
