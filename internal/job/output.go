package job

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"

	"belljar.dev/internal/diskfile"
)

// An output is a file: a header, and a ring in which the byte at offset n of the output is
// at n modulo the ring's length. Bytes are written into the ring before the header counts
// them. A writer that is killed between these steps may have overwritten the oldest bytes,
// so these bytes do not count as kept: the ring is one piece longer than MaxOutput.
const (
	headerBytes = 24 // magic, size, and the offset of the oldest byte that is kept
	pieceBytes  = 64 << 10
	ringBytes   = MaxOutput + pieceBytes
	magic       = 0x626c6a6f75740001 // "bljout" and the version
)

var outputName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]{8,64}$`) })

// Output is the record of what a job has written. Only one Output of a job writes; other
// Outputs may read at the same time. The methods of one Output are safe for concurrent use.
type Output struct {
	f   *os.File
	dir string // directory of the file; empty in an Output that only reads

	mu   sync.Mutex
	size int64 // bytes written so far; unused in an Output that only reads
	from int64
}

func (b *Book) file(output string) string { return filepath.Join(b.dir, output) }

// Spool creates the output of a job that begins to write. The caller closes it.
func (b *Book) Spool(j Job) (*Output, error) {
	if b.dir == "" {
		return nil, errors.New("keep output: no directory is configured")
	}
	err := os.Mkdir(b.dir, 0o700)
	if err == nil {
		err = diskfile.SyncDir(filepath.Dir(b.dir))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("keep output: %w", err)
	}
	o, err := b.open(j.Output, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	o.dir = b.dir
	if err := o.mark(); err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

// Output opens the output of a job for reading. The error wraps fs.ErrNotExist if no output
// was kept. The caller closes the Output.
func (b *Book) Output(j Job) (*Output, error) {
	if b.dir == "" || j.Output == "" {
		return nil, fmt.Errorf("output of job %d: %w", j.ID, fs.ErrNotExist)
	}
	return b.open(j.Output, os.O_RDONLY)
}

func (b *Book) open(output string, flags int) (*Output, error) {
	if !outputName().MatchString(output) {
		return nil, fmt.Errorf("keep output: %q is not the name of an output", output)
	}
	f, err := os.OpenFile(b.file(output), flags|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep output: %w", err)
	}
	return &Output{f: f}, nil
}

// Close closes the file. After a Close without an error, all that was written is on the
// disk.
func (o *Output) Close() error {
	var err error
	if o.dir != "" {
		err = errors.Join(o.f.Sync(), diskfile.SyncDir(o.dir))
	}
	if err = errors.Join(err, o.f.Close()); err != nil {
		return fmt.Errorf("keep output: %w", err)
	}
	return nil
}

// Write appends p to the output.
func (o *Output) Write(p []byte) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n < len(p) {
		at := o.size % ringBytes
		piece := p[n:min(len(p), n+pieceBytes)]
		piece = piece[:min(int64(len(piece)), ringBytes-at)]
		if _, err := o.f.WriteAt(piece, headerBytes+at); err != nil {
			return n, fmt.Errorf("keep output: %w", err)
		}
		o.size += int64(len(piece))
		n += len(piece)
		if err := o.mark(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Skip counts n bytes that the job has written and that are not kept.
func (o *Output) Skip(n int64) error {
	if n <= 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.size += n
	o.from = o.size
	return o.mark()
}

// mark writes the header.
func (o *Output) mark() error {
	var h [headerBytes]byte
	binary.BigEndian.PutUint64(h[0:], magic)
	binary.BigEndian.PutUint64(h[8:], uint64(o.size))
	binary.BigEndian.PutUint64(h[16:], uint64(o.from))
	if _, err := o.f.WriteAt(h[:], 0); err != nil {
		return fmt.Errorf("keep output: %w", err)
	}
	return nil
}

// header reads the size, and the offset of the oldest byte that is kept. Both are zero if a
// writer was killed before it wrote the header.
func (o *Output) header() (size, from int64) {
	var h [headerBytes]byte
	if n, _ := o.f.ReadAt(h[:], 0); n < headerBytes || binary.BigEndian.Uint64(h[0:]) != magic {
		return 0, 0
	}
	size, from = int64(binary.BigEndian.Uint64(h[8:])), int64(binary.BigEndian.Uint64(h[16:]))
	if size < 0 || from < 0 || from > size {
		return 0, 0
	}
	if info, err := o.f.Stat(); err == nil && size <= ringBytes {
		size = min(size, max(0, info.Size()-headerBytes)) // after a crash of the machine, the file may be shorter
	}
	return size, max(from, size-MaxOutput)
}

// Size returns the number of bytes written so far, including those no longer kept.
func (o *Output) Size() int64 {
	size, _ := o.header()
	return size
}

// Read returns up to limit bytes from offset, the offset for the next Read, and the number
// of bytes that it skipped because they are not kept. At or past the end it returns no
// text.
func (o *Output) Read(offset int64, limit int) (text []byte, next, skipped int64, err error) {
	size, from := o.header()
	next = max(offset, 0)
	if next < from {
		skipped, next = from-next, from
	}
	n := min(int64(limit), size-next)
	if n <= 0 {
		return nil, next, skipped, nil
	}
	text = make([]byte, n)
	for got := int64(0); got < n; {
		at := (next + got) % ringBytes
		piece := text[got:min(n, got+ringBytes-at)]
		if _, err := o.f.ReadAt(piece, headerBytes+at); err != nil {
			return nil, next, skipped, fmt.Errorf("read output: %w", err)
		}
		got += int64(len(piece))
	}
	return text, next + n, skipped, nil
}
