package fleet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// An answer in parts. Its body on the first connection is a sequence of parts. Each part begins
// with its size in 4 bytes (big-endian). A part of at most maxPart bytes follows its size. For a
// larger part the highest bit of the size is set, and its bytes are not here: the front requests
// partsPath/N over the bulk connection, once, where N is the number of the answer. The answer to
// that has the bytes of all large parts, in order and without sizes.
const (
	partsPath    = "/link/parts"
	partsHeader  = "Belljar-Parts"  // in a request: the front reads such answers; in an answer: its number
	lengthHeader = "Belljar-Length" // Content-Length of an answer in parts

	partHead = 4
	inBulk   = 1 << 31 // the bit of a large part
)

// maxPart is the size in bytes of the largest body of a client's request, and of the largest
// single write of an answer, that goes over the first connection of a link with two. The first
// large part of an answer takes a round trip more. An answer that is written in smaller pieces
// stays on the first connection.
const maxPart = 64 << 10

// parted is an answer at a worker to a front that can read answers in parts. Its WriteHeader
// decides whether it is in parts. Its finish must be called after the last write.
type parted struct {
	http.ResponseWriter // of the first connection
	request             *http.Request
	link                *conn

	wroteHeader bool
	bulk        *bulkAnswer // nil if the answer is not in parts
	writer      *bulkWriter // writes to the bulk connection; nil before the first large part
	deadline    time.Time   // of writes; zero means no deadline
}

// bulkWriter writes the answer to the request for the large parts of another answer.
type bulkWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// bulkAnswer is what an answer in parts shares with the answer to the request for its large
// parts.
type bulkAnswer struct {
	number    uint64
	requested chan *bulkWriter // receives one value at most; has room for it
	done      chan struct{}    // closed when nothing more is written
}

// bulkAnswers are the answers in parts of a link by their numbers. Its zero value is empty.
type bulkAnswers struct {
	mu      sync.Mutex
	last    uint64                 // guarded by mu
	waiting map[uint64]*bulkAnswer // guarded by mu: those whose large parts were not requested yet
}

// add returns a new number.
func (r *bulkAnswers) add() *bulkAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = make(map[uint64]*bulkAnswer)
	}
	r.last++
	one := &bulkAnswer{number: r.last, requested: make(chan *bulkWriter, 1), done: make(chan struct{})}
	r.waiting[one.number] = one
	return one
}

// take removes a number. It returns nil if there is no such answer.
func (r *bulkAnswers) take(number uint64) *bulkAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.waiting[number]
	delete(r.waiting, number)
	return one
}

// answerParts answers the request for the large parts of an answer of the link.
func (r *bulkAnswers) answerParts(rw http.ResponseWriter, number string) {
	var one *bulkAnswer
	if n, err := strconv.ParseUint(number, 10, 64); err == nil {
		one = r.take(n)
	}
	if one == nil {
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	one.requested <- &bulkWriter{rw, http.NewResponseController(rw)}
	<-one.done // nothing may be written to rw after this returns
}

// WriteHeader decides whether the answer is in parts, and sends the headers.
func (w *parted) WriteHeader(status int) {
	h := w.Header()
	if status >= http.StatusOK && !w.wroteHeader {
		w.wroteHeader = true
		length, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
		short := err == nil && length <= maxPart
		// without a type, net/http would guess it from the size of the first part
		if status == http.StatusOK && w.request.Method != http.MethodHead && h.Get("Content-Type") != "" && !short {
			w.bulk = w.link.bulkAnswers.add()
			h.Set(partsHeader, strconv.FormatUint(w.bulk.number, 10))
			if err == nil {
				h.Set(lengthHeader, strconv.FormatInt(length, 10))
			}
			h.Del("Content-Length")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes one part.
func (w *parted) Write(p []byte) (int, error) {
	if !w.wroteHeader {
		w.WriteHeader(http.StatusOK)
	}
	if w.bulk == nil || len(p) == 0 {
		return w.ResponseWriter.Write(p)
	}
	if len(p) >= inBulk {
		return 0, fmt.Errorf("write %d bytes of an answer at once: want fewer than %d", len(p), inBulk)
	}
	size := uint32(len(p))
	if len(p) > maxPart {
		size |= inBulk
	}
	var head [partHead]byte
	binary.BigEndian.PutUint32(head[:], size)
	if _, err := w.ResponseWriter.Write(head[:]); err != nil {
		return 0, err
	}
	if len(p) <= maxPart {
		return w.ResponseWriter.Write(p)
	}
	if err := w.FlushError(); err != nil {
		return 0, err
	}
	if err := w.wait(); err != nil {
		return 0, err
	}
	n, err := w.writer.Write(p)
	if err != nil {
		return n, err
	}
	return n, w.writer.control.Flush()
}

// errNotRequested is the error of a write whose deadline has passed.
var errNotRequested = errors.New("the front does not request the large parts of an answer")

// wait waits until the front requests the large parts, at most until the deadline.
func (w *parted) wait() error {
	if w.writer != nil {
		return nil
	}
	var late <-chan time.Time
	if !w.deadline.IsZero() {
		timer := time.NewTimer(time.Until(w.deadline))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case w.writer = <-w.bulk.requested:
		return w.writer.control.SetWriteDeadline(w.deadline)
	case <-w.request.Context().Done():
		return w.request.Context().Err()
	case <-late:
		return errNotRequested
	}
}

// FlushError is for http.ResponseController.
func (w *parted) FlushError() error {
	if !w.wroteHeader {
		w.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// SetWriteDeadline is for http.ResponseController.
func (w *parted) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	if w.writer != nil {
		if err := w.writer.control.SetWriteDeadline(t); err != nil {
			return err
		}
	}
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(t)
}

// Unwrap is for http.ResponseController.
func (w *parted) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// finish lets the answer with the large parts end.
func (w *parted) finish() {
	if w.bulk != nil {
		w.link.bulkAnswers.take(w.bulk.number)
		close(w.bulk.done)
	}
}

// joined is the body of an answer in parts at a front.
type joined struct {
	first   io.ReadCloser
	request func() (io.ReadCloser, error) // requests the large parts
	fail    func()                        // called before Read returns an error that is not io.EOF
	length  int64                         // number of bytes of the answer that were not read; negative if it is not known

	bulk   io.ReadCloser // large parts; nil before the first
	inBulk bool          // whether the part is in bulk
	left   int           // number of bytes of the part that were not read
	err    error         // what Read returns from now on; nil before the first error
}

// Read reads the parts in order. As in net/http, an answer that is longer or shorter than its
// Content-Length is an error: the client must not take it for the whole.
func (j *joined) Read(p []byte) (n int, err error) {
	if j.err != nil {
		return 0, j.err
	}
	n, err = j.read(p)
	switch known := j.length >= 0; {
	case known && int64(n) > j.length:
		n, err = int(j.length), errors.New("an answer is longer than its Content-Length")
	case known && j.length > int64(n) && errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	j.length -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		j.fail()
	}
	j.err = err
	return n, err
}

// read reads from one part.
func (j *joined) read(p []byte) (n int, err error) {
	if j.left == 0 {
		if err = j.next(); err != nil {
			return 0, err
		}
	}
	from := j.first
	if j.inBulk {
		from = j.bulk
	}
	n, err = from.Read(p[:min(len(p), j.left)])
	j.left -= n
	if errors.Is(err, io.EOF) {
		err = nil
		if j.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// next begins the next part. It returns io.EOF after the last part.
func (j *joined) next() error {
	var head [partHead]byte
	if _, err := io.ReadFull(j.first, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	j.inBulk, j.left = size&inBulk != 0, int(size&^inBulk)
	if j.left == 0 {
		return errors.New("a part of an answer is empty")
	}
	if !j.inBulk || j.bulk != nil {
		return nil
	}
	var err error
	j.bulk, err = j.request()
	return err
}

// Close ends both requests.
func (j *joined) Close() error {
	if j.bulk != nil {
		j.bulk.Close()
	}
	return j.first.Close()
}
