package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrChanged is returned by Apply if the set has changed since the diff whose digest is in
// Options.As. Nothing was applied.
var ErrChanged = errors.New("the set is not the one that was shown")

// A person looks at a diff, thinks about it, and then applies it. Meanwhile a box that
// works in the set can change it. The digest covers all that Apply takes: paths, kinds,
// permissions, times, targets of links, attributes and content. Each byte is read once: a
// unified diff is made from the same bytes as its digest, and Apply compares the digest
// with the same copy that it renames into place.

type sum = [sha256.Size]byte

// digest is the digest of a list of changes, which are added one by one.
type digest struct {
	open *open
	all  hash.Hash
	each map[string]sum    // digest of each change, by path
	took map[string]taking // digested parts of each file whose content is applied, by path
}

// taking contains the digested parts of a file that are not in its Change.
type taking struct {
	content sum
	attrs   map[string]string
	err     error // error if the file could not be read
}

func (o *open) newDigest() *digest {
	return &digest{open: o, all: sha256.New(), each: map[string]sum{}, took: map[string]taking{}}
}

// digestOf returns the digest of changes, in their order.
func (o *open) digestOf(ctx context.Context, changes []Change) (*digest, error) {
	d := o.newDigest()
	for i := range changes {
		if err := d.add(ctx, &changes[i], nil); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// String returns the text for Options.As, or "" if nothing changed.
func (d *digest) String() string {
	if len(d.each) == 0 {
		return ""
	}
	return hex.EncodeToString(d.all.Sum(nil))
}

// add adds a change. If the content was read already, it is in text.
func (d *digest) add(ctx context.Context, c *Change, text *shownText) error {
	h := sha256.New()
	field := func(values ...string) {
		for _, v := range values {
			h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(v))))
			h.Write([]byte(v))
		}
	}
	field(c.name, string(c.Kind), c.Type, c.WasType, c.Mode, c.Problem)
	if c.st != nil && c.Kind != Deleted {
		field(c.Target)
		if isRegular(c.st) {
			field(fmt.Sprint(c.st.Mtim.Nano()))
		}
	}
	if c.copied() {
		t := d.open.take(ctx, c, text)
		if err := ctx.Err(); err != nil {
			return err
		}
		d.took[c.name] = t
		field(string(t.content[:]))
		for _, name := range slices.Sorted(maps.Keys(t.attrs)) {
			field(name, t.attrs[name])
		}
		if t.err != nil {
			field("unreadable")
		}
	}
	one := sum(h.Sum(nil))
	d.each[c.name] = one
	d.all.Write(one[:])
	return nil
}

// copied reports whether Apply copies a file of the set for the change.
func (c *Change) copied() bool {
	return c.Problem == "" && c.Type == typeFile && (c.Kind == Added || c.Kind == Modified || c.Kind == Attr)
}

// take reads what Apply would copy of a file. If only the attributes changed, Apply takes
// the content of the base, so take does not read it.
func (o *open) take(ctx context.Context, c *Change, text *shownText) (t taking) {
	f, err := openFile(o.layers[c.layer].dir, c.name)
	if err != nil {
		return taking{err: err}
	}
	defer f.Close()
	switch {
	case c.Kind == Attr:
	case text != nil && text.read:
		t.content, t.err = sumOf(ctx, bytes.NewReader(text.text), int64(len(text.text)), all)
	default:
		t.content, t.err = sumFile(ctx, f)
	}
	if t.err == nil {
		t.attrs, t.err = attrs(f)
	}
	return t
}

// sumFile returns the digest of the content of a file.
func sumFile(ctx context.Context, f *os.File) (sum, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return sum{}, err
	}
	return sumOf(ctx, f, st.Size, func(at, size int64) (from, to int64, err error) { return span(f, at, size) })
}

func all(at, size int64) (from, to int64, err error) { return at, size, nil }

// sumOf returns the digest of a content: its size and all blocks that are not zeros, with
// their places. So the digest does not depend on the holes of a file, and a file of 8 EiB
// that is one hole costs nothing. next works like span.
func sumOf(ctx context.Context, r io.ReaderAt, size int64, next func(at, size int64) (from, to int64, err error)) (sum, error) {
	const block = 64 << 10
	buf := make([]byte, min(block, size))
	zeros := make([]byte, len(buf))
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(size)))
	for at := int64(0); at < size; {
		from, to, err := next(at, size)
		if err != nil {
			return sum{}, err
		}
		for at = max(at, from/block*block); at < to; at += block {
			if err := ctx.Err(); err != nil {
				return sum{}, err
			}
			part := buf[:min(block, size-at)]
			n, err := r.ReadAt(part, at)
			if err != nil && !errors.Is(err, io.EOF) {
				return sum{}, err
			}
			clear(part[n:]) // the file became shorter meanwhile
			if !bytes.Equal(part, zeros[:len(part)]) {
				h.Write(binary.LittleEndian.AppendUint64(nil, uint64(at)))
				h.Write(part)
			}
		}
		if from >= size {
			break
		}
	}
	return sum(h.Sum(nil)), nil
}

// check compares a copy with the digest of the file that it was made from.
func (d *digest) check(ctx context.Context, c *Change, copied *os.File, attributes map[string]string) error {
	t, ok := d.took[c.name]
	if !ok {
		return errUnsteady
	}
	if t.err != nil {
		return t.err
	}
	if c.Kind != Attr {
		now, err := sumFile(ctx, copied)
		if err != nil {
			return err
		}
		if now != t.content {
			return errSwapped
		}
	}
	if !maps.Equal(attributes, t.attrs) {
		return errSwapped
	}
	return nil
}

// errSwapped means that a box changed a file between the check and the copy.
var errSwapped = errors.New("it changed in the set while it was copied, so it is no longer what was shown")

// shownName is the file that records what the last diff showed. It is used only to describe
// what has changed since, and decides nothing.
const shownName = "shown"

type shown struct {
	Digest string          `json:"digest"`
	Paths  map[string]bool `json:"paths"` // set of path digests: 8 bytes of the digest and the path, in hexadecimal
}

// remember records what a diff showed, unless the record would be too large.
func (d *digest) remember() {
	s := shown{Digest: d.String(), Paths: map[string]bool{}}
	size := 0
	for path, one := range d.each {
		key := shownKey(path, one)
		if size += len(key) + 5; size > maxMeta/2 {
			return
		}
		s.Paths[key] = true
	}
	_ = writeJSON(d.open.dir, shownName, &s) // without the record, Apply's error is less precise
}

func shownKey(path string, one sum) string {
	return hex.EncodeToString(one[:8]) + hex.EncodeToString([]byte(path))
}

// differs describes what has changed since the diff with that digest was shown.
func (d *digest) differs(digest string) string {
	const most = 10
	var s shown
	text, err := readSmall(d.open.dir, shownName, maxMeta)
	if err != nil || json.Unmarshal(text, &s) != nil || s.Digest != digest {
		return "the last diff of the set ended with another digest; it may have been of other paths"
	}
	var paths []string
	for path, one := range d.each {
		if !s.Paths[shownKey(path, one)] {
			paths = append(paths, path)
		}
	}
	for key := range s.Paths { // a path that was shown may not differ from the base any more
		path, err := hex.DecodeString(key[min(16, len(key)):])
		if _, still := d.each[string(path)]; err == nil && !still {
			paths = append(paths, string(path))
		}
	}
	slices.Sort(paths)
	for i := range paths {
		paths[i] = quotePath(paths[i])
	}
	more := ""
	if len(paths) > most {
		more = fmt.Sprintf(" and %d more", len(paths)-most)
		paths = paths[:most]
	}
	return "changed since then: " + strings.Join(paths, ", ") + more
}
