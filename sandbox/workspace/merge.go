package workspace

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// layerDir is a directory of one layer.
type layerDir struct {
	layer int // number of the layer, counted from the top
	dir   *os.File
}

// merged is one directory as the layers above the base have it: the directory of each
// layer, the highest first.
type merged []layerDir

func (m merged) close() {
	for _, d := range m {
		d.dir.Close()
	}
}

// uppers opens the layers of a set, by name.
func (d *directory) uppers(layers []string) (merged, error) {
	var all merged
	for i, l := range layers {
		dir, err := d.upper(l)
		if err != nil {
			all.close()
			return nil, fmt.Errorf("%w: layer %s: %w", ErrTorn, l, err)
		}
		all = append(all, layerDir{i, dir})
	}
	return all, nil
}

// names returns the names in any of the layers, sorted.
func (m merged) names() ([]string, error) {
	var all []string
	for _, d := range m {
		names, err := listDir(d.dir)
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// entry is a name as the layers above the base show it.
type entry struct {
	at       layerDir // directory of the highest layer that has the name
	st       *unix.Stat_t
	whiteout bool
}

// entry looks a name up. It returns nil if no layer has the name.
func (m merged) entry(name string) (*entry, error) {
	for _, d := range m {
		st, err := statAt(d.dir, name)
		if err != nil {
			return nil, err
		}
		if st != nil {
			e := &entry{at: d, st: st}
			e.whiteout = isWhiteout(d.dir, name, st)
			return e, nil
		}
	}
	return nil, nil //nolint:nilnil // documented
}

// isWhiteout reports whether an entry of a layer marks a deleted file.
func isWhiteout(dir *os.File, name string, st *unix.Stat_t) bool {
	if kindOf(st) == unix.S_IFCHR {
		return st.Rdev == 0
	}
	// The other form of a whiteout, for file systems without device files.
	if !isRegular(st) || st.Size != 0 || attr(dir, attrOpaque) != "x" {
		return false
	}
	f, err := openFile(dir, name)
	if err != nil {
		return false
	}
	defer f.Close()
	return attr(f, attrWhiteout) != ""
}

// enter opens a directory in the layers, down to a layer that hides those below it. opaque
// reports whether the base is hidden as well.
func (m merged) enter(name string) (sub merged, opaque bool, err error) {
	for _, d := range m {
		st, err := statAt(d.dir, name)
		if err != nil {
			sub.close()
			return nil, false, err
		}
		if st == nil {
			continue
		}
		if !isDir(st) {
			return sub, true, nil
		}
		dir, err := openDir(d.dir, name)
		if err != nil {
			sub.close()
			return nil, false, err
		}
		sub = append(sub, layerDir{d.layer, dir})
		if attr(dir, attrOpaque) == "y" {
			return sub, true, nil
		}
	}
	return sub, false, nil
}

// join returns the path of a name in a directory of a set.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// tooDeep refuses a path that no system call would take.
func tooDeep(path string) error {
	if len(path) > maxPath || strings.Count(path, "/") > maxDepth {
		return fmt.Errorf("%.60q...: %w: a path has up to %d bytes and %d directories", path, errBound, maxPath, maxDepth)
	}
	return nil
}

// unreadable reports whether an error is about one file, not about the walk.
func unreadable(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENXIO) || errors.Is(err, errBound)
}
