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

// meta is the content of set.json.
type meta struct {
	Version     int          `json:"version"`
	Base        string       `json:"base"`
	Tenant      string       `json:"tenant,omitempty"` // tenant whose boxes use the set; empty if no box made it
	Dev         uint64       `json:"dev"`              // device number of the base when the set was made
	Ino         uint64       `json:"ino"`
	UID         uint32       `json:"uid"` // owner of the base, and so of all layers
	GID         uint32       `json:"gid"`
	Perm        uint32       `json:"perm"` // permissions of the base when the set was made
	Created     time.Time    `json:"created"`
	Since       time.Time    `json:"since"`
	Protect     Protect      `json:"protect"`
	Top         string       `json:"top"`
	Calls       int          `json:"calls,omitempty"`  // number of checkpoints of calls since the set was made
	Layers      []string     `json:"layers,omitempty"` // frozen layers, the highest first
	Checkpoints []checkpoint `json:"checkpoints,omitempty"`
}

// Protect is the caller's choice, made with the set, of paths of the base that Apply leaves
// alone. The caller decides which paths that means.
type Protect struct {
	Off  bool     `json:"off,omitempty"`
	Also []string `json:"also,omitempty"`
}

type checkpoint struct {
	Name   string    `json:"name"`
	Time   time.Time `json:"time"`
	Layers []string  `json:"layers,omitempty"`
	Call   bool      `json:"call,omitempty"` // reports whether it was made after a call, so newer ones may push it out
	Note   string    `json:"note,omitempty"` // description of the call
	Boot   string    `json:"boot,omitempty"` // ID of the boot in which it was made; empty once it is on the disk
}

const metaVersion = 1

// all returns the layers that the set needs.
func (m *meta) all() []string {
	all := append([]string{m.Top}, m.Layers...)
	for _, c := range m.Checkpoints {
		all = append(all, c.Layers...)
	}
	return all
}

// held is the open directory of a set, with the content of set.json when it was last read.
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

// alone takes the store's lock until unlock, and checks that the set was not discarded
// before.
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
		err = errors.New("it is not valid")
	case !slices.ContainsFunc(m.all(), func(l string) bool { return !isLayerName(l) }):
		return nil
	default:
		err = errors.New("a layer in it has a name that is not valid")
	}
	return fmt.Errorf("%w: %s: %w; `belljar workspace discard %s` removes what is left of it", ErrTorn, metaName, err, h.id)
}

// write replaces set.json.
func (h *held) write() error { return writeJSON(h.dir, metaName, &h.meta) }

// noteUse records the present time as the last use of the set.
func (h *held) noteUse() {
	_ = unix.UtimesNanoAt(int(h.dir.Fd()), metaName, nil, 0) // if this fails, the set only looks older than it is
}

func (h *held) has(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(int(h.dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// busy takes the set for this program until unlock, and reads set.json again.
func (h *held) busy(how int) error {
	l, err := waitLock(h.dir, busyName, how)
	if err != nil {
		return err
	}
	h.locks = append(h.locks, l)
	return h.read()
}

// busyWithin does the same as busy, but waits only until ctx ends.
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

// quiet keeps boxes from using the set until unlock; live reports that a box works in it. A
// caller that only checks for a box also holds the lock for a short time, so quiet tries
// several times.
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

// writeJSON replaces a small file. After a crash, either the old or the new file exists.
func writeJSON(dir *os.File, name string, what any) error {
	d, err := newDraft(dir, name, what)
	if err != nil {
		return err
	}
	return d.place()
}

// draft is a small file that is on the disk, but does not have its name yet.
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

// place renames the draft to its name, over the present file, and makes that durable.
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

// newJSON writes a new small file. It fails if the file exists.
func newJSON(dir *os.File, name string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if len(text) > maxMeta {
		return fmt.Errorf("%d bytes, at most %d are allowed", len(text), maxMeta)
	}
	return newFile(dir, name, text)
}

// newFile writes a new small file durably. It fails if the file exists.
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

// readSmall reads a whole file of belljar's own; most is its largest size, in bytes.
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

// begin is Create with the store's lock held. After pass has returned, changes of the base
// count as later than the set: see settle.
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

// room returns an error if one more set of that name cannot be made. The caller holds the
// store's lock.
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

// enter puts a new set into the store, with the records of the set that it was forked from.
// The caller holds the store's lock.
func (d *directory) enter(id string, m *meta, records map[string][]byte) error {
	one, err := d.draft(m, records)
	if err != nil {
		return err
	}
	return one.place(id)
}

// setDraft is the directory of a set that does not have its name yet. So a set exists
// either completely or not at all.
type setDraft struct {
	store   *directory
	scratch string
}

// draft writes a set under a scratch name. If it is not used, collect removes it.
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

// place gives the draft the name of its set.
func (d *setDraft) place(id string) error {
	root := int(d.store.root.Fd())
	if err := unix.Renameat2(root, d.scratch, root, setsDir+"/"+id, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	return syncDir(d.store.root, setsDir)
}

// openBase opens the base directory of a set. If the set is fresh, openBase fills in the
// facts about the base; otherwise it checks that the directory is still the same.
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
		// Device numbers may have changed after a reboot, so they are not compared.
		err = fmt.Errorf("%w: %s is not the directory that the set was made for; discard the set", ErrTorn, m.Base)
	case m.UID != st.Uid || m.GID != st.Gid:
		err = fmt.Errorf("%w: %s belongs to %d:%d now, and its layers to %d:%d; restore its owner, or discard the set", ErrTorn, m.Base, st.Uid, st.Gid, m.UID, m.GID)
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// settle returns a time that divides changes: a file that was changed before the call has
// an earlier time, and a file that is changed after pass has returned has a later one.
// Files get the time of the last tick of the clock or a finer one, but never a time in the
// future. So a file that is changed after the call can have an earlier time until the next
// tick, and pass waits for that tick. The caller can do other work before it calls pass. If
// a file can be given the exact time, pass does not wait.
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
			// A tick can be late, and no system call waits for it.
			<-time.After(max(time.Until(last.Add(time.Duration(tick.Nano()))), 100*time.Microsecond))
		}
	}
}

// exact reports whether a file that is changed from now on has a time after t: since Linux
// 6.13, a file whose times were read gets the exact time at its next change, and after that
// no file of the machine gets an earlier time. Older kernels give the time of the last
// tick. See Documentation/filesystems/multigrain-ts.rst.
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
