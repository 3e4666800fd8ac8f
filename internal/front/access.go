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

// entry is one line of the access log. Nothing in it is an argument of a call, or a
// token.
type entry struct {
	Time      string `json:"time"` // when the request came
	From      string `json:"from"` // the client's address
	Principal string `json:"principal,omitempty"`
	Tenant    string `json:"tenant,omitempty"`
	Session   string `json:"session,omitempty"` // the beginning of the digest of its id
	HTTP      string `json:"http"`              // the method of HTTP
	Route     string `json:"route,omitempty"`   // the pattern that the path matched
	Method    string `json:"method,omitempty"`  // of MCP
	Tool      string `json:"tool,omitempty"`
	Call      string `json:"call,omitempty"`  // the id of the call, in the audit log as well
	Trace     string `json:"trace,omitempty"` // the id of its trace, if it is traced
	Limit     string `json:"limit,omitempty"` // that it was above
	Status    int    `json:"status"`
	Bytes     int64  `json:"bytes"`          // of the body of the answer
	MS        int64  `json:"ms"`             // until the answer, or the stream, had ended
	Lost      int64  `json:"lost,omitempty"` // lines before this one that could not be written in time
}

// maxLines is how many lines wait for a log that is slower than the server. No request
// waits for it.
const maxLines = 1024

// accessLog writes a line for each request. It is safe for concurrent use.
type accessLog struct {
	name string // of a file; empty for an output that is not ours to close
	log  *slog.Logger

	lines chan entry
	lost  atomic.Int64
	asked chan struct{} // holds one while the file is to be opened again
	out   io.Writer     // of the goroutine of run
}

// openAccessLog opens the file of a log, or takes out if the name is "-".
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
	// A pipe that nobody reads must not hold the server up.
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the access log: %w", err)
	}
	return file, nil
}

// add queues an entry for the log; if the queue is full, the entry is lost, and counted.
func (l *accessLog) add(e entry) {
	select {
	case l.lines <- e:
	default:
		l.lost.Add(1)
	}
}

// ask has the file opened again, since somebody has renamed it.
func (l *accessLog) ask() {
	select {
	case l.asked <- struct{}{}:
	default: // a request that waits serves for this one, too
	}
}

// follow does what run does, and ends soon after ctx even if the log takes nothing: a reader
// of the log that hangs must not keep the server from ending.
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
		l.log.Error("the access log takes nothing, so its last lines are lost", "lines", len(l.lines)+1)
	}
}

// run writes until ctx ends, and then what still waits. add must not be called later.
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

// write writes a line. A log that cannot be written is reported once until it can be.
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

// reopen opens the file anew. Where that fails, the one that is open goes on.
func (l *accessLog) reopen() {
	if l.name == "" {
		return
	}
	file, err := openAppending(l.name)
	if err != nil {
		l.log.Error("the access log cannot be opened again; the file before goes on", "err", err)
		return
	}
	l.close()
	l.out = file
}

// close closes the file of a log that does not run.
func (l *accessLog) close() {
	if file, ours := l.out.(io.Closer); ours && l.name != "" {
		file.Close()
	}
}

// entryOf is the line of a request as its headers and those of its answer have it.
func (f *Front) entryOf(r *http.Request, a *answer, session string, began time.Time) entry {
	e := entry{HTTP: methodOf(r), Route: r.Pattern, Status: a.status, Bytes: a.bytes}
	if f.access != nil {
		e.Time, e.From = began.UTC().Format("2006-01-02T15:04:05.000Z"), sender(r, f.proxies).String()
		e.Session = cmp.Or(session, a.Header().Get("Mcp-Session-Id")) // the session of the answer is the one that initialize has opened
	}
	return e
}

// of is the line of a request whose answer has ended.
func (e entry) of(served *mcp.Served, began time.Time) entry {
	e.Principal, e.Tenant, e.Method, e.Tool, e.Limit = served.Principal, served.Tenant, served.Method, served.Tool, served.Limit
	e.Session = sessionDigest(cmp.Or(e.Session, served.Session)) // the transport has it elsewhere
	e.Call, e.Trace = served.Call()
	e.Bytes += served.HijackedBytes()
	e.MS = time.Since(began).Milliseconds()
	return e
}

// sessionDigest names a session to those who look for it in two lines, and opens none.
func sessionDigest(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:4])
}

// methodOf is the method of a request, without what a client makes up.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodOptions, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodConnect, http.MethodTrace:
		return r.Method
	}
	return "_other"
}
