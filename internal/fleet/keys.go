package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"belljar.dev/internal/diskfile"
)

// Bounds of the keys that a front remembers.
const (
	maxKeyed    = 4096 // workers
	maxKeysOf   = 16   // of one worker: another one means that its log was begun anew
	maxKey      = 512  // bytes
	maxKeysText = maxKeyed * maxKeysOf * (maxKey + 8)
)

// Keys are the public keys of audit logs that each worker has said over its own link. So a
// witness cannot make up that another worker had another one. It is a file; its methods are safe
// for concurrent use, and a nil one knows nothing.
type Keys struct {
	path string

	mu sync.Mutex
	by map[string][]string // guarded by mu: by worker
}

// OpenKeys reads a file, which may not exist yet. One process at a time has it.
func OpenKeys(path string) (*Keys, error) {
	k := &Keys{path: path, by: make(map[string][]string)}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the keys of workers: %w", err)
	}
	defer file.Close()
	if err := json.NewDecoder(io.LimitReader(file, maxKeysText)).Decode(&k.by); err != nil {
		return nil, fmt.Errorf("read the keys of workers in %s: %w; move the file away, and the front learns the keys that its workers have now", path, err)
	}
	if k.by == nil { // the file says null
		k.by = make(map[string][]string)
	}
	return k, nil
}

// note remembers a key of a worker. A key beyond the bound is not remembered.
func (k *Keys) note(worker, key string) error {
	if k == nil || key == "" || len(key) > maxKey {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.by[worker]
	if slices.Contains(known, key) || len(known) >= maxKeysOf || known == nil && len(k.by) >= maxKeyed {
		return nil
	}
	k.by[worker] = append(known, key)
	// The file is small and seldom changes, and no two may write it at once.
	if err := k.write(); err != nil {
		k.by[worker] = known // it is tried again
		return fmt.Errorf("remember the key of worker %s: %w", worker, err)
	}
	return nil
}

// write writes the file, which is there as a whole or as it was before; mu is held.
func (k *Keys) write() error {
	text, err := json.Marshal(k.by)
	if err != nil {
		return err
	}
	return diskfile.Replace(k.path, append(text, '\n'), 0o600)
}

// of returns the keys of a worker; nil where none is known.
func (k *Keys) of(worker string) []string {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.by[worker])
}
