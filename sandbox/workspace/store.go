package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Errors of a store. The errors that wrap them name the set and say what to do.
var (
	ErrNotFound = errors.New("there is no such set")
	ErrExists   = errors.New("a set of that name exists already")
	ErrLive     = errors.New("a box works in the set")
	ErrBusy     = errors.New("another program works on the set")
	ErrTooMany  = errors.New("no more are allowed")
	ErrTorn     = errors.New("the set is damaged")
	ErrConflict = errors.New("the workspace changed as well")
)

// Bounds of a store.
const (
	maxSets        = 256
	maxLayers      = 64      // layers of one set, its top included; overlayfs takes 500
	maxCheckpoints = 64      // checkpoints of one set
	maxMeta        = 1 << 20 // bytes of set.json, and of the small files beside it
	maxName        = 64      // bytes of the name of a set or checkpoint
	lockPatience   = 5 * time.Second
)

// Store is a directory of sets. Its methods are safe for concurrent use. Several programs
// may use the same directory.
type Store struct{ directory }

// The directories of a store, and its locks.
const (
	setsDir   = "sets"
	layersDir = "layers"
	newDir    = "new" // sets that are being made
	trashDir  = "trash"
	lockName  = "lock"  // see directory.lock
	applyName = "apply" // file that is locked while a set is applied
)

// Open opens the store in a directory. It makes the directory, closed to other
// users, if it does not exist. The caller must Close the Store.
func Open(dir string) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open workspaces: %w", err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, fmt.Errorf("open workspaces: %w", err)
	}
	fd, err := unix.Open(abs, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open workspaces %s: %w", abs, err)
	}
	s := &Store{directory{path: abs, root: os.NewFile(uintptr(fd), abs)}}
	if err := s.prepare(); err != nil {
		s.root.Close()
		return nil, fmt.Errorf("open workspaces %s: %w", abs, err)
	}
	return s, nil
}

// prepare checks that other users cannot enter the store, makes its directories, and
// removes what no set uses.
func (d *directory) prepare() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(d.root.Fd()), &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return fmt.Errorf("it must belong to uid %d and be closed to others, but belongs to uid %d with mode %o; correct that, or name another directory with --state", os.Geteuid(), st.Uid, st.Mode&0o7777)
	}
	for _, name := range []string{setsDir, layersDir, newDir, trashDir} {
		if err := unix.Mkdirat(int(d.root.Fd()), name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make %s: %w", name, err)
		}
	}
	// collect removes what a crash has left. If another program works in the store, that is
	// put off until a later Open.
	l, err := tryLock(d.root, lockName, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer l.free()
	if l != nil {
		d.collect()
	}
	d.sweep()
	return nil
}

// Close waits until discarded sets are removed from the disk, and closes the store. It may
// be called twice.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.wg.Wait()
	return s.root.Close()
}

// Info describes a set without looking into its layers.
type Info struct {
	ID          string       `json:"id"`
	Tenant      string       `json:"tenant,omitempty"` // tenant of the set, if a box made it
	Base        string       `json:"base"`             // directory of the host
	Created     time.Time    `json:"created"`
	Used        time.Time    `json:"used"`                  // time of the last use by a box, fork, checkpoint or apply
	Since       time.Time    `json:"since"`                 // changes of the base after this time are conflicts
	Layers      int          `json:"layers"`                // number of frozen layers
	Live        bool         `json:"live"`                  // reports whether a box works in it
	Interrupted bool         `json:"interrupted,omitempty"` // reports whether an Apply was cut off
	Checkpoints []Checkpoint `json:"checkpoints,omitempty"`
	Torn        string       `json:"torn,omitempty"` // reason why the set cannot be used
}

// Checkpoint is a state of a set to which it can be rolled back.
type Checkpoint struct {
	Name string    `json:"name"`
	Time time.Time `json:"time"`
	Call bool      `json:"call,omitempty"` // reports whether it was made automatically after a call
	Note string    `json:"note,omitempty"` // description of that call
}

// List returns the sets of the store, sorted by name. A damaged set is listed with the
// reason in Torn.
func (s *Store) List() ([]Info, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	users := s.users(ids)
	all := make([]Info, 0, len(ids))
	for _, id := range ids {
		info, err := s.info(id, users)
		if errors.Is(err, ErrNotFound) {
			continue // the set was removed meanwhile
		}
		if err != nil {
			info = Info{ID: id, Torn: err.Error()}
		}
		all = append(all, info)
	}
	return all, nil
}

// Info returns what is known of one set.
func (s *Store) Info(id string) (Info, error) {
	ids, err := s.ids()
	if err != nil {
		return Info{}, fmt.Errorf("look at set %s: %w", id, err)
	}
	info, err := s.info(id, s.users(ids))
	if err != nil {
		return Info{}, fmt.Errorf("look at set %s: %w", id, err)
	}
	return info, nil
}

func (d *directory) info(id string, users map[string]int) (Info, error) {
	h, err := d.hold(id)
	if err != nil {
		return Info{}, err
	}
	defer h.close()
	m := h.meta
	info := Info{ID: id, Tenant: m.Tenant, Base: m.Base, Created: m.Created, Since: m.Since, Layers: len(m.Layers)}
	if st, err := statAt(h.dir, metaName); err == nil && st != nil {
		info.Used = time.Unix(st.Mtim.Unix()).UTC()
	}
	for _, c := range m.Checkpoints {
		info.Checkpoints = append(info.Checkpoints, Checkpoint{c.Name, c.Time, c.Call, c.Note})
	}
	if err := d.whole(&m, users); err != nil {
		info.Torn = err.Error()
	}
	info.Interrupted = h.has(journalName)
	l, err := tryLock(h.dir, liveName, unix.LOCK_SH)
	info.Live = err == nil && l == nil
	l.free()
	return info, nil
}
