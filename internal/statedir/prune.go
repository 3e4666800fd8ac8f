package statedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Pruned is a file that Prune has removed, or would remove.
type Pruned struct {
	Name  string `json:"name"` // path in the state directory
	Bytes int64  `json:"bytes"`
}

// castsDir is the directory of the recordings of terminals. The log contains their names
// and digests.
const castsDir = "casts"

// Prune removes files that killed processes have left at least an hour ago, and recordings
// that are older than keep. If keep is 0, it removes no recordings. It does not change the
// log itself, whose policy says how much of it is kept, and which records what was removed.
// If dry is set, Prune removes nothing.
func Prune(dir string, keep time.Duration, dry bool) ([]Pruned, error) {
	if err := ours(dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	p := pruning{root: root, dry: dry, all: []Pruned{}}
	left, err := temporary(dir)
	if err != nil {
		return nil, err
	}
	for _, file := range left {
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return p.all, err
		}
		if err := p.remove(name, time.Hour); err != nil {
			return p.all, err
		}
	}
	if keep == 0 {
		return p.all, nil
	}
	casts := filepath.Join(auditPart, castsDir)
	entries, err := fs.ReadDir(root.FS(), casts)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p.all, err
	}
	for _, e := range entries {
		if err := p.remove(filepath.Join(casts, e.Name()), keep); err != nil {
			return p.all, err
		}
	}
	return p.all, nil
}

type pruning struct {
	root *os.Root
	dry  bool
	all  []Pruned
}

// remove removes a regular file that has not changed for the time unused.
func (p *pruning) remove(name string, unused time.Duration) error {
	info, err := p.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || time.Since(info.ModTime()) < unused {
		return nil
	}
	if !p.dry {
		if err := p.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	p.all = append(p.all, Pruned{name, info.Size()})
	return nil
}
