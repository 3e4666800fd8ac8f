package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"os"
	"sync"
	"syscall"

	"belljar.dev/internal/toolkit/code"
)

// Store contains the entries of a directory. A nil Store contains no entries and keeps
// none. The methods except Close are safe for concurrent use.
type Store struct {
	dir     *os.Root
	version string
	files   []*os.File
	known   map[Key]entry

	mu    sync.Mutex
	made  []made // entries of this run; guarded by mu
	bytes int    // number of bytes in made; guarded by mu
}

// Open opens the cache of a directory, and makes the directory if it is missing. The
// version names the program: entries of another version are not found. Open returns nil if
// the directory cannot be used. The caller closes the store.
func Open(dir, version string) *Store {
	if os.MkdirAll(dir, 0o700) != nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	s := &Store{dir: root, version: version, known: make(map[Key]entry)}
	names, _ := segments(root)
	for _, name := range names[:min(len(names), maxSegments)] {
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // the file may have become a pipe
		if err != nil {
			continue
		}
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || readIndex(f, s.known) != nil {
			f.Close()
			continue
		}
		s.files = append(s.files, f)
	}
	return s
}

// Get returns what was read of a file with this key and text before, or nil if the cache
// does not have it.
func (s *Store) Get(k Key, path string, language code.Language, text string) *code.File {
	if s == nil {
		return nil
	}
	bytes := s.Kept(k)
	if bytes == nil {
		return nil
	}
	f := &code.File{Path: path, Language: language, Text: text}
	if !decode(bytes, f) {
		return nil
	}
	return f
}

// Put keeps what was read of a file, unless this run has kept too much. It does not keep a
// file whose text is empty or was not read.
func (s *Store) Put(k Key, f *code.File) {
	if s == nil || f.Text == "" {
		return
	}
	s.Keep(k, encode(f))
}

// Close writes what this run has kept, and removes the oldest segments if there are too
// many or if they are too large together. It does nothing for a nil Store.
func (s *Store) Close() error {
	if s == nil {
		return nil
	}
	defer s.dir.Close()
	for _, f := range s.files {
		f.Close()
	}
	if len(s.made) == 0 {
		return nil
	}
	err := write(s.dir, s.made)
	prune(s.dir)
	return err
}

// Kept returns the bytes that an earlier run kept under a key; nil for an unknown key or
// damaged bytes.
func (s *Store) Kept(k Key) []byte {
	if s == nil {
		return nil
	}
	e, ok := s.known[k]
	if !ok {
		return nil
	}
	return e.read()
}

// Keep keeps bytes under a key for later runs, unless this run has kept too much.
func (s *Store) Keep(k Key, bytes []byte) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes+len(bytes) <= maxSegment-maxEntries*entrySize && len(s.made) < maxEntries {
		s.made, s.bytes = append(s.made, made{k, bytes}), s.bytes+len(bytes)
	}
}

// Sum returns the key of several parts. It differs from the key of every file.
func (s *Store) Sum(parts ...string) (k Key) {
	if s == nil {
		return k
	}
	h := sha256.New()
	for _, part := range append([]string{s.version}, parts...) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		io.WriteString(h, part) //nolint:errcheck // it never fails
	}
	h.Sum(k[:0])
	return k
}

// Key returns the key of what was read of a file: a hash of its path, its language and its
// text.
func (s *Store) Key(path string, language code.Language, text string) (k Key) {
	if s == nil {
		return k
	}
	h := sha256.New()
	for _, part := range []string{s.version, string(language), path} {
		io.WriteString(h, part) //nolint:errcheck // it never fails
		h.Write([]byte{0})
	}
	io.WriteString(h, text) //nolint:errcheck // it never fails
	h.Sum(k[:0])
	return k
}
