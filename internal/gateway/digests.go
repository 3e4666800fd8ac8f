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

// maxDigested is the maximum size in bytes of a file whose digest is pinned.
const maxDigested = 1 << 30

// digestsMost bounds the number of remembered digests.
const digestsMost = 256

// unsettled is how long a file must be unchanged before its digest is remembered: two
// changes within one tick of the file system's clock have the same time.
const unsettled = 2 * time.Second

// digests remembers the digests of files that no box can write. A program such as node has
// a hundred megabytes, which would be read at each start of a server.
type digests struct {
	settled time.Duration // used in place of unsettled, for tests

	mu sync.Mutex
	of map[fileState]string // guarded by mu: digests by the state of the file
}

// fileState is the state of a file at one time. The kernel sets the time of a change, and
// no program can choose it (inode(7), ctime).
type fileState struct {
	device, inode, size uint64
	written, changed    syscall.Timespec
}

// stateOf returns the state of an open file.
func stateOf(f *os.File) (s fileState, err error) {
	info, err := f.Stat()
	if err != nil {
		return s, err
	}
	at, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.Mode().IsRegular():
		return s, fmt.Errorf("%s is not a regular file", f.Name())
	case info.Size() > maxDigested:
		return s, fmt.Errorf("%s has %d bytes, more than the %d that are compared", f.Name(), info.Size(), maxDigested)
	}
	return fileState{at.Dev, at.Ino, uint64(at.Size), at.Mtim, at.Ctim}, nil
}

// file returns the digest of a file that no box can write; see digestFile. The file is
// opened only once: its name may mean another file a moment later.
func (d *digests) file(name string) (string, error) {
	f, before, err := openDigested(name, "")
	if f == nil {
		return "", err
	}
	defer f.Close()
	d.mu.Lock()
	sum, known := d.of[before]
	d.mu.Unlock()
	if known {
		return sum, nil
	}
	if sum, err = sumOf(f); err != nil {
		return "", err
	}
	settled := unsettled
	if d.settled != 0 {
		settled = d.settled
	}
	after, err := stateOf(f)
	if err != nil || after != before || time.Since(time.Unix(after.changed.Unix())) < settled {
		return sum, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil || len(d.of) >= digestsMost {
		d.of = make(map[fileState]string)
	}
	d.of[before] = sum
	return sum, nil
}

// digestFile returns the SHA-256 of a regular file; empty if the file does not exist. Boxes
// can write the files in the directory below; empty if no box can write the file.
func digestFile(name, below string) (string, error) {
	if name == "" {
		return "", nil
	}
	f, _, err := openDigested(name, below)
	if f == nil {
		return "", err
	}
	defer f.Close()
	return sumOf(f)
}

// openDigested opens a regular file for reading, and never blocks. It returns nil if the
// file does not exist. If below is not empty, a symbolic link must not lead out of it: the
// link would lead to a file of the host that the box does not see there.
func openDigested(name, below string) (*os.File, fileState, error) {
	f, err := openIn(name, below)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fileState{}, nil
	}
	if err != nil {
		return nil, fileState{}, err
	}
	state, err := stateOf(f)
	if err != nil {
		f.Close()
		return nil, fileState{}, err
	}
	return f, state, nil
}

func openIn(name, below string) (*os.File, error) {
	const how = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY // a pipe would block
	if below == "" {
		return os.OpenFile(name, how, 0)
	}
	rel, err := filepath.Rel(below, name)
	if err != nil {
		return nil, err
	}
	if rel == "." { // the file itself is mounted
		below, rel = filepath.Split(name)
	}
	root, err := os.OpenRoot(below)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(rel, how, 0)
}

// sumOf returns the SHA-256 of the contents of an open file.
func sumOf(f *os.File) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxDigested)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
