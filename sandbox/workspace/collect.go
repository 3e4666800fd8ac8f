package workspace

import (
	"errors"
	"fmt"
)

// users returns how many sets use each layer.
func (d *directory) users(ids []string) map[string]int {
	users := map[string]int{}
	for _, id := range ids {
		h, err := d.hold(id)
		if err != nil {
			continue
		}
		seen := map[string]bool{}
		for _, l := range h.meta.all() {
			if !seen[l] {
				seen[l] = true
				users[l]++
			}
		}
		h.close()
	}
	return users
}

// whole returns an error if the layers of a set are missing or shared in a wrong way.
func (d *directory) whole(m *meta, users map[string]int) error {
	if users[m.Top] > 1 {
		return fmt.Errorf("%w: its top is a layer of another set too; discard one of the two", ErrTorn)
	}
	for i, l := range m.all() {
		if i > 0 && l == m.Top {
			return fmt.Errorf("%w: its top is among its frozen layers; discard it", ErrTorn)
		}
		dir, err := d.upper(l)
		if err != nil {
			return fmt.Errorf("%w: layer %s: %w; discard the set", ErrTorn, l, err)
		}
		dir.Close()
	}
	return nil
}

// collect moves layers that no set uses, and unfinished sets, to the trash. The caller
// holds the store's lock.
func (d *directory) collect() {
	ids, err := d.ids()
	if err != nil {
		return
	}
	used := map[string]bool{}
	for _, id := range ids {
		h, err := d.hold(id)
		switch {
		case errors.Is(err, ErrNotFound):
			continue
		case err != nil:
			return // a damaged set may need its layers when it is repaired
		}
		for _, l := range h.meta.all() {
			used[l] = true
		}
		h.close()
	}
	for _, name := range []string{layersDir, newDir} {
		dir, err := openDir(d.root, name)
		if err != nil {
			return
		}
		names, _ := listDir(dir)
		dir.Close()
		for _, n := range names {
			if !used[n] {
				_ = d.trash(name, n) // a failure is tried again at the next Open
			}
		}
	}
}
