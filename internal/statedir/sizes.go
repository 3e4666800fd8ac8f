package statedir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Size is the size of a part.
type Size struct {
	Part

	Files int64 // number of files and directories
	Bytes int64 // bytes on the disk
}

// Sizes returns the sizes of the parts that exist in a state directory. A file that
// disappears in the meantime is not counted.
func Sizes(ctx context.Context, dir string) ([]Size, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	there := map[string]*Size{}
	all := []Size{}
	for _, p := range append(Parts(), Part{Name: other, Bound: "not made by belljar"}) {
		all = append(all, Size{Part: p})
	}
	for i := range all {
		there[all[i].Name] = &all[i]
	}
	for _, e := range entries {
		s := there[e.Name()]
		if s == nil {
			s = there[other]
		}
		if err := s.add(ctx, filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	found := []Size{}
	for _, s := range all {
		if s.Files > 0 {
			found = append(found, s)
		}
	}
	return found, nil
}

// add counts all files below a path. It counts a file with several names only once.
func (s *Size) add(ctx context.Context, top string) error {
	type id struct{ dev, ino uint64 }
	seen := map[id]bool{}
	return filepath.WalkDir(top, func(_ string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info() // data of the link itself, not of its target
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if sys, ok := info.Sys().(*syscall.Stat_t); ok {
			if sys.Nlink > 1 && !d.IsDir() {
				if seen[id{sys.Dev, sys.Ino}] {
					return nil
				}
				seen[id{sys.Dev, sys.Ino}] = true
			}
			const block = 512 // bytes per unit of st_blocks (inode(7))
			s.Bytes += sys.Blocks * block
		}
		s.Files++
		return context.Cause(ctx)
	})
}
