package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of requests and answers.
const (
	maxMessage = 64 << 10        // size of a request in bytes
	maxAnswer  = 1 << 20         // size in bytes of an answer that a client reads; handlers cut their lists so that they fit
	patience   = 5 * time.Second // time for reading a request; an answer has twice as long
	linger     = 2 * time.Second // time for the answers that are still written when the listener closes
	maxServers = 64              // number of servers that a command uses
	maxLeft    = 1024            // number of files among which a server that starts looks for sockets of killed processes
	leftFor    = time.Minute     // age at which a socket that no server uses by its name is left behind
)

// Listener answers the requests of other commands.
type Listener struct {
	server http.Server
	path   string
	dir    *os.File
	wg     sync.WaitGroup
}

// Listen starts to listen in a state directory. Only requests of allowed callers reach the
// handler: processes of this user that are not in a box. The caller must close the listener.
func Listen(ctx context.Context, state string, handler http.Handler, log *slog.Logger) (*Listener, error) {
	name := Dir(state)
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, fmt.Errorf("state: %w; name another directory with --state", err)
	}
	dir, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	// With too many sockets of killed servers, a command would not find the running ones.
	sweepAll(ctx, state)
	l := &Listener{dir: dir, path: filepath.Join(name, socketName(os.Getpid()))}
	socket, err := l.listen()
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("state: %w", err)
	}
	l.server = http.Server{
		Handler: known(bounded(handler)), ConnContext: withCaller, ReadTimeout: patience, WriteTimeout: 2 * patience, IdleTimeout: patience,
		MaxHeaderBytes: maxMessage, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	l.wg.Go(func() {
		if err := l.server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			log.Error("control socket", "err", err)
		}
	})
	return l, nil
}

// StreamPath is the prefix of the paths of requests whose body or answer may have any
// length and take any time. Their handlers must set bounds.
const StreamPath = "/stream/"

// bounded sets bounds for all other requests.
func bounded(handler http.Handler) http.Handler {
	short := http.MaxBytesHandler(handler, maxMessage)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, StreamPath) {
			short.ServeHTTP(w, r)
			return
		}
		c := http.NewResponseController(w)
		if err := errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{})); err != nil {
			Respond(w, http.StatusInternalServerError, err.Error())
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// listen creates the socket. The socket gets its final name only when it accepts
// connections: before that, it refuses connections like the socket of a killed server, and
// would be removed. A socket with the final name may exist already, from a killed process
// that had the same pid.
func (l *Listener) listen() (*net.UnixListener, error) {
	early := l.path + ".new"
	_ = os.Remove(early)
	addr := &net.UnixAddr{Name: socketPath(l.dir, filepath.Base(early)), Net: "unix"}
	socket, err := net.ListenUnix("unix", addr)
	if err != nil {
		return nil, err
	}
	socket.SetUnlinkOnClose(false) // the socket is unlinked by its final name, in Close
	if err := os.Rename(early, l.path); err != nil {
		socket.Close()
		_ = os.Remove(early)
		return nil, err
	}
	return socket, nil
}

// Close stops listening. Requests that run have linger to write their answers, also if ctx
// has ended: one of them may have ended the only session of this server, and so the server.
// After that they are ended.
func (l *Listener) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), linger)
	defer cancel()
	if l.server.Shutdown(ctx) != nil {
		l.server.Close()
	}
	l.wg.Wait()
	_ = os.Remove(l.path)
	l.dir.Close()
}

// Dir returns the directory in which servers have their sockets.
func Dir(state string) string { return filepath.Join(state, "servers") }

// socketName returns the name of a server's socket.
func socketName(pid int) string { return strconv.Itoa(pid) + ".sock" }

// socketPath returns a path for a socket in an open directory. The ordinary path may be
// longer than the 108 bytes that an address has room for (unix(7)).
func socketPath(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}

// Respond sends an answer.
func Respond(w http.ResponseWriter, status int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(what) // if the client has gone, the error does not matter
}
