package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// maxDigested bounds a file whose digest is pinned, in bytes.
const maxDigested = 1 << 30

// digestsMost bounds the digests that are remembered.
const digestsMost = 256

// unsettled is how long a file must have been as it is before its digest is remembered: two changes
// within one tick of the file system's clock have the same time.
const unsettled = 2 * time.Second

// digests remembers the digests of files that no box can write. A program such as node has a hundred
// megabytes, which would be read at each start of a server.
type digests struct {
	settled time.Duration // in place of unsettled, for tests

	mu sync.Mutex
	of map[fileState]string // guarded by mu
}

// fileState is a file at one time. The kernel sets the time of a change, and no program can choose it
// (inode(7), ctime).
type fileState struct {
	device, inode, size uint64
	written, changed    syscall.Timespec
}

// stateOf returns the state of an open file; false if it has been so for less than a time.
func stateOf(f *os.File, settled time.Duration) (s fileState, ok bool) {
	info, err := f.Stat()
	if err != nil {
		return s, false
	}
	at, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return s, false
	}
	return fileState{at.Dev, at.Ino, uint64(at.Size), at.Mtim, at.Ctim}, time.Since(time.Unix(at.Ctim.Unix())) >= settled
}

// file returns the digest of a file that no box can write; see digestFile.
func (d *digests) file(name string) (string, error) {
	settled := unsettled
	if d.settled != 0 {
		settled = d.settled
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return digestFile(name, "") // which says what is wrong
	}
	before, ok := stateOf(f, settled)
	f.Close()
	if !ok {
		return digestFile(name, "")
	}
	d.mu.Lock()
	sum, known := d.of[before]
	d.mu.Unlock()
	if known {
		return sum, nil
	}
	if sum, err = digestFile(name, ""); err != nil || sum == "" {
		return sum, err
	}
	if f, err = os.Open(name); err != nil {
		return sum, nil // the digest is right, and is not remembered
	}
	after, ok := stateOf(f, settled)
	f.Close()
	if !ok || after != before {
		return sum, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil || len(d.of) >= digestsMost {
		d.of = make(map[fileState]string)
	}
	d.of[before] = sum
	return sum, nil
}

// openDigested opens a file to read it, and never waits for it. A link does not lead out of
// below, if that is not empty: to a file of the host that the box does not see there.
func openDigested(name, below string) (*os.File, error) {
	const how = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY // a pipe would wait
	if below == "" {
		return os.OpenFile(name, how, 0)
	}
	rel, err := filepath.Rel(below, name)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(below)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(rel, how, 0)
}

// digestFile is the SHA-256 of a regular file; empty for one that is not there. Boxes can write
// what is below a directory; empty for none.
func digestFile(name, below string) (string, error) {
	if name == "" {
		return "", nil
	}
	f, err := openDigested(name, below)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", name)
	case info.Size() > maxDigested:
		return "", fmt.Errorf("%s has %d bytes, more than the %d that are compared", name, info.Size(), maxDigested)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxDigested)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
