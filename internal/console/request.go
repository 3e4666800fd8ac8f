package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	"belljar.dev/internal/control"
)

// Bounds of requests and answers.
const (
	maxBody   = 64 << 10
	maxAnswer = 4 << 20
)

// Error is an error with the status of the HTTP answer.
type Error struct {
	Status int
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// fault returns an Error. It is not inlined into its many callers.
//
//go:noinline
func fault(status int, format string, args ...any) error {
	return &Error{status, fmt.Errorf(format, args...)}
}

// request is a request of a person.
type request struct {
	in      *http.Request
	w       http.ResponseWriter // used directly for answers that are streams
	path    string              // path of the route
	body    int64               // maximum size of the body in bytes
	console *Console
	views   *Views // views with what the person may see
	who     Person
}

// named returns the value of a wildcard in the path. It is not inlined into its many callers.
//
//go:noinline
func (r *request) named(part string) string { return r.in.PathValue(part) }

// context returns the context of the request.
func (r *request) context() context.Context { return r.in.Context() }

// from returns the number of the byte with which a part begins.
func (r *request) from() (n int64, err error) {
	if text := r.in.URL.Query().Get("from"); text != "" {
		if n, err = strconv.ParseInt(text, 10, 64); err != nil {
			err = fault(http.StatusBadRequest, "from=%q: want the number of a byte", text)
		}
	}
	return n, err
}

// read decodes the body into a value. Members that the value does not have are an error.
func (r *request) read(into any) error {
	kind, _, err := mime.ParseMediaType(r.in.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return fault(http.StatusUnsupportedMediaType, "want a body with Content-Type: application/json")
	}
	text, err := io.ReadAll(http.MaxBytesReader(r.w, r.in.Body, r.body)) //nolint:forbidigo // the reader has a bound
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return fault(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", r.body)
	}
	if err != nil {
		return fault(http.StatusBadRequest, "read the body: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fault(http.StatusBadRequest, "read the body: %w", err)
	}
	if d.More() {
		return fault(http.StatusBadRequest, "read the body: there is more than one value in it")
	}
	return nil
}

// refusal is the body of an answer that reports an error.
type refusal struct {
	Error string `json:"error"`
	After int    `json:"retry_after,omitempty"` // in seconds
}

// refuse answers a request with an error text.
func refuse(w http.ResponseWriter, text string, status int) {
	respond(w, status, refusal{Error: text})
}

// respondError answers a request with an error.
func respondError(w http.ResponseWriter, err error) {
	switch known, ok := errors.AsType[*Error](err); {
	case ok:
		refuse(w, err.Error(), known.Status)
	default:
		refuse(w, err.Error(), control.StatusOf(err))
	}
}

// respond sends a value as JSON.
func respond(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("the answer has %d bytes, and at most %d are sent; ask for less", len(text), maxAnswer)
	}
	if err != nil {
		status = http.StatusInternalServerError
		text, _ = json.Marshal(refusal{Error: err.Error()}) // a refusal contains only strings, which can always be written
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // if the client has gone, the error does not matter
}
