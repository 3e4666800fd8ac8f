package cache

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	// head begins a segment, and says how the rest is written.
	head = "belljar-toolkit-cache-1\n"
	// ending is that of a segment's name.
	ending = ".segment"
	// maxSegment is how large the entries of one run may be, in bytes.
	maxSegment = 32 << 20
	// maxTotal is how large all segments may be.
	maxTotal = 64 << 20
	// maxEntries is how many entries a segment may have.
	maxEntries = 50_000
	// maxSegments is how many segments there may be: each run looks at all.
	maxSegments = 32
	entrySize   = sha256.Size + 12 // of the index
)

// Key is the SHA-256 of all that decides what is read of a file.
type Key [sha256.Size]byte

// entry is where a segment has what was read of a file.
type entry struct {
	in     *os.File
	offset int64
	size   uint32
	sum    uint32 // CRC-32C of it
}

// sum is the checksum of an entry.
func sum(bytes []byte) uint32 { return crc32.Checksum(bytes, crc32.MakeTable(crc32.Castagnoli)) }

// segments returns the segments of a directory, the youngest first.
func segments(dir *os.Root) (names []string, sizes map[string]int64) {
	all, err := dir.Open(".")
	if err != nil {
		return nil, nil
	}
	defer all.Close()
	found, err := all.ReadDir(1000)
	if err != nil {
		return nil, nil
	}
	sizes, times := make(map[string]int64), make(map[string]time.Time)
	for _, e := range found {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasSuffix(e.Name(), ending) {
			continue
		}
		names = append(names, e.Name())
		sizes[e.Name()], times[e.Name()] = info.Size(), info.ModTime()
	}
	slices.SortFunc(names, func(a, b string) int {
		if order := times[b].Compare(times[a]); order != 0 {
			return order
		}
		return strings.Compare(a, b)
	})
	return names, sizes
}

// readIndex adds the entries of a segment to those that are known. Entries beyond the end
// of the file are left out.
func readIndex(in *os.File, known map[Key]entry) error {
	info, err := in.Stat()
	if err != nil {
		return err
	}
	first := make([]byte, len(head)+4)
	if _, err := in.ReadAt(first, 0); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint32(first[len(head):]))
	if string(first[:len(head)]) != head || n > maxEntries {
		return io.ErrUnexpectedEOF
	}
	index := make([]byte, n*entrySize)
	if _, err := in.ReadAt(index, int64(len(first))); err != nil {
		return err
	}
	offset := int64(len(first) + len(index))
	for ; len(index) > 0; index = index[entrySize:] {
		e := entry{in, offset, binary.BigEndian.Uint32(index[sha256.Size:]), binary.BigEndian.Uint32(index[sha256.Size+4:])}
		if offset += int64(e.size); offset > info.Size() {
			break
		}
		k := Key(index[:sha256.Size])
		if _, younger := known[k]; !younger {
			known[k] = e
		}
	}
	return nil
}

// read returns the bytes of an entry, or nil for one that is damaged.
func (e entry) read() []byte {
	if e.size > maxSegment {
		return nil
	}
	bytes := make([]byte, e.size)
	if _, err := e.in.ReadAt(bytes, e.offset); err != nil || sum(bytes) != e.sum {
		return nil
	}
	return bytes
}

// made is an entry that is not written yet.
type made struct {
	key   Key
	bytes []byte
}

// write makes a segment: a new file, which gets its name when it is whole.
func write(dir *os.Root, all []made) error {
	var b []byte
	b = append(b, head...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(all)))
	for _, m := range all {
		b = append(b, m.key[:]...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(m.bytes)))
		b = binary.BigEndian.AppendUint32(b, sum(m.bytes))
		b = binary.BigEndian.AppendUint32(b, 0) // so that a later version can say more
	}
	for _, m := range all {
		b = append(b, m.bytes...)
	}
	name := rand.Text()
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = dir.Rename(name, name+ending)
	}
	if err != nil {
		dir.Remove(name) //nolint:errcheck // it may not be there
	}
	return err
}

// prune removes the oldest segments where there are too many.
func prune(dir *os.Root) {
	names, sizes := segments(dir)
	total := int64(0)
	for i, name := range names {
		if total += sizes[name]; total > maxTotal || i >= maxSegments {
			dir.Remove(path.Base(name)) //nolint:errcheck // another run may have removed it
		}
	}
}
