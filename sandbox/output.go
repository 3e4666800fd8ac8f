package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/printable"
)

// Stream is one of the two streams to which a command writes.
type Stream uint8

// The streams, numbered as file descriptors.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

const (
	// outputHead is how many bytes of the beginning always stay in memory. It is also all
	// that a short output costs: the spool file is made only when the head is full. 64 KiB
	// is above the head part (20 %) of any cut that a client accepts.
	outputHead = 64 << 10
	// outputSpans bounds how many switches between stdout and stderr an Output remembers.
	// It forgets the oldest switches first.
	outputSpans = 4096
)

// Output is what a command wrote to stdout and stderr, in the order in which it arrived. It
// keeps the first 64 KiB and as much of the end as its bound allows. The bytes between are
// dropped, and counted. Bytes after the first 64 KiB are kept in an unlinked file, so
// memory does not grow with the output.
//
// All methods are safe for concurrent use. The Box that made an Output closes it, after
// which reads return ErrClosed.
type Output struct {
	bound int64  // maximum number of bytes to keep
	spool *spool // the place for bytes beyond the head

	mu     sync.Mutex
	id     string // "" until ID is called
	head   []byte
	ring   *os.File // nil until the head is full
	taken  int64    // bytes of the spool that this output has taken
	size   int64    // bytes written so far
	spans  []span   // the stream of each byte from known on, oldest first
	known  int64    // offset of the first byte whose stream is remembered
	lost   error    // why the spool could not be written; later bytes are counted only
	ended  bool
	closed bool
	grown  chan struct{} // closed at the next write and at the end; nil if nobody waits
}

// span says that the bytes up to end, from the end of the span before, were
// written to one stream.
type span struct {
	end    int64
	stream Stream
}

// Cut is a text whose middle was removed if it was too long.
type Cut struct {
	Text    []byte
	Total   int64 // bytes of the whole text
	Dropped int64 // bytes left out of Text
	At      int   // index in Text where bytes are missing; meaningless if Dropped is 0
}

func newOutput(bound int64, s *spool) *Output {
	return &Output{bound: bound, spool: s}
}

// spool is the place on disk that the outputs of a supervisor share.
type spool struct {
	dir  string
	left atomic.Int64 // bytes that may still be taken
}

func newSpool(dir string, size int64) *spool {
	s := &spool{dir: dir}
	s.left.Store(size)
	return s
}

// take takes n bytes of the spool, and reports whether there was room.
func (s *spool) take(n int64) bool {
	if s.left.Add(-n) >= 0 {
		return true
	}
	s.left.Add(n)
	return false
}

func (s *spool) give(n int64) { s.left.Add(n) }

// ID returns the unguessable name of the output, which is used in output://ID.
func (o *Output) ID() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.id == "" {
		o.id = strings.ToLower(rand.Text()[:16])
	}
	return o.id
}

// has reports whether id is the ID that a caller has received.
func (o *Output) has(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.id != "" && o.id == id
}

// Size returns the number of bytes written so far, including those no longer kept.
func (o *Output) Size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size
}

// add appends what arrived on a stream. It never causes an error for the command: if the
// spool cannot be written, the error is remembered and further bytes are only counted.
func (o *Output) add(s Stream, p []byte) {
	if len(p) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.ended {
		return
	}
	if last := len(o.spans) - 1; last >= 0 && o.spans[last].stream == s {
		o.spans[last].end += int64(len(p))
	} else {
		if len(o.spans) == outputSpans {
			o.known = o.spans[outputSpans/2-1].end
			o.spans = append(o.spans[:0], o.spans[outputSpans/2:]...)
		}
		o.spans = append(o.spans, span{end: o.size + int64(len(p)), stream: s})
	}
	rest := p
	if room := o.headBound() - int64(len(o.head)); room > 0 {
		n := min(room, int64(len(rest)))
		o.head = append(o.head, rest[:n]...)
		o.size += n
		rest = rest[n:]
	}
	o.keep(rest)
	o.wake()
}

// wake wakes all goroutines that wait for the output to grow. o.mu is held.
func (o *Output) wake() {
	if o.grown != nil {
		close(o.grown)
		o.grown = nil
	}
}

// keep writes what did not fit the head into the ring file. o.mu is held: the writes go to
// the page cache of a file that no other process sees.
func (o *Output) keep(p []byte) {
	for len(p) > 0 {
		length := o.ringBound()
		if length <= 0 || o.lost != nil {
			o.size += int64(len(p))
			return
		}
		if o.ring == nil {
			if o.ring, o.lost = spoolFile(o.spool.dir); o.lost != nil {
				continue
			}
		}
		at := (o.size - int64(len(o.head))) % length
		n := min(int64(len(p)), length-at)
		if more := at + n - o.taken; more > 0 {
			if !o.spool.take(more) {
				o.lost = errors.New("keep output: the outputs of all sessions have used up their space")
				continue
			}
			o.taken += more
		}
		if _, err := o.ring.WriteAt(p[:n], at); err != nil {
			o.lost = fmt.Errorf("keep output: %w", err)
			continue
		}
		o.size += n
		p = p[n:]
	}
}

// spoolFile makes a file without a name, so that it cannot be left behind.
func spoolFile(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), "output"), nil
	}
	// Not every file system has O_TMPFILE (open(2)). There the file has a name for a short
	// time.
	f, err := os.CreateTemp(dir, "belljar-output-*")
	if err != nil {
		return nil, fmt.Errorf("keep output: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("keep output: %w", err)
	}
	return f, nil
}

func (o *Output) headBound() int64 { return min(outputHead, o.bound) }
func (o *Output) ringBound() int64 { return o.bound - o.headBound() }

// oldest returns the offset of the first byte of the ring that is still kept. o.mu is held.
func (o *Output) oldest() int64 {
	h := int64(len(o.head))
	if o.lost != nil || o.ring == nil {
		return o.size
	}
	return max(h, o.size-o.ringBound())
}

// end records that nothing will be added any more.
func (o *Output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.ended = true
		o.wake()
	}
}

// onDisk returns how many bytes of the spool the output has taken.
func (o *Output) onDisk() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.taken
}

// shrink forgets everything except the head, and releases its place on disk.
func (o *Output) shrink() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ring == nil {
		return
	}
	o.ring.Close()
	o.ring = nil
	o.lost = errors.New("keep output: it was dropped to make room for a later one")
	o.spool.give(o.taken)
	o.taken = 0
}

// Close frees the spool file. It may be called twice; later reads return ErrClosed.
func (o *Output) Close() error {
	o.end()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.head = nil
	if o.ring != nil {
		o.ring.Close()
		o.ring = nil
	}
	o.spool.give(o.taken)
	o.taken = 0
	return nil
}

// Read returns up to limit bytes from offset, the offset at which the next read should
// start, and how many bytes it had to skip because they are no longer kept. At or past the
// end it returns no text.
func (o *Output) Read(offset int64, limit int) (text []byte, next, skipped int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, offset, 0, fmt.Errorf("read output: %w", ErrClosed)
	}
	if offset < 0 {
		offset = 0
	}
	text = make([]byte, 0, min(int64(limit), max(0, o.size-offset)))
	next = offset
	for len(text) < limit && next < o.size {
		piece, start, err := o.pieceAt(next, limit-len(text))
		if err != nil {
			return text, next, skipped, err
		}
		if start > next {
			// A gap ends the read once there is text, so that what is
			// returned is always one piece.
			if len(text) > 0 {
				break
			}
			skipped += start - next
			next = start
		}
		text = append(text, piece...)
		next += int64(len(piece))
	}
	return text, next, skipped, nil
}

// pieceAt returns bytes from the first kept offset at or after off, and that
// offset. o.mu is held.
func (o *Output) pieceAt(off int64, limit int) (piece []byte, start int64, err error) {
	if h := int64(len(o.head)); off < h {
		return o.head[off:min(h, off+int64(limit))], off, nil
	}
	start = max(off, o.oldest())
	at := (start - int64(len(o.head))) % max(o.ringBound(), 1)
	n := min(int64(limit), o.size-start, o.ringBound()-at)
	if n <= 0 {
		return nil, o.size, nil
	}
	piece = make([]byte, n)
	if _, err := o.ring.ReadAt(piece, at); err != nil {
		return nil, start, fmt.Errorf("read output: %w", err)
	}
	return piece, start, nil
}

// Wait returns nil once there is a byte at or after offset or the command has ended. If ctx
// ends first, it returns the cause of ctx.
func (o *Output) Wait(ctx context.Context, offset int64) error {
	for {
		o.mu.Lock()
		ready := o.size > offset || o.ended
		if !ready && o.grown == nil {
			o.grown = make(chan struct{})
		}
		grown := o.grown
		o.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Cut returns the whole output or, if that is longer than limit bytes, its first 20 % and
// last 80 % of limit.
func (o *Output) Cut(limit int) (Cut, error) {
	return cut(limit, o.Size(), func(off int64, n int) ([]byte, error) {
		text, _, skipped, err := o.Read(off, n)
		if skipped > 0 {
			text = nil
		}
		return text, err
	})
}

// cut assembles head and tail by read, which returns the bytes that are kept from off on,
// or nothing if the byte at off is gone.
func cut(limit int, total int64, read func(off int64, n int) ([]byte, error)) (Cut, error) {
	if total <= int64(limit) {
		text, err := read(0, limit)
		return Cut{Text: text, Total: total, Dropped: total - int64(len(text)), At: len(text)}, err
	}
	first, err := read(0, limit/5)
	if err != nil {
		return Cut{}, err
	}
	last, err := read(total-int64(limit-limit/5), limit-limit/5)
	if err != nil {
		return Cut{}, err
	}
	first, last = printable.TrimEnd(first), printable.TrimStart(last)
	text := append(slices.Clip(first), last...)
	return Cut{Text: text, Total: total, Dropped: total - int64(len(text)), At: len(first)}, nil
}

// Split returns each stream alone, cut as by Cut. If the streams took turns more than 4,096
// times, the oldest text belongs to neither.
func (o *Output) Split(limit int) (stdout, stderr Cut, err error) {
	var pieces [3][]piece // by stream
	var length [3]int64
	o.mu.Lock()
	at := o.known
	for _, s := range o.spans {
		pieces[s.stream] = append(pieces[s.stream], piece{from: length[s.stream], at: at, n: s.end - at})
		length[s.stream] += s.end - at
		at = s.end
	}
	o.mu.Unlock()
	if stdout, err = o.join(pieces[Stdout], length[Stdout], limit); err != nil {
		return Cut{}, Cut{}, err
	}
	stderr, err = o.join(pieces[Stderr], length[Stderr], limit)
	return stdout, stderr, err
}

// piece is a run of one stream's bytes.
type piece struct {
	from int64 // offset in the stream
	at   int64 // offset in the output
	n    int64
}

// join returns the stream that pieces make up, cut to limit.
func (o *Output) join(pieces []piece, length int64, limit int) (Cut, error) {
	return cut(limit, length, func(off int64, n int) ([]byte, error) {
		var text []byte
		for _, p := range pieces {
			if p.from+p.n <= off {
				continue
			}
			if len(text) >= n {
				break
			}
			skip := max(0, off+int64(len(text))-p.from)
			got, _, skipped, err := o.Read(p.at+skip, int(min(int64(n-len(text)), p.n-skip)))
			if err != nil {
				return nil, err
			}
			if skipped > 0 {
				break
			}
			text = append(text, got...)
		}
		return text, nil
	})
}
