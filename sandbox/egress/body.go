package egress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// body is the body of a request on its way to the server. The server may answer before it
// has the whole body.
type body struct {
	read atomic.Bool // whether the whole body was read from the client
	over atomic.Bool // whether the rest of the body is no longer needed
	done chan struct{}
	sent int64 // bytes that were sent; valid once done is closed, like err
	err  error
}

// sendBody begins to send a body; a length of -1 means a chunked body.
func (x *exchange) sendBody(length int64) *body {
	b := &body{done: make(chan struct{})}
	go func() {
		defer close(b.done)
		up := &sending{to: x.up.conn}
		if length < 0 {
			b.err = b.chunks(up, x.client)
		} else {
			b.sent, b.err = pass(up, io.LimitReader(x.client.in, length), func(n int64) { b.read.Store(n == length) })
			if b.err == nil && b.sent < length {
				b.err = io.ErrUnexpectedEOF
			}
		}
		switch {
		case b.err == nil, b.read.Load(), b.over.Load():
		case up.failed && isGone(b.err):
			// A server that does not want the rest of a body may answer and close the
			// connection. The answer can still be read.
		default:
			// A part of a body must not be taken for a whole one.
			x.shut(fmt.Errorf("relay the body of a request: %w", b.err))
		}
	}()
	return b
}

// sending is the connection on which a body is sent.
type sending struct {
	to     io.Writer
	failed bool // whether a write has failed
}

func (s *sending) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	s.failed = s.failed || err != nil
	return n, err
}

// chunks sends a chunked body in chunks of its own, without extensions and
// trailers.
func (b *body) chunks(up io.Writer, client *side) error {
	// The reader refuses what RFC 9112, 7.1 does not allow, and a body that
	// is mostly chunk extensions.
	n, err := passChunks(up, httputil.NewChunkedReader(client.in))
	b.sent = n
	if err == nil {
		err = skipTrailers(client)
	}
	if err != nil {
		return err
	}
	b.read.Store(true)
	_, err = io.WriteString(up, "0\r\n\r\n")
	return err
}

// skipTrailers reads the fields after a chunked body, up to the empty line.
func skipTrailers(client *side) error {
	const most = 8 << 10
	for size := 0; size < most; {
		line, err := client.in.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case string(line) == "\r\n":
			return nil
		case len(line) < 2 || line[len(line)-2] != '\r':
			return errors.New("a trailer does not end in CR LF")
		}
		if _, err := parseField(string(line[:len(line)-2])); err != nil {
			return err
		}
		size += len(line)
	}
	return fmt.Errorf("trailers are longer than %d bytes", most)
}

// stop ends a body that nobody needs any more, and waits for its end.
func (b *body) stop(r *relay) {
	if b == nil {
		return
	}
	b.over.Store(true)
	wake(r.client.conn)
	select {
	case <-b.done:
	default:
		r.up.conn.SetWriteDeadline(longAgo) //nolint:errcheck // a closed connection is not written to either
	}
	<-b.done
	r.client.conn.SetReadDeadline(time.Time{}) //nolint:errcheck // a closed connection fails the next read
}

// wait waits for the end of a body, and returns how many bytes of it were sent.
func (b *body) wait() (int64, error) {
	if b == nil {
		return 0, nil
	}
	<-b.done
	return b.sent, b.err
}

// pass copies src to its end. Before each write it calls seen with the number of
// bytes read so far.
func pass(dst io.Writer, src io.Reader, seen func(int64)) (int64, error) {
	buf, free := buffer()
	defer free()
	total := int64(0)
	for {
		n, err := src.Read(buf)
		total += int64(n)
		if n > 0 {
			seen(total)
			if _, err := dst.Write(buf[:n]); err != nil {
				return total, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, err
		}
	}
}

// passChunks is pass in chunks, without the last chunk, which is empty.
func passChunks(dst io.Writer, src io.Reader) (int64, error) {
	const room = 16 // for the size before a chunk
	buf, free := buffer()
	defer free()
	total := int64(0)
	for {
		n, err := src.Read(buf[room : len(buf)-2])
		total += int64(n)
		if n > 0 {
			size := strconv.AppendInt(nil, int64(n), 16)
			size = append(size, '\r', '\n')
			from := room - len(size)
			copy(buf[from:], size)
			copy(buf[room+n:], "\r\n")
			if _, err := dst.Write(buf[from : room+n+2]); err != nil {
				return total, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, err
		}
	}
}

// give writes an answer to the client, and returns the length of its body. If last is set,
// the connection is closed after the answer.
func (x *exchange) give(q request, resp *http.Response, last bool) (int64, error) {
	none := bodiless(q.method, resp.StatusCode)
	if len(q.extra.guards) > 0 && coding(resp.Header) == "gzip" {
		resp.ContentLength = -1 // the door decodes the body
		resp.Header.Del("Content-Length")
	}
	chunked := !none && resp.ContentLength < 0 && q.minor > 0
	m := x.masker(q)
	var w bytes.Buffer
	fmt.Fprintf(&w, "HTTP/1.1 %03d %s\r\n", resp.StatusCode, http.StatusText(resp.StatusCode))
	x.writeHeader(&w, q, resp, m)
	switch {
	case none:
		// A server may state the length that the body would have. The field was not
		// interpreted before, so only a number is passed on.
		if n, err := strconv.ParseUint(resp.Header.Get("Content-Length"), 10, 63); err == nil && resp.StatusCode != http.StatusNoContent {
			fmt.Fprintf(&w, "Content-Length: %d\r\n", n)
		}
	case chunked:
		w.WriteString("Transfer-Encoding: chunked\r\n")
	case resp.ContentLength >= 0:
		fmt.Fprintf(&w, "Content-Length: %d\r\n", resp.ContentLength)
	}
	if last || !none && !chunked && resp.ContentLength < 0 {
		w.WriteString("Connection: close\r\n")
	}
	w.WriteString("\r\n")
	if _, err := x.client.conn.Write(w.Bytes()); err != nil || none {
		return 0, err
	}
	content := q.extra.clear(resp, m)
	if !chunked {
		n, err := pass(x.client.conn, content, func(int64) {})
		if err == nil && resp.ContentLength >= 0 && n < resp.ContentLength {
			err = io.ErrUnexpectedEOF
		}
		return n, err
	}
	n, err := passChunks(x.client.conn, content)
	if err == nil {
		_, err = io.WriteString(x.client.conn, "0\r\n\r\n")
	}
	return n, err
}

// masker returns a masker for the values that must not come back in the answer to a
// request, or nil if the host has no such values. It includes all values that were given
// out until now.
func (x *exchange) masker(q request) *masker {
	if len(q.extra.guards) == 0 {
		return nil
	}
	return x.d.vault.masker(q.extra.guards...)
}

// writeHeader writes the fields of an answer that are for the client, without the values of
// secrets.
func (x *exchange) writeHeader(w *bytes.Buffer, q request, resp *http.Response, m *masker) {
	clean := make(http.Header, len(resp.Header))
	for name, values := range resp.Header {
		if slices.Contains(hopByHop, lower(name)) || len(q.extra.guards) > 0 && name == "Content-Encoding" {
			continue // the door has decoded the body
		}
		for _, v := range values {
			masked := m.blot(name)
			clean[masked] = append(clean[masked], m.blot(v))
		}
	}
	clean.Write(w) //nolint:errcheck // a Buffer accepts every write
}

// tell sends the client one line of the door itself as the answer, and closes the
// connection afterwards. It does not matter if the client has left.
func tell(client *side, status int, line string) {
	_, err := fmt.Fprintf(client.conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		status, http.StatusText(status), len(line)+1, line)
	if err == nil {
		settle(client)
	}
}

// settle lets the client read what was written before the connection is closed: closing a
// connection with unread bytes is a reset, which overtakes the answer (RFC 9112, 9.6). It
// reads for up to two seconds, and discards what it reads.
func settle(client *side) {
	const most, long = 4 << 20, 2 * time.Second
	if closeWrite(client.conn) != nil || client.conn.SetReadDeadline(time.Now().Add(long)) != nil {
		return
	}
	io.CopyN(io.Discard, client.in, most) //nolint:errcheck // the connection ends in any case
}
