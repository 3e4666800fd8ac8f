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
	// head is the first line of a segment. It states the format of the rest.
	head = "belljar-toolkit-cache-1\n"
	// ending is the end of a segment's name.
	ending = ".segment"
	// maxSegment is the maximum size of the entries of one run, in bytes.
	maxSegment = 32 << 20
	// maxTotal is the maximum size of all segments together, in bytes.
	maxTotal = 64 << 20
	// maxEntries is the maximum number of entries in a segment.
	maxEntries = 50_000
	// maxSegments is the maximum number of segments. Each run opens all of them.
	maxSegments = 32
	entrySize   = sha256.Size + 12 // size of an entry in the index, in bytes
)

// Key identifies an entry: it is the SHA-256 of all that decides the content of the entry.
type Key [sha256.Size]byte

// entry is the place of an entry's bytes in a segment.
type entry struct {
	in     *os.File
	offset int64
	size   uint32
	sum    uint32 // CRC-32C of the bytes
}

// sum returns the checksum of an entry's bytes.
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

// readIndex adds the entries of a segment to the known ones. It leaves out entries beyond
// the end of the file, and keys that are known already.
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

// read returns the bytes of an entry, or nil if they are damaged.
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

// write makes a segment: a new file, which gets its final name when it is complete.
func write(dir *os.Root, all []made) error {
	var b []byte
	b = append(b, head...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(all)))
	for _, m := range all {
		b = append(b, m.key[:]...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(m.bytes)))
		b = binary.BigEndian.AppendUint32(b, sum(m.bytes))
		b = binary.BigEndian.AppendUint32(b, 0) // reserved for later versions
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

// prune removes the oldest segments if there are too many or if they are too large
// together.
func prune(dir *os.Root) {
	names, sizes := segments(dir)
	total := int64(0)
	for i, name := range names {
		if total += sizes[name]; total > maxTotal || i >= maxSegments {
			dir.Remove(path.Base(name)) //nolint:errcheck // another run may have removed it
		}
	}
}
