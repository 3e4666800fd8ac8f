package workspace

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// change opens a set to change its layers. Until h is closed, nobody else can open the set,
// and no set is added or removed. live reports whether a box works in the set.
func (d *directory) change(id string) (h *held, live bool, err error) {
	h, err = d.hold(id)
	if err != nil {
		return nil, false, err
	}
	// The lock of the set comes first: nobody waits for it while holding the
	// store's lock.
	err = h.busy(unix.LOCK_EX)
	if err == nil {
		err = h.alone()
	}
	if err == nil {
		live, err = h.quiet()
	}
	if err == nil {
		var ids []string
		if ids, err = d.ids(); err == nil {
			err = d.whole(&h.meta, d.users(ids))
		}
	}
	if err != nil {
		h.close()
		return nil, false, err
	}
	return h, live, nil
}

// freeze turns the present content of the set into layers that never change again, and
// returns them. If a box works in the set, freeze copies its top, which costs as much as
// was changed, and the set itself does not change. Otherwise the top itself becomes one of
// the layers, the set gets a new top, and changed is true. The caller must then write the
// set before anybody else gets the layers.
func (h *held) freeze(live bool) (layers []string, changed bool, err error) {
	s, m := h.store, &h.meta
	none, err := s.empty(m.Top)
	if err != nil || none {
		return m.Layers, false, err
	}
	full := len(m.Layers)+2 > maxLayers
	if live {
		h.see()
		// The layers below are mounted, so the set keeps them even if the copy merges them.
		copied, below := []string{m.Top}, m.Layers
		if full {
			copied, below = append(copied, m.Layers...), nil
		}
		frozen, err := s.copyLayers(m, copied)
		if err != nil {
			return nil, false, err
		}
		return append([]string{frozen}, below...), false, nil
	}
	if full {
		if err := h.flatten(); err != nil {
			return nil, false, err
		}
	}
	top, err := s.newLayer(m)
	if err != nil {
		return nil, false, err
	}
	m.Layers, m.Top = append([]string{m.Top}, m.Layers...), top
	return m.Layers, true, nil
}

// flatten merges all frozen layers into one, so that there is room for more.
func (h *held) flatten() error {
	one, err := h.store.copyLayers(&h.meta, h.meta.Layers)
	if err != nil {
		return fmt.Errorf("merge %d layers: %w", len(h.meta.Layers), err)
	}
	h.meta.Layers = []string{one}
	return nil
}

// Fork makes a second set with the present content of the first. Later changes of
// one do not affect the other. The cost does not depend on the size of the base and
// the changes, unless a box works in the set: then Fork copies the top, file by
// file, while the box may continue to write.
func (s *Store) Fork(id, fork string) error {
	if err := s.fork(id, fork); err != nil {
		return fmt.Errorf("fork set %s: %w", id, err)
	}
	return nil
}

func (s *Store) fork(id, fork string) error {
	h, live, err := s.change(id)
	if err != nil {
		return err
	}
	defer h.close()
	if err := s.room(fork); err != nil {
		return err
	}
	if h.has(journalName) {
		return errors.New("an apply of it was interrupted; run that again first")
	}
	records, err := h.records()
	if err != nil {
		return err
	}
	layers, changed, err := h.freeze(live)
	if err != nil {
		return err
	}
	m := h.meta
	m.Created, m.Layers = time.Now().UTC(), layers
	m.Checkpoints = slices.Clone(m.Checkpoints)
	if m.Top, err = s.newLayer(&m); err != nil {
		return err
	}
	if !changed {
		h.noteUse() // otherwise part writes the set
		return s.enter(fork, &m, records)
	}
	return h.part(fork, &m, records)
}

// part writes a set whose top was frozen, and enters the fork that shares the layer. Both
// files are written to the disk at the same time, because each write waits for the disk.
// Then the set's file takes its place first and the fork's file second, so that a crash can
// leave an unused layer, but never a top that is a layer of another set too.
func (h *held) part(fork string, m *meta, records map[string][]byte) error {
	var (
		both sync.WaitGroup
		mine *draft
		err  error
	)
	both.Go(func() { mine, err = newDraft(h.dir, metaName, &h.meta) })
	d, err2 := h.store.draft(m, records)
	both.Wait()
	if err == nil && err2 != nil {
		mine.drop()
	}
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if err := mine.place(); err != nil {
		return err
	}
	return d.place(fork)
}

// Checkpoint saves the present content of the set under a name. It refuses a name
// that is in use.
func (s *Store) Checkpoint(id, name string) error {
	if err := s.checkpoint(id, name); err != nil {
		return fmt.Errorf("checkpoint set %s: %w", id, err)
	}
	return nil
}

func (s *Store) checkpoint(id, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	h, live, err := s.change(id)
	if err != nil {
		return err
	}
	defer h.close()
	m := &h.meta
	if slices.ContainsFunc(m.Checkpoints, func(c checkpoint) bool { return c.Name == name }) {
		return fmt.Errorf("there is a checkpoint %q already; choose another name", name)
	}
	before := len(m.Checkpoints)
	if err := m.room(); err != nil {
		return err
	}
	layers, _, err := h.freeze(live)
	if err != nil {
		return err
	}
	dropped := len(m.Checkpoints) < before
	m.Checkpoints = append(m.Checkpoints, checkpoint{Name: name, Time: time.Now().UTC(), Layers: layers})
	if err := h.write(); err != nil {
		return err
	}
	if dropped {
		s.collect()
		s.sweep()
	}
	return nil
}

// Rollback restores the set to a checkpoint and removes later checkpoints. No box
// may work in the set.
func (s *Store) Rollback(id, name string) error {
	if err := s.rollback(id, name); err != nil {
		return fmt.Errorf("roll back set %s: %w", id, err)
	}
	return nil
}

func (s *Store) rollback(id, name string) error {
	h, live, err := s.change(id)
	if err != nil {
		return err
	}
	defer h.close()
	if live {
		return fmt.Errorf("%w, so its layers are mounted and cannot be exchanged; end the session or the `belljar run` that uses it, then roll back", ErrLive)
	}
	m := &h.meta
	i := slices.IndexFunc(m.Checkpoints, func(c checkpoint) bool { return c.Name == name })
	if i < 0 {
		return fmt.Errorf("no checkpoint has the name %q; `belljar workspace list` lists them", name)
	}
	if err := m.Checkpoints[i].torn(); err != nil {
		return err
	}
	m.Layers, m.Checkpoints = m.Checkpoints[i].Layers, m.Checkpoints[:i+1]
	if m.Top, err = s.newLayer(m); err != nil {
		return err
	}
	if err := h.write(); err != nil {
		return err
	}
	s.collect()
	s.sweep()
	return nil
}

// Discard removes a set with all its changes. It does not change the base. Discard returns
// before the files are removed; they are removed in the background, and Close waits for
// that. A damaged set can be discarded too. No box may work in the set.
func (s *Store) Discard(id string) error {
	if err := s.discard(id, nil); err != nil {
		return fmt.Errorf("discard set %s: %w", id, err)
	}
	return nil
}

// discard is Discard. If mine is not nil, it is the lock of the box that worked in
// the set and has ended.
func (s *Store) discard(id string, mine *lock) error {
	if err := CheckName(id); err != nil {
		return err
	}
	dir, err := openDir(s.root, setsDir+"/"+id)
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%w; `belljar workspace list` lists the sets", ErrNotFound)
	}
	if err != nil {
		return err
	}
	h := &held{store: &s.directory, id: id, dir: dir} // set.json is not read, because the set may be damaged
	defer h.close()
	if mine == nil {
		live, err := h.quiet()
		if err != nil {
			return err
		}
		if live {
			return fmt.Errorf("%w; first end the session or the `belljar run` that uses it", ErrLive)
		}
	}
	busy, err := waitLock(dir, busyName, unix.LOCK_EX)
	if err != nil {
		return err
	}
	h.locks = append(h.locks, busy)
	return h.discard()
}

// discard removes a busy set in which no box works.
func (h *held) discard() error {
	if h.has(journalName) && h.read() == nil {
		h.tidyUp()
	}
	if err := h.alone(); err != nil {
		return err
	}
	if err := h.store.trash(setsDir, h.id); err != nil {
		return err
	}
	h.store.collect()
	h.store.sweep()
	return nil
}

// tidyUp removes the scratch files of an interrupted Apply from the base, as far as they
// still exist.
func (h *held) tidyUp() {
	base, err := openBase(&h.meta, false)
	if err != nil {
		return
	}
	defer base.Close()
	o := &open{held: h, base: base}
	_, _ = o.tidy() // the names of files that are left show that they are belljar's
}
