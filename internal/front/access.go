package front

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"belljar.dev/mcp"
)

// entry is one line of the access log. It never contains an argument of a call or a token.
type entry struct {
	Time      string `json:"time"` // time when the request arrived
	From      string `json:"from"` // address of the client
	Principal string `json:"principal,omitempty"`
	Tenant    string `json:"tenant,omitempty"`
	Session   string `json:"session,omitempty"` // first part of the digest of its id
	HTTP      string `json:"http"`              // HTTP method
	Route     string `json:"route,omitempty"`   // pattern that matched the path
	Method    string `json:"method,omitempty"`  // MCP method
	Tool      string `json:"tool,omitempty"`
	Call      string `json:"call,omitempty"`  // id of the call, as in the audit log
	Trace     string `json:"trace,omitempty"` // id of its trace, if it is traced
	Limit     string `json:"limit,omitempty"` // limit that the request exceeded
	Status    int    `json:"status"`
	Bytes     int64  `json:"bytes"`          // size of the body of the answer
	MS        int64  `json:"ms"`             // milliseconds until the answer or the stream had ended
	Lost      int64  `json:"lost,omitempty"` // number of lines before this one that were lost
}

// maxLines is the length of the queue for a log that is slower than the server. Requests do
// not wait for the log.
const maxLines = 1024

// accessLog writes a line for each request. It is safe for concurrent use.
type accessLog struct {
	name string // name of the file; empty for an output that the log must not close
	log  *slog.Logger

	lines chan entry
	lost  atomic.Int64
	asked chan struct{} // contains one element while the file is to be opened again
	out   io.Writer     // used only by the goroutine of run
}

// openAccessLog opens the file of a log, or uses out if the name is "-".
func openAccessLog(name string, out io.Writer, log *slog.Logger) (*accessLog, error) {
	l := &accessLog{log: log, lines: make(chan entry, maxLines), asked: make(chan struct{}, 1), out: out}
	if name != "-" {
		l.name = name
		file, err := openAppending(name)
		if err != nil {
			return nil, err
		}
		l.out = file
	}
	return l, nil
}

func openAppending(name string) (*os.File, error) {
	// A pipe without a reader must not block the server.
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the access log: %w", err)
	}
	return file, nil
}

// add queues an entry for the log. If the queue is full, the entry is lost and counted.
func (l *accessLog) add(e entry) {
	select {
	case l.lines <- e:
	default:
		l.lost.Add(1)
	}
}

// ask makes the log open its file again, because the file was renamed.
func (l *accessLog) ask() {
	select {
	case l.asked <- struct{}{}:
	default: // the request that waits already serves this caller too
	}
}

// follow is run, but it ends soon after ctx even if the log does not accept any data: a
// blocked reader of the log must not keep the server from ending.
func (l *accessLog) follow(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.run(ctx)
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	late := time.NewTimer(linger)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		l.log.Error("the access log cannot be written in time, so its last lines are lost", "lines", len(l.lines)+1)
	}
}

// run writes entries until ctx ends, and then the entries that still wait. add must not be
// called afterwards.
func (l *accessLog) run(ctx context.Context) {
	for {
		select {
		case e := <-l.lines:
			l.write(e)
		case <-l.asked:
			l.reopen()
		case <-ctx.Done():
			for {
				select {
				case e := <-l.lines:
					l.write(e)
				default:
					return
				}
			}
		}
	}
}

// write writes a line. If the log cannot be written, the error is reported once, until a
// write succeeds again.
func (l *accessLog) write(e entry) {
	e.Lost = l.lost.Swap(0)
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.out.Write(append(line, '\n'))
	}
	if err == nil {
		return
	}
	if l.lost.Add(e.Lost+1) == 1 {
		l.log.Error("the access log cannot be written", "err", err)
	}
}

// reopen opens the file again. If that fails, the open file stays in use.
func (l *accessLog) reopen() {
	if l.name == "" {
		return
	}
	file, err := openAppending(l.name)
	if err != nil {
		l.log.Error("the access log cannot be opened again; the old file stays in use", "err", err)
		return
	}
	l.close()
	l.out = file
}

// close closes the file of a log that does not run, or the file that reopen replaces.
func (l *accessLog) close() {
	if file, ours := l.out.(io.Closer); ours && l.name != "" {
		file.Close()
	}
}

// entryOf returns the line of a request, from its headers and the headers of its answer.
func (f *Front) entryOf(r *http.Request, a *answer, session string, began time.Time) entry {
	e := entry{HTTP: methodOf(r), Route: r.Pattern, Status: a.status, Bytes: a.bytes}
	if f.access != nil {
		e.Time, e.From = began.UTC().Format("2006-01-02T15:04:05.000Z"), sender(r, f.proxies).String()
		e.Session = cmp.Or(session, a.Header().Get("Mcp-Session-Id")) // the session of the answer was opened by initialize
	}
	return e
}

// of completes the line of a request whose answer has ended.
func (e entry) of(served *mcp.Served, began time.Time) entry {
	e.Principal, e.Tenant, e.Method, e.Tool, e.Limit = served.Principal, served.Tenant, served.Method, served.Tool, served.Limit
	e.Session = sessionDigest(cmp.Or(e.Session, served.Session)) // another transport has the session elsewhere
	e.Call, e.Trace = served.Call()
	e.Bytes += served.HijackedBytes()
	e.MS = time.Since(began).Milliseconds()
	return e
}

// sessionDigest returns a text with which lines of one session can be found. It does not
// give access to the session.
func sessionDigest(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:4])
}

// methodOf returns the method of a request; "_other" for a method that HTTP does not
// define.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodOptions, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodConnect, http.MethodTrace:
		return r.Method
	}
	return "_other"
}
