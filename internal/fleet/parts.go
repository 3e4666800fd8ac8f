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

// The large parts of an answer in parts go over the bulk connection, see [Worker.bulk]. Its body on the first connection is a sequence of parts. Each begins with
// its size in 4 bytes (big-endian). If the highest bit is set, the part is elsewhere: the
// front requests partsPath/N over the bulk connection, where N is the number of the answer,
// and reads all such parts of this answer from there.
const (
	partsPath    = "/link/parts"
	partsHeader  = "Belljar-Parts"  // in a request: the front reads such answers; in an answer: its number
	lengthHeader = "Belljar-Length" // Content-Length of an answer in parts

	partHead  = 4
	elsewhere = 1 << 31
)

// maxPart is the largest size of a write, in bytes, that goes over the first connection. The
// first large part of an answer takes a round trip more, and most outputs of commands are not
// so large.
const maxPart = 64 << 10

// parted is an answer in parts at a worker. Its finish must be called after the last write.
type parted struct {
	http.ResponseWriter // of the first connection
	request             *http.Request
	link                *conn

	begun    bool      // whether the headers were written
	place    *rest     // nil if the answer is not in parts
	large    *answerer // writes to the bulk connection; nil before the first large part
	deadline time.Time // of writes; zero means no deadline
}

// answerer is the answer to the request for the large parts of another answer.
type answerer struct {
	http.ResponseWriter
	control *http.ResponseController
}

// rest is what one answer in parts shares with the answer to the request for its large
// parts.
type rest struct {
	number uint64
	asked  chan *answerer // receives one value at most; has room for it
	over   chan struct{}  // closed when nothing more is written
}

// rests are the answers in parts of a link by their numbers. Its zero value is empty.
type rests struct {
	mu   sync.Mutex
	last uint64           // guarded by mu
	all  map[uint64]*rest // guarded by mu: those that were not requested yet
}

// add returns a new number.
func (r *rests) add() *rest {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[uint64]*rest)
	}
	r.last++
	one := &rest{number: r.last, asked: make(chan *answerer, 1), over: make(chan struct{})}
	r.all[one.number] = one
	return one
}

// take removes a number. It returns nil if there is no such answer.
func (r *rests) take(number uint64) *rest {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.all[number]
	delete(r.all, number)
	return one
}

// answerParts answers the request for the large parts of an answer of the link.
func (r *rests) answerParts(rw http.ResponseWriter, number string) {
	n, err := strconv.ParseUint(number, 10, 64)
	one := r.take(n)
	if err != nil || one == nil {
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	one.asked <- &answerer{rw, http.NewResponseController(rw)}
	<-one.over
}

// WriteHeader decides whether the answer is in parts, and sends the headers.
func (w *parted) WriteHeader(status int) {
	h := w.Header()
	if status >= http.StatusOK && !w.begun {
		w.begun = true
		length, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
		short := err == nil && length <= maxPart
		// net/http takes a missing type from the first bytes of the body
		if status == http.StatusOK && w.request.Method != http.MethodHead && h.Get("Content-Type") != "" && !short {
			w.place = w.link.rests.add()
			h.Set(partsHeader, strconv.FormatUint(w.place.number, 10))
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
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.place == nil || len(p) == 0 {
		return w.ResponseWriter.Write(p)
	}
	size := uint32(len(p)) //nolint:gosec // below
	if len(p) >= elsewhere {
		return 0, fmt.Errorf("write %d bytes of an answer at once: want fewer than %d", len(p), elsewhere)
	}
	if len(p) > maxPart {
		size |= elsewhere
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
	n, err := w.large.Write(p)
	if err != nil {
		return n, err
	}
	return n, w.large.control.Flush()
}

// wait waits until the front requests the large parts, at most until the deadline.
func (w *parted) wait() error {
	if w.large != nil {
		return nil
	}
	var late <-chan time.Time
	if !w.deadline.IsZero() {
		timer := time.NewTimer(time.Until(w.deadline))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case w.large = <-w.place.asked:
		return w.large.control.SetWriteDeadline(w.deadline)
	case <-w.request.Context().Done():
		return w.request.Context().Err()
	case <-late:
		return errors.New("the front does not request the large parts of an answer")
	}
}

// FlushError is for http.ResponseController.
func (w *parted) FlushError() error {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// SetWriteDeadline is for http.ResponseController.
func (w *parted) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	if w.large != nil {
		if err := w.large.control.SetWriteDeadline(t); err != nil {
			return err
		}
	}
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(t)
}

// Unwrap is for http.ResponseController.
func (w *parted) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// finish ends the answer.
func (w *parted) finish() {
	if w.place != nil {
		w.link.rests.take(w.place.number)
		close(w.place.over)
	}
}

// joined is the body of an answer in parts at a front.
type joined struct {
	here   io.ReadCloser
	ask    func() (io.ReadCloser, error) // requests the large parts
	failed func()                        // called before Read returns an error that is not io.EOF
	length int64                         // number of bytes of the answer that were not read; negative if it is not known

	there io.ReadCloser // large parts; nil before the first
	large bool          // whether the part is there
	left  int           // number of bytes of the part that were not read
	err   error         // what Read returns from now on; nil before the first error
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
		j.failed()
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
	from := j.here
	if j.large {
		from = j.there
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
	if _, err := io.ReadFull(j.here, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	j.large, j.left = size&elsewhere != 0, int(size&^elsewhere)
	if j.left == 0 {
		return errors.New("a part of an answer is empty")
	}
	if !j.large || j.there != nil {
		return nil
	}
	var err error
	j.there, err = j.ask()
	return err
}

// Close ends both requests.
func (j *joined) Close() error {
	if j.there != nil {
		j.there.Close()
	}
	return j.here.Close()
}
