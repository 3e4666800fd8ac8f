package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Lease is the right to mount a set. The set is live until the lease is closed. The
// caller must Close it, after the set was unmounted.
type Lease struct {
	ID   string
	Base *os.File // the base directory
	// Top is the directory of the layer that is written. It contains "upper" and
	// "work", which overlayfs needs under one mount.
	Top *os.File
	// Frozen are the upper directories of the frozen layers, the highest first.
	Frozen []*os.File

	store *Store
	held  *held
	pass  func() // see Settle
	once  sync.Once
	turn  chan struct{} // held while a checkpoint of a call is made
	gone  chan struct{} // closed when the lease is
	loose bool          // a checkpoint of a call was made; guarded by turn
}

// Use leases a set. It makes the set if it does not exist; Settle says from when on
// changes of the base count as later. It fails with ErrLive
// if the set is leased already, and with another error if it belongs to another
// base or tenant.
func (s *Store) Use(id, tenant, base string, protect Protect) (*Lease, error) {
	l, err := s.use(id, tenant, base, protect)
	if err != nil {
		return nil, fmt.Errorf("use set %s: %w", id, err)
	}
	return l, nil
}

func (s *Store) use(id, tenant, base string, protect Protect) (*Lease, error) {
	all, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer all.free()
	pass := func() {}
	h, err := s.hold(id)
	fresh := errors.Is(err, ErrNotFound)
	if fresh {
		if pass, err = s.begin(id, tenant, base, protect); err == nil {
			h, err = s.hold(id)
		}
	}
	if err != nil {
		return nil, err
	}
	l := &Lease{ID: id, store: s, held: h, pass: pass, turn: make(chan struct{}, 1), gone: make(chan struct{})}
	if err := l.open(tenant, base, fresh); err != nil {
		l.drop()
		return nil, err
	}
	return l, nil
}

// Settle waits until what is changed in the base counts as changed after the set
// was made: at most one tick of the kernel's clock after Use. Until then Apply can
// take a file that a person has just changed for one that the box saw. So nothing
// may run in the set before Settle has returned.
func (l *Lease) Settle() { l.pass() }

// open takes the set and opens its base and layers. No other set can have the layer
// of a fresh one, so no other is looked at for it. The caller holds the store's
// lock.
func (l *Lease) open(tenant, base string, fresh bool) error {
	h, s := l.held, l.store
	if h.meta.Tenant != tenant && h.meta.Tenant != "" { // sets of earlier versions have no tenant
		return fmt.Errorf("it is one of tenant %s, not of %s; choose another name", h.meta.Tenant, tenant)
	}
	if h.meta.Base != base {
		return fmt.Errorf("it is one of %s, not of %s; choose another name, or discard it", h.meta.Base, base)
	}
	live, err := h.quiet()
	if err != nil {
		return err
	}
	if live {
		return fmt.Errorf("%w; end the session or the `belljar run` that uses it, or fork the set", ErrLive)
	}
	users := map[string]int{}
	if !fresh {
		ids, err := s.ids()
		if err != nil {
			return err
		}
		users = s.users(ids)
	}
	if err := s.whole(&h.meta, users); err != nil {
		return err
	}
	if l.Base, err = openBase(&h.meta, false); err != nil {
		return err
	}
	if l.Top, err = openDir(s.root, filepath.Join(layersDir, h.meta.Top)); err != nil {
		return err
	}
	for _, layer := range h.meta.Layers {
		dir, err := s.upper(layer)
		if err != nil {
			return err
		}
		l.Frozen = append(l.Frozen, dir)
	}
	l.throwAll()
	h.touch()
	return nil
}

func (l *Lease) drop() {
	for _, f := range append([]*os.File{l.Base, l.Top}, l.Frozen...) {
		if f != nil {
			f.Close()
		}
	}
	l.held.close()
}

// Close waits for a checkpoint that is being made, and gives the set back. A set in
// which nothing was ever changed is removed. Close may be called twice.
func (l *Lease) Close() error {
	var err error
	l.once.Do(func() {
		l.turn <- struct{}{} // for good
		close(l.gone)
		if l.loose {
			err = l.keepCalls()
		}
		l.held.see()
		l.held.touch()
		l.tidy()
		m := &l.held.meta
		if len(m.Layers) == 0 && len(m.Checkpoints) == 0 && l.held.unchanged() {
			err = errors.Join(err, l.store.discard(l.ID, l.held.locks[0]))
		}
		l.drop()
	})
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrBusy) {
		return nil // somebody else looks after it
	}
	return err
}

// tidy removes what the mount had for its own work: a directory that nobody may
// enter, at which an ordinary user's rm -r of all this would stop. The next
// mount makes it again, and it only looks untidy where this fails.
func (l *Lease) tidy() {
	dir, err := os.Open(filepath.Join(l.store.path, layersDir, l.held.meta.Top, workDir))
	if err != nil {
		return
	}
	defer dir.Close()
	_ = removeTree(dir, "work") // as the kernel calls it
}

// touch records the present time as the last use of the set.
func (h *held) touch() {
	_ = unix.UtimesNanoAt(int(h.dir.Fd()), metaName, nil, 0) // it only looks older than it is
}

// unchanged reports whether the set has no changes and no checkpoints. It reads the
// set again, because a checkpoint may have been made since it was leased.
func (h *held) unchanged() bool {
	if h.read() != nil || len(h.meta.Layers) > 0 || len(h.meta.Checkpoints) > 0 {
		return false
	}
	if h.has(journalName) || h.has(appliedName) {
		return false
	}
	none, err := h.store.empty(h.meta.Top)
	return err == nil && none
}

// Dirs returns the paths of the layers, for a caller that cannot mount them by
// descriptor: first Top, then Frozen.
func (l *Lease) Dirs() []string {
	m := &l.held.meta
	dirs := []string{filepath.Join(l.store.path, layersDir, m.Top)}
	for i := range l.Frozen {
		dirs = append(dirs, filepath.Join(l.store.path, layersDir, m.Layers[i], upperDir))
	}
	return dirs
}

// The names in the directory of the top.
const (
	Upper = upperDir
	Work  = workDir
)
