package statedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Pruned is a file that Prune removed, or would remove.
type Pruned struct {
	Name  string `json:"name"` // in the state directory
	Bytes int64  `json:"bytes"`
}

// castsDir has the recordings of terminals, which the log names with their digests.
const castsDir = "casts"

// Prune removes what processes that were killed left an hour ago or before, and
// recordings that are older than keep; keep 0 keeps them all. The log itself is not
// touched: its policy says how much of it is kept, and it has a record of what went. With
// dry, nothing is removed.
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

// remove removes a regular file that nobody changed for some time.
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
