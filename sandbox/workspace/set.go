package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// The files of a set's directory.
const (
	metaName    = "set.json"
	liveName    = "live" // locked while a box works in the set
	busyName    = "busy" // locked while the set is read or changed by a program
	journalName = "apply.json"
	appliedName = "applied"
)

// meta is set.json.
type meta struct {
	Version     int          `json:"version"`
	Base        string       `json:"base"`
	Tenant      string       `json:"tenant,omitempty"` // whose boxes use it; empty where no box made it
	Dev         uint64       `json:"dev"`              // which directory the base is
	Ino         uint64       `json:"ino"`
	UID         uint32       `json:"uid"` // whom it belongs to, and so all layers
	GID         uint32       `json:"gid"`
	Perm        uint32       `json:"perm"` // its permissions when the set was made
	Created     time.Time    `json:"created"`
	Since       time.Time    `json:"since"`
	Protect     Protect      `json:"protect"`
	Top         string       `json:"top"`
	Calls       int          `json:"calls,omitempty"`  // checkpoints of calls there ever were
	Layers      []string     `json:"layers,omitempty"` // frozen, the highest first
	Checkpoints []checkpoint `json:"checkpoints,omitempty"`
}

// Protect is which paths of the base Apply leaves alone, as it was asked for when
// the set was made. The caller decides which they are.
type Protect struct {
	Off  bool     `json:"off,omitempty"`
	Also []string `json:"also,omitempty"`
}

type checkpoint struct {
	Name   string    `json:"name"`
	Time   time.Time `json:"time"`
	Layers []string  `json:"layers,omitempty"`
	Call   bool      `json:"call,omitempty"` // made after a call, and dropped when there are newer ones
	Note   string    `json:"note,omitempty"` // what the call was
	Boot   string    `json:"boot,omitempty"` // which boot of the machine, until it is known to be on the disk
}

const metaVersion = 1

// all are the layers that the set needs.
func (m *meta) all() []string {
	all := append([]string{m.Top}, m.Layers...)
	for _, c := range m.Checkpoints {
		all = append(all, c.Layers...)
	}
	return all
}

// held is the directory of a set, held open, and what it said when it was read.
type held struct {
	store *directory
	id    string
	dir   *os.File
	meta  meta
	locks []*lock
}

// hold opens a set.
func (d *directory) hold(id string) (*held, error) {
	if err := CheckName(id); err != nil {
		return nil, err
	}
	dir, err := openDir(d.root, setsDir+"/"+id)
	if errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("%q: %w; `belljar workspace list` lists the sets", id, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	h := &held{store: d, id: id, dir: dir}
	if err := h.read(); err != nil {
		dir.Close()
		return nil, err
	}
	return h, nil
}

func (h *held) close() {
	h.unlock()
	h.dir.Close()
}

func (h *held) unlock() {
	for _, l := range h.locks {
		l.free()
	}
	h.locks = nil
}

// alone takes the store's lock until close, and checks that the set was not
// discarded before.
func (h *held) alone() error {
	l, err := h.store.lock()
	if err != nil {
		return err
	}
	h.locks = append(h.locks, l)
	var mine unix.Stat_t
	if err := unix.Fstat(int(h.dir.Fd()), &mine); err != nil {
		return err
	}
	now, err := statAt(h.store.root, setsDir+"/"+h.id)
	if err != nil {
		return err
	}
	if now == nil || now.Ino != mine.Ino {
		return ErrNotFound
	}
	return nil
}

// read reads set.json again.
func (h *held) read() error {
	text, err := readSmall(h.dir, metaName, maxMeta)
	if err != nil {
		return fmt.Errorf("%w: read %s: %w; `belljar workspace discard %s` removes what is left of it", ErrTorn, metaName, err, h.id)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	h.meta = meta{}
	err = d.Decode(&h.meta)
	m := &h.meta
	switch {
	case err != nil:
	case m.Version != metaVersion:
		err = fmt.Errorf("its version is %d, and this belljar knows %d", m.Version, metaVersion)
	case !filepath.IsAbs(m.Base) || m.Since.IsZero() || len(m.Layers) >= maxLayers || len(m.Checkpoints) > maxCheckpoints:
		err = errors.New("it makes no sense")
	case !slices.ContainsFunc(m.all(), func(l string) bool { return !isLayerName(l) }):
		return nil
	default:
		err = errors.New("a layer in it has a strange name")
	}
	return fmt.Errorf("%w: %s: %w; `belljar workspace discard %s` removes what is left of it", ErrTorn, metaName, err, h.id)
}

// write replaces set.json.
func (h *held) write() error { return writeJSON(h.dir, metaName, &h.meta) }

func (h *held) has(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(int(h.dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// busy takes the set for this program until close.
func (h *held) busy(how int) error {
	l, err := waitLock(h.dir, busyName, how)
	if err != nil {
		return err
	}
	h.locks = append(h.locks, l)
	return h.read()
}

// busyWithin is busy, but waits only until ctx ends.
func (h *held) busyWithin(ctx context.Context) error {
	for {
		l, err := tryLock(h.dir, busyName, unix.LOCK_EX)
		if err != nil {
			return err
		}
		if l != nil {
			h.locks = append(h.locks, l)
			return h.read()
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
		}
	}
}

// quiet takes the set from boxes until close; live is that one works in it. A caller
// that only asks whether one does also holds the lock for a moment, so it is tried a
// few times.
func (h *held) quiet() (live bool, err error) {
	const tries, pause = 10, 2 * time.Millisecond
	for range tries {
		l, err := tryLock(h.dir, liveName, unix.LOCK_EX)
		if err != nil {
			return false, err
		}
		if l != nil {
			h.locks = append(h.locks, l)
			return false, nil
		}
		<-time.After(pause)
	}
	return true, nil
}

// writeJSON writes a small file so that after a crash there is the old one or
// the new one.
func writeJSON(dir *os.File, name string, what any) error {
	d, err := newDraft(dir, name, what)
	if err != nil {
		return err
	}
	return d.place()
}

// draft is a small file that is on the disk and not in its place yet.
type draft struct {
	dir           *os.File
	name, scratch string
}

func newDraft(dir *os.File, name string, what any) (*draft, error) {
	d := &draft{dir, name, name + "." + newID()}
	if err := newJSON(dir, d.scratch, what); err != nil {
		d.drop()
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return d, nil
}

func (d *draft) drop() { _ = unix.Unlinkat(int(d.dir.Fd()), d.scratch, 0) }

// place puts the draft in the place of the present file, durably.
func (d *draft) place() error {
	err := unix.Renameat(int(d.dir.Fd()), d.scratch, int(d.dir.Fd()), d.name)
	if err == nil {
		err = d.dir.Sync()
	} else {
		d.drop()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", d.name, err)
	}
	return nil
}

// newJSON writes a small file that is not there yet.
func newJSON(dir *os.File, name string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if len(text) > maxMeta {
		return fmt.Errorf("%d bytes, at most %d are taken", len(text), maxMeta)
	}
	return newFile(dir, name, text)
}

// newFile writes a small file that is not there yet, durably.
func newFile(dir *os.File, name string, text []byte) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// readSmall reads a whole file of our own.
func readSmall(dir *os.File, name string, most int64) ([]byte, error) {
	fd, err := openBeneath(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var text bytes.Buffer
	n, err := io.Copy(&text, io.LimitReader(f, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("longer than %d bytes", most)
	}
	return text.Bytes(), err
}

// Create makes a set for a base directory, which must exist. id is its name.
func (s *Store) Create(id, base string, protect Protect) error {
	if err := s.create(id, base, protect); err != nil {
		return fmt.Errorf("make set %s: %w", id, err)
	}
	return nil
}

func (s *Store) create(id, base string, protect Protect) error {
	l, err := s.lock()
	if err != nil {
		return err
	}
	pass, err := s.begin(id, "", base, protect)
	l.free()
	pass()
	return err
}

// begin is Create with the store's lock held. Changes of the base count as later
// than the set from when pass has returned: see settle.
func (s *Store) begin(id, tenant, base string, protect Protect) (pass func(), err error) {
	pass = func() {}
	if err := s.room(id); err != nil {
		return pass, err
	}
	m := meta{Version: metaVersion, Base: base, Tenant: tenant, Created: time.Now().UTC(), Protect: protect}
	dir, err := openBase(&m, true)
	if err != nil {
		return pass, err
	}
	dir.Close()
	m.Since, pass = settle()
	if m.Top, err = s.newLayer(&m); err != nil {
		return pass, err
	}
	if err := s.enter(id, &m, nil); err != nil {
		_ = s.trash(layersDir, m.Top)
		return pass, err
	}
	return pass, nil
}

// room says whether there may be one more set, of that name. The store's lock
// is held.
func (d *directory) room(id string) error {
	if err := CheckName(id); err != nil {
		return err
	}
	ids, err := d.ids()
	switch {
	case err != nil:
		return err
	case slices.Contains(ids, id):
		return ErrExists
	case len(ids) >= maxSets:
		return fmt.Errorf("%d sets: %w; `belljar workspace list` shows them, `belljar workspace prune --empty` removes those without changes, `prune --older-than 720h` those that nobody used for so long", len(ids), ErrTooMany)
	}
	return nil
}

// enter puts a new set into the store, with the records of the one that it
// comes from. The store's lock is held.
func (d *directory) enter(id string, m *meta, records map[string][]byte) error {
	one, err := d.draft(m, records)
	if err != nil {
		return err
	}
	return one.place(id)
}

// setDraft is the directory of a set that is not in its place yet: a set is
// there whole, or not at all.
type setDraft struct {
	store   *directory
	scratch string
}

// draft writes a set elsewhere, where it is collected if nothing comes of it.
func (d *directory) draft(m *meta, records map[string][]byte) (*setDraft, error) {
	scratch := newDir + "/" + newID()
	if err := unix.Mkdirat(int(d.root.Fd()), scratch, 0o700); err != nil {
		return nil, err
	}
	dir, err := openDir(d.root, scratch)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	for name, text := range records {
		if err := newFile(dir, name, text); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	if err := newJSON(dir, metaName, m); err != nil {
		return nil, fmt.Errorf("write %s: %w", metaName, err)
	}
	return &setDraft{d, scratch}, nil
}

// place makes it the set of a name.
func (d *setDraft) place(id string) error {
	root := int(d.store.root.Fd())
	if err := unix.Renameat2(root, d.scratch, root, setsDir+"/"+id, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	return syncDir(d.store.root, setsDir)
}

// openBase opens the base directory of a set. A new one learns from it what it
// is; any other checks that it still is that directory.
func openBase(m *meta, fresh bool) (*os.File, error) {
	if !filepath.IsAbs(m.Base) || !utf8.ValidString(m.Base) {
		return nil, fmt.Errorf("workspace %q: its path must be absolute and UTF-8", m.Base)
	}
	fd, err := unix.Open(m.Base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open workspace %s: %w", m.Base, err)
	}
	dir := os.NewFile(uintptr(fd), m.Base)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		dir.Close()
		return nil, fmt.Errorf("open workspace %s: %w", m.Base, err)
	}
	switch {
	case fresh:
		m.Dev, m.Ino, m.UID, m.GID, m.Perm = st.Dev, st.Ino, st.Uid, st.Gid, st.Mode&0o777
	case m.Ino != st.Ino:
		// Device numbers may be others after a reboot.
		err = fmt.Errorf("%w: %s is not the directory that the set was made for; discard the set", ErrTorn, m.Base)
	case m.UID != st.Uid || m.GID != st.Gid:
		err = fmt.Errorf("%w: %s belongs to %d:%d now, and its layers to %d:%d; give it back, or discard the set", ErrTorn, m.Base, st.Uid, st.Gid, m.UID, m.GID)
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// settle returns a time that divides: what was changed before the call has an
// earlier time, and what is changed after pass has returned has a later one. Files
// get the time of the last tick of the clock or a finer one, but never one that is
// still to come. So what is changed after the call can have an earlier time until
// the next tick, which pass waits for. The caller does meanwhile what else has to be
// done. Where a file can be given the exact time, nothing is waited for.
func settle() (divides time.Time, pass func()) {
	divides = time.Now().UTC()
	return divides, func() {
		if exact(divides) {
			return
		}
		for {
			var at, tick unix.Timespec
			if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &at) != nil || unix.ClockGetres(unix.CLOCK_REALTIME_COARSE, &tick) != nil {
				return
			}
			last := time.Unix(at.Unix())
			if !last.Before(divides) {
				return
			}
			// A tick that is due can be late, and there is no way to wait for it.
			<-time.After(max(time.Until(last.Add(time.Duration(tick.Nano()))), 100*time.Microsecond))
		}
	}
}

// exact reports whether what is changed from now on has a time after t: since Linux
// 6.13, a file that was looked at gets the exact time at its next change, and from
// then on no file of the machine gets an earlier one. Older kernels give the time of
// the last tick. See Documentation/filesystems/multigrain-ts.rst.
func exact(t time.Time) bool {
	fd, err := unix.MemfdCreate("time", unix.MFD_CLOEXEC)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || unix.Fchmod(fd, 0o600) != nil || unix.Fstat(fd, &st) != nil {
		return false
	}
	return time.Unix(st.Ctim.Unix()).After(t)
}
