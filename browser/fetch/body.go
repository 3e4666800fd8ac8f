package fetch

import (
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/klauspost/compress/zstd"

	"belljar.dev/policies"
)

// maxWindow bounds the memory in bytes that one zstd stream may make the unpacker use.
const maxWindow = 8 << 20

// errPacked means that a body is larger on the wire than it may be when unpacked.
var errPacked = errors.New("the server sent more bytes than the page may have")

// errUnasked means that a body has an encoding that the request did not name.
var errUnasked = errors.New("which the request did not offer")

// read reads the body within two bounds: one for the unpacked bytes, and one for the packed
// bytes, since there are streams that unpack to nothing without end. If the time is up or
// the connection breaks, the part that came before is kept.
func (h *hop) read(ctx context.Context, u *url.URL, resp *http.Response) error {
	wire := &meter{r: resp.Body, left: int64(h.most) + 1<<20}
	src, done, err := unpack(wire, resp.Header.Values("Content-Encoding"))
	if err != nil {
		if wire.err != nil && !errors.Is(wire.err, io.EOF) {
			return explain(ctx, u, wire.err)
		}
		kind := KindProtocol
		if errors.Is(err, errUnasked) {
			kind = KindPacked
		}
		return &Error{
			Kind: kind, URL: u.String(), Message: fmt.Sprintf("the server %s compressed the page in a way that is not supported: %v", u.Host, err),
			Instead: "use another source",
		}
	}
	defer done()
	const least = 32 << 10
	size := int64(least)
	if n := resp.ContentLength; n > 0 && len(resp.Header.Values("Content-Encoding")) == 0 {
		size = min(n+1, int64(h.most)+1)
	}
	h.body = make([]byte, 0, min(size, 1<<20)) // the server may claim any length
	for {
		if len(h.body) == cap(h.body) {
			h.body = append(h.body, 0)[:len(h.body)]
		}
		n, err := src.Read(h.body[len(h.body):cap(h.body)])
		h.body = h.body[:len(h.body)+n]
		switch {
		case len(h.body) > h.most:
			h.body, h.truncated = h.body[:h.most], true
			return nil
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return h.broken(ctx, u, err)
		}
	}
}

// broken returns nil if a part of the body can be used as the page, or else an error.
func (h *hop) broken(ctx context.Context, u *url.URL, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause != nil && !errors.Is(cause, context.DeadlineExceeded):
		return cause
	case len(h.body) == 0:
		return explain(ctx, u, err)
	case cause != nil:
		h.partial = "the time was up"
	case errors.Is(err, errPacked):
		h.truncated = true
		return nil
	default:
		h.partial = "the connection broke, or the data was damaged"
	}
	h.truncated = true
	return nil
}

// meter bounds what is read, and remembers how the reading ended.
type meter struct {
	r    io.Reader
	left int64
	err  error
}

// Read reads within the bound.
func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		m.err = errPacked
		return 0, errPacked
	}
	if int64(len(p)) > m.left {
		p = p[:m.left]
	}
	n, err := m.r.Read(p)
	m.left -= int64(n)
	m.err = err
	return n, err
}

// unpack undoes the encodings of a body. done releases the memory for that.
func unpack(r io.Reader, encodings []string) (_ io.Reader, done func(), err error) {
	done = func() {}
	var names []string
	for _, s := range encodings {
		for name := range strings.SplitSeq(s, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
				names = append(names, name)
			}
		}
	}
	switch {
	case len(names) == 0:
		return r, done, nil
	case len(names) > 1:
		return nil, nil, errors.New("more than once")
	}
	switch names[0] {
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, fmt.Errorf("as gzip, but the data is not gzip: %w", err)
		}
		return z, done, nil
	case "deflate": // deflate in the zlib format, as RFC 9110, 8.4.1.2, requires
		z, err := zlib.NewReader(r)
		if err != nil {
			return nil, nil, fmt.Errorf("as deflate, but the data is not deflate: %w", err)
		}
		return z, done, nil
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, fmt.Errorf("as zstd, but the data is not zstd: %w", err)
		}
		return z, z.Close, nil
	}
	return nil, nil, fmt.Errorf("as %s, %w", policies.Clip(names[0], 40), errUnasked)
}
