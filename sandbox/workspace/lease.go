package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Lease is the right to mount a set. The set is live until the lease is closed. The caller
// must unmount the set and then Close the Lease.
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
	turn  chan struct{} // semaphore, held while a checkpoint of a call is made
	gone  chan struct{} // closed when the lease is closed
	loose bool          // reports whether a checkpoint of a call was made; guarded by turn
}

// Use leases a set. It makes the set if it does not exist; after Settle, changes of the
// base count as later than the set. Use fails with ErrLive if the set is leased already,
// and with another error if the set belongs to another base or tenant.
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

// Settle waits until a change of the base would count as later than the set: at most one
// tick of the kernel's clock after Use. Until then, Apply can mistake a file that a person
// has just changed for the file that the box saw. So nothing may run in the set before
// Settle has returned.
func (l *Lease) Settle() { l.pass() }

// open takes the set and opens its base and layers. If the set is fresh, no other set can
// have its layer, so open does not look at the other sets. The caller holds the store's
// lock.
func (l *Lease) open(tenant, base string, fresh bool) error {
	h, s := l.held, l.store
	if h.meta.Tenant != tenant && h.meta.Tenant != "" { // sets of earlier versions have no tenant
		return fmt.Errorf("it belongs to tenant %s, not to %s; choose another name", h.meta.Tenant, tenant)
	}
	if h.meta.Base != base {
		return fmt.Errorf("it is a set of the workspace %s, not of %s; choose another name, or discard it", h.meta.Base, base)
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
	h.noteUse()
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

// Close waits for a checkpoint that is being made, and releases the set. A set in which
// nothing was ever changed is removed. Close may be called twice.
func (l *Lease) Close() error {
	var err error
	l.once.Do(func() {
		l.turn <- struct{}{} // never released, so no more checkpoints are made
		close(l.gone)
		if l.loose {
			err = l.keepCalls()
		}
		l.held.see()
		l.held.noteUse()
		l.tidy()
		m := &l.held.meta
		if len(m.Layers) == 0 && len(m.Checkpoints) == 0 && l.held.unchanged() {
			gone := l.store.discard(l.ID, l.held.locks[0])
			if !errors.Is(gone, ErrNotFound) && !errors.Is(gone, ErrBusy) { // another program has removed the set or works on it
				err = errors.Join(err, gone)
			}
		}
		l.drop()
	})
	return err
}

// tidy removes the directory that overlayfs made for its own work. Nobody may enter that
// directory, so an ordinary user's rm -r of the store would stop there. The next mount
// makes it again. If removing fails, it does no other harm.
func (l *Lease) tidy() {
	dir, err := os.Open(filepath.Join(l.store.path, layersDir, l.held.meta.Top, workDir))
	if err != nil {
		return
	}
	defer dir.Close()
	_ = removeTree(dir, "work") // name that the kernel gives this directory
}

// NoteUse records that the box uses the set now. Close does so too, but a box whose
// program is killed does not close its lease. NoteUse has no effect once the lease is
// closed.
func (l *Lease) NoteUse() {
	select {
	case <-l.gone:
	default:
		l.held.noteUse()
	}
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

// Dirs returns the paths of the layers, first Top, then Frozen. It is for a caller that
// cannot mount them by descriptor.
func (l *Lease) Dirs() []string {
	m := &l.held.meta
	dirs := []string{filepath.Join(l.store.path, layersDir, m.Top)}
	for i := range l.Frozen {
		dirs = append(dirs, filepath.Join(l.store.path, layersDir, m.Layers[i], upperDir))
	}
	return dirs
}

// Names of the directories in Lease.Top.
const (
	Upper = upperDir
	Work  = workDir
)
