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
	maxKeyed    = 4096 // number of workers
	maxKeysOf   = 16   // number of keys of one worker; a worker has a new key when its log begins again
	maxKey      = 512  // length of a key in bytes
	maxKeysText = maxKeyed * maxKeysOf * (maxKey + 8)
)

// Keys are the public keys of audit logs that each worker has reported over its own link.
// So a witness cannot claim that another worker had another key. The keys are stored in a
// file. The methods are safe for concurrent use, and a nil *Keys contains nothing.
type Keys struct {
	path string

	mu sync.Mutex
	by map[string][]string // guarded by mu: keys by worker
}

// OpenKeys reads a file, which need not exist yet. Only one process at a time may use it.
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
		return nil, fmt.Errorf("read the keys of workers in %s: %w; move the file away; then the front records the keys that its workers have now", path, err)
	}
	if k.by == nil { // the file contains null
		k.by = make(map[string][]string)
	}
	return k, nil
}

// note records a key of a worker. A key beyond the bound is not recorded.
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
	// The lock is held during the write: the file is small and changes rarely, and two
	// calls must not write it at the same time.
	if err := k.write(); err != nil {
		k.by[worker] = known // so that the next call tries again
		return fmt.Errorf("remember the key of worker %s: %w", worker, err)
	}
	return nil
}

// write replaces the file atomically. The caller holds mu.
func (k *Keys) write() error {
	text, err := json.Marshal(k.by)
	if err != nil {
		return err
	}
	return diskfile.Replace(k.path, append(text, '\n'), 0o600)
}

// of returns the keys of a worker; nil if none is known.
func (k *Keys) of(worker string) []string {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.by[worker])
}
