package fetch

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// hop is the answer of one URL. It is not changed once it is made.
type hop struct {
	status    int
	header    http.Header
	body      []byte
	most      int    // largest number of bytes that was wanted
	truncated bool   // whether the body is not complete
	partial   string // why the rest is missing
	fetched   time.Time
}

// once makes one request and reads its answer.
func (t *trip) once(ctx context.Context, kept *cached) (*hop, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.at.String(), nil)
	if err != nil {
		return nil, &Error{Kind: KindURL, Message: "the URL cannot be used", Err: err}
	}
	req.Header.Set("User-Agent", UserAgent)
	req.Header.Set("Accept", Accept)
	req.Header.Set("Accept-Language", "en, *;q=0.5")
	req.Header.Set("Accept-Encoding", "gzip, zstd")
	for name, value := range t.r.Headers {
		req.Header.Set(name, value)
	}
	if kept != nil {
		if kept.etag != "" {
			req.Header.Set("If-None-Match", kept.etag)
		}
		if kept.modified != "" {
			req.Header.Set("If-Modified-Since", kept.modified)
		}
	}
	resp, err := t.room.client.Do(req)
	if err != nil {
		return nil, explain(ctx, t.at, err)
	}
	defer resp.Body.Close()
	h := &hop{status: resp.StatusCode, header: someOf(resp.Header), most: t.r.MaxBytes, fetched: t.f.cfg.now()}
	if !h.hasBody() {
		return h, nil
	}
	if err := readable(t.at, resp.Header); err != nil {
		return nil, err
	}
	if err := h.read(ctx, t.at, resp); err != nil {
		return nil, err
	}
	return h, nil
}

// someOf returns the headers that are used later.
func someOf(all http.Header) http.Header {
	some := make(http.Header)
	for _, name := range []string{
		"Content-Type", "Content-Language", "Content-Disposition", "Location", "ETag", "Last-Modified", "Cache-Control", "Vary", "Retry-After", "WWW-Authenticate", "Refresh",
	} {
		if v := all.Get(name); v != "" && len(v) <= MaxURL {
			some.Set(name, v)
		}
	}
	return some
}

// redirects reports whether the status leads to another URL.
func (h *hop) redirects() bool {
	switch h.status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return h.header.Get("Location") != ""
	}
	return false
}

// hasBody reports whether the body of the answer is to be read.
func (h *hop) hasBody() bool {
	switch h.status {
	case http.StatusNoContent, http.StatusResetContent, http.StatusNotModified, http.StatusUnauthorized, http.StatusProxyAuthRequired:
		return false
	}
	return !h.redirects()
}

// leadsTo returns the URL to which an answer leads, by HTTP or by a meta element, and the
// status; to is empty if the answer is the page itself.
func (h *hop) leadsTo(at *url.URL) (to string, status int) {
	if h.redirects() {
		return resolve(at, h.header.Get("Location")), h.status
	}
	if h.status != http.StatusOK || !isHTML(h.header.Get("Content-Type"), h.body) {
		return "", 0
	}
	target := metaRefresh(h.body)
	if target == "" {
		if target = refreshTarget(h.header.Get("Refresh")); target == "" {
			return "", 0
		}
	}
	if to = resolve(at, target); to == at.String() {
		return "", 0 // the page only reloads itself
	}
	return to, 0
}

// resolve returns a reference from a page as a URL. A reference that is not valid is
// returned unchanged, for the message.
func resolve(at *url.URL, ref string) string {
	ref = strings.TrimSpace(ref)
	u, err := url.Parse(ref)
	if err != nil {
		return ref
	}
	u = at.ResolveReference(u)
	u.Fragment, u.RawFragment = "", ""
	if u.Host != "" && u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}

// askAgain reports whether a second request is likely to get another answer, how long to
// wait before it, and whether the server has named this time.
func (h *hop) askAgain(now time.Time) (wait time.Duration, named, again bool) {
	wait, named = retryAfter(h.header.Get("Retry-After"), now)
	switch h.status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if named {
			return wait, true, true
		}
		return time.Second, false, h.status == http.StatusTooManyRequests
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return 300 * time.Millisecond, false, true
	}
	return 0, false, false
}

// retryAfter parses seconds or a date (RFC 9110, 10.2.3).
func retryAfter(s string, now time.Time) (time.Duration, bool) {
	if n, err := strconv.Atoi(s); err == nil && n >= 0 && n < 1<<30 {
		return time.Duration(n) * time.Second, true
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0, false
	}
	return max(0, at.Sub(now)), true
}

// hungUp reports whether a server closed the connection before it answered:
// then nothing was done that a second request could do twice.
func hungUp(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE)
}

// attachment returns the file name of a Content-Disposition with attachment, and "" for any
// other.
func attachment(s string) string {
	kind, params, err := mime.ParseMediaType(s)
	if err != nil || kind != "attachment" {
		return ""
	}
	if name := params["filename"]; name != "" {
		return name
	}
	return "a file"
}
