package login

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	redirectPath = "/callback"
	maxStrays    = 64 // most requests that are not the answer
)

// page is the text that the person's browser shows. It contains no part of a request, and
// is the same for all answers.
const page = "belljar has received the answer of the authorization server.\nYou can close this page. The program in your terminal says whether you are logged in.\n"

// listener waits on this machine for the one request that contains the answer of an
// authorization server (RFC 8252, section 7.3).
type listener struct {
	at      net.Listener
	server  *http.Server
	state   string
	answers chan answer // has room for one answer
	wg      sync.WaitGroup

	mu     sync.Mutex
	over   bool // guarded by mu: the answer was received, or the listener gave up
	strays int  // guarded by mu
}

// answer is the answer in the redirect, or the error that prevented an answer.
type answer struct {
	query url.Values
	err   error
}

// listen opens a listener for the answer that has a state.
func listen(ctx context.Context, state string) (*listener, error) {
	var cfg net.ListenConfig
	at, err := cfg.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the answer of the authorization server: %w", err)
	}
	l := &listener{at: at, state: state, answers: make(chan answer, 1)}
	l.server = &http.Server{
		Handler: l, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10,
		// nothing is logged, since any program could put text into the log
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	l.server.SetKeepAlivesEnabled(false)
	l.wg.Go(func() { _ = l.server.Serve(at) }) // until close
	return l, nil
}

// url returns the URL to which the authorization server redirects the person's browser.
func (l *listener) url() string { return "http://127.0.0.1:" + port(l.at.Addr()) + redirectPath }

// close ends the listener. It waits for a page that is being written.
func (l *listener) close(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	if l.server.Shutdown(ctx) != nil {
		l.server.Close()
	}
	l.wg.Wait()
}

// ServeHTTP receives the answer. Any page and any program on this machine can send requests
// to it. The answer is recognized by its state, which only the authorization server has
// been told, and which is accepted once.
func (l *listener) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	h := rw.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // the URL contains the code
	h.Set("Cache-Control", "no-store")
	if status := l.receive(r); status != http.StatusOK {
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, "This is not the answer that belljar waits for.\n")
		return
	}
	_, _ = io.WriteString(rw, page)
}

// receive handles a request, and returns the status of its response.
func (l *listener) receive(r *http.Request) int {
	query, err := url.ParseQuery(r.URL.RawQuery)
	right := err == nil && r.Method == http.MethodGet && r.URL.Path == redirectPath && r.Host == "127.0.0.1:"+port(l.at.Addr())
	states := query["state"]
	if len(states) != 1 || subtle.ConstantTimeCompare([]byte(states[0]), []byte(l.state)) != 1 {
		right = false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		return http.StatusGone
	case right:
		l.over = true
		l.answers <- answer{query: query}
		return http.StatusOK
	}
	if l.strays++; l.strays > maxStrays {
		l.over = true
		l.answers <- answer{err: errors.New("too many requests that were not the answer of the authorization server: a program on this machine may be guessing")}
	}
	return http.StatusBadRequest
}

// wait waits for the answer.
func (l *listener) wait(ctx context.Context) (url.Values, error) {
	select {
	case a := <-l.answers:
		return a.query, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
