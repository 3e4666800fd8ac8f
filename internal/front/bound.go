package front

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// boundBody limits the time in which a request must send its body, even if no handler reads
// the body: net/http reads the rest of a body before it accepts the next request of a
// connection. The time of answers is the responsibility of the handlers, whose calls may
// take long.
func boundBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyWait)) // the recorder of a test has no deadline
	r.Body = &deadlineBody{ReadCloser: r.Body, came: func() { _ = conn.SetReadDeadline(time.Time{}) }}
}

// deadlineBody is a body with a deadline. The deadline is removed when the whole body has
// arrived: from then on, net/http reads the connection to notice whether the client
// disconnects.
type deadlineBody struct {
	io.ReadCloser
	came func()
}

// Read reads the body.
func (b *deadlineBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.came()
	}
	return n, err
}

// closeAfterChunks closes the connection after a request whose body is chunked. Such a
// request may also have had a Content-Length, and a proxy before this server may have used
// that: then this server would take what the proxy sends as the rest of the body for a
// request of another client. net/http reads the chunks and removes the length, so a handler
// cannot notice it (RFC 9112, 6.1: the server "MUST close the connection after responding
// to such a request"). Clients of the protocol know the length of their messages.
func closeAfterChunks(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close")
	}
}
