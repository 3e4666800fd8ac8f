package searchtest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Behaviour handles the requests to an engine. A behaviour that waits must return when the
// request ends.
type Behaviour = http.HandlerFunc

// Good answers with a page.
func Good(p Page) Behaviour { return func(w http.ResponseWriter, _ *http.Request) { p.write(w) } }

// Zipped answers with a compressed page, like most engines.
func Zipped(p Page) Behaviour {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(p.Body) // writes to memory, so it cannot fail
	_ = z.Close()
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			p.write(w)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		Page{p.Type, b.Bytes()}.write(w)
	}
}

// Hang never answers.
func Hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Refuse answers with a status. If retryAfter is above 0, the answer asks for that many
// seconds of waiting.
func Refuse(status, retryAfter int) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		}
		http.Error(w, http.StatusText(status), status)
	}
}

// Blocked answers as the engine answers a client that it takes for a program.
func Blocked(e Engine) Behaviour {
	if e.Block == nil {
		return Refuse(http.StatusForbidden, 0)
	}
	return Good(e.Block())
}

// Soft answers with a page of the engine that contains neither results nor a reason.
func Soft(e Engine) Behaviour { return Good(page(e.Name, `<div id="header"></div>`, 8_000)) }

// Truncated breaks off in the middle of a page.
func Truncated(p Page) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", p.Type)
		w.Header().Set("Content-Length", strconv.Itoa(len(p.Body)))
		_, _ = w.Write(p.Body[:len(p.Body)/5])
		panic(http.ErrAbortHandler)
	}
}

// Headless answers with a page without its first and last fifth.
func Headless(p Page) Behaviour {
	return Good(Page{p.Type, p.Body[len(p.Body)/5 : len(p.Body)/5*4]})
}

// Bomb answers with a hundred megabytes that are compressed to a hundred kilobytes.
func Bomb() Behaviour {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.CopyN(z, letters{}, 100<<20)
	_ = z.Close()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		Page{htmlType, b.Bytes()}.write(w)
	}
}

// Huge answers with size bytes.
func Huge(size int64) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", htmlType)
		_, _ = io.CopyN(w, letters{}, size) // the client closes the connection before the end
	}
}

// letters is an endless text with tags.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		n += copy(p[n:], "<div class=x><b>endless</b> ")
	}
	return len(p), nil
}

// Dribble sends one byte at a time, with a pause before each.
func Dribble(pause time.Duration) Behaviour {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", htmlType)
		for wait(r, pause) {
			if _, err := w.Write([]byte("<")); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	}
}

// Circle redirects to itself without end.
func Circle(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.URL.Query().Get("n"))
	http.Redirect(w, r, fmt.Sprintf("%s?n=%d", r.URL.Path, n+1), http.StatusFound)
}

// Away redirects to an address that is not the engine's.
func Away(address string) Behaviour {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, address, http.StatusFound) }
}

// Charset answers with a page that claims a wrong character set.
func Charset(p Page, name string) Behaviour {
	kind, _, _ := strings.Cut(p.Type, ";")
	return Good(Page{kind + "; charset=" + name, p.Body})
}

// Cookies answers with a page that sets many cookies.
func Cookies(p Page) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := range 200 {
			http.SetCookie(w, &http.Cookie{Name: fmt.Sprintf("c%d", i), Value: strings.Repeat("v", 300)})
		}
		p.write(w)
	}
}

// Noise answers with a page in which some bytes are changed, and that is cut off somewhere.
func Noise(p Page) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request) {
		b := bytes.Clone(p.Body)
		for range 1 + len(b)/200 {
			b[rand.IntN(len(b))] = byte(rand.IntN(256))
		}
		b = b[:rand.IntN(len(b)+1)]
		Page{p.Type, b}.write(w)
	}
}

// Sometimes does something odd with probability p, and otherwise the usual.
func Sometimes(p float64, odd, usual Behaviour) Behaviour {
	return func(w http.ResponseWriter, r *http.Request) {
		if rand.Float64() < p {
			odd(w, r)
			return
		}
		usual(w, r)
	}
}

// Any does one of several things, chosen at random.
func Any(all ...Behaviour) Behaviour {
	return func(w http.ResponseWriter, r *http.Request) { all[rand.IntN(len(all))](w, r) }
}

// InTurn does one thing after the other, and repeats the last.
func InTurn(all ...Behaviour) Behaviour {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		next := all[0]
		if len(all) > 1 {
			all = all[1:]
		}
		mu.Unlock()
		next(w, r)
	}
}

// wait waits for d, and reports whether the request has not ended before.
func wait(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// Tag finds a word in a request that begins with prefix and continues with digits, and
// returns the digits. So a behaviour can tell queries apart whatever the form of the
// engine's requests. It returns "" if the request has no such word.
func Tag(r *http.Request, prefix string) string {
	text, _ := io.ReadAll(io.LimitReader(r.Body, 1<<16)) //nolint:forbidigo // the reader has a limit
	r.Body = io.NopCloser(bytes.NewReader(text))
	_, rest, ok := strings.Cut(r.URL.RequestURI()+" "+string(text), prefix)
	if !ok {
		return ""
	}
	end := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	return rest
}

// Drawn returns a number from 0 up to 1 that is always the same for the same words: so a
// query meets the same behaviour when another client asks it.
func Drawn(words ...string) float64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, strings.Join(words, "\x00")) // never fails
	return rand.New(rand.NewPCG(h.Sum64(), 1)).Float64()
}
