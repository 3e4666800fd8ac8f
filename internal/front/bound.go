package front

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// boundBody gives a request its time to send its body, whether or not a handler reads it:
// net/http reads what is left of a body before it takes the next request of a
// connection. Answers are the business of the handlers, whose calls may take long.
func boundBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyWait)) // a test's recorder has none
	r.Body = &deadlineBody{ReadCloser: r.Body, came: func() { _ = conn.SetReadDeadline(time.Time{}) }}
}

// deadlineBody is a body with a deadline, which is lifted when all of it has come: from then
// on, net/http reads the connection to learn whether the client goes away.
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

// closeAfterChunks has the connection closed behind a request whose body is chunked. Such a request
// may have had a Content-Length as well, and a proxy before this server may have taken that:
// then what the proxy takes for the rest of the body looks like a request of somebody else
// here. net/http reads the chunks and removes the length, so a handler cannot see it (RFC 9112,
// 6.1: the server "MUST close the connection after responding to such a request"). Clients
// of the protocol know the length of their messages.
func closeAfterChunks(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close")
	}
}
