package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// union returns the names of both lists, sorted and without duplicates.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// span returns the next part of a file, from at on, that is not a hole. If from
// is size, the rest of the file has no data.
func span(f *os.File, at, size int64) (from, to int64, err error) {
	from, err = unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return size, size, nil
	}
	if err != nil {
		return at, size, nil //nolint:nilerr // a file system without holes: all of it is data
	}
	to, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
	if err != nil {
		return 0, 0, fmt.Errorf("find the end of data: %w", err)
	}
	return min(from, size), min(to, size), nil
}

// sameContent reports whether two files of one size have the same content. It does not read
// the parts where both files have a hole.
func sameContent(a, b *os.File, size int64) (bool, error) {
	const piece = 64 << 10
	var bufA, bufB [piece]byte
	for at := int64(0); at < size; {
		fromA, toA, err := span(a, at, size)
		if err != nil {
			return false, err
		}
		fromB, toB, err := span(b, at, size)
		if err != nil {
			return false, err
		}
		from := min(fromA, fromB)
		if from >= size {
			return true, nil
		}
		end := toA
		if fromB < fromA || fromB == fromA && toB < toA {
			end = toB
		}
		for at = from; at < end; {
			n := min(end-at, piece)
			if err := readFull(a, bufA[:n], at); err != nil {
				return false, err
			}
			if err := readFull(b, bufB[:n], at); err != nil {
				return false, err
			}
			if !bytes.Equal(bufA[:n], bufB[:n]) {
				return false, nil
			}
			at += n
		}
	}
	return true, nil
}

// readFull reads len(buf) bytes at an offset. If the file has become shorter, the missing
// bytes read as zeros, so the file counts as changed unless a hole was there.
func readFull(f *os.File, buf []byte, at int64) error {
	n, err := f.ReadAt(buf, at)
	if errors.Is(err, io.EOF) {
		clear(buf[n:])
		return nil
	}
	return err
}

// copyContent copies the content of a file, with its holes. It shares the blocks if the
// file system can. If pace is not nil, it is called with the number of bytes before they
// are written, and its error ends the copy.
func copyContent(to, from *os.File, size int64, pace func(n int64) error) error {
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil {
		return nil
	}
	const piece = 8 << 20
	for at := int64(0); at < size; {
		start, end, err := span(from, at, size)
		if err != nil {
			return err
		}
		if start >= size {
			break
		}
		end = min(end, start+piece)
		if pace != nil {
			if err := pace(end - start); err != nil {
				return err
			}
		}
		if _, err := from.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := to.Seek(start, io.SeekStart); err != nil {
			return err
		}
		n, err := io.Copy(to, io.LimitReader(from, end-start))
		if err != nil {
			return err
		}
		if n < end-start {
			return errUnsteady
		}
		at = end
	}
	return to.Truncate(size)
}

// errUnsteady means that a file changed while it was copied, so the copy may be a mix of
// its states.
var errUnsteady = errors.New("it changed while it was read")

// steady copies a file and fails if the file changes meanwhile.
func steady(to, from *os.File, pace func(n int64) error) error {
	var before, after unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &before); err != nil {
		return err
	}
	if err := copyContent(to, from, before.Size, pace); err != nil {
		return err
	}
	if err := unix.Fstat(int(from.Fd()), &after); err != nil {
		return err
	}
	if before.Size != after.Size || before.Ctim != after.Ctim {
		return errUnsteady
	}
	return nil
}
