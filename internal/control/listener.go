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

// Bounds of the conversation.
const (
	maxMessage = 64 << 10        // bytes
	patience   = 5 * time.Second // for an answer
	linger     = 2 * time.Second // for the answers that are being written at the end
	maxServers = 64              // that are asked
)

// Listener answers the other commands.
type Listener struct {
	server http.Server
	path   string
	dir    *os.File
	wg     sync.WaitGroup
}

// Listen begins to answer in a state directory. Only requests of callers that may ask
// reach the handler: processes of this user, or of root, that are in no box. The caller
// closes the listener.
func Listen(ctx context.Context, state string, handler http.Handler, log *slog.Logger) (*Listener, error) {
	name := Dir(state)
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, fmt.Errorf("state: %w; name another directory with --state", err)
	}
	dir, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	// Of too many that were killed, nobody would find those that live.
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

// StreamPath begins the paths of requests with a body or an answer of any length, which take
// any time. Their handlers bound them.
const StreamPath = "/stream/"

// bounded bounds all other requests.
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

// listen makes the socket. It gets its name once somebody listens: before, it refuses
// connections as the socket of a server that was killed does, and would be removed as
// one. The name may be that of a process that had our number and was killed.
func (l *Listener) listen() (*net.UnixListener, error) {
	early := l.path + ".new"
	_ = os.Remove(early)
	addr := &net.UnixAddr{Name: socketPath(l.dir, filepath.Base(early)), Net: "unix"}
	socket, err := net.ListenUnix("unix", addr)
	if err != nil {
		return nil, err
	}
	socket.SetUnlinkOnClose(false) // by the early name
	if err := os.Rename(early, l.path); err != nil {
		socket.Close()
		_ = os.Remove(early)
		return nil, err
	}
	return socket, nil
}

// Close stops answering. Requests that run have a moment for their answers, also where
// ctx has ended: one of them may have ended this server's only session, and so the
// server. Then they are ended.
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

// Dir is where servers have their sockets.
func Dir(state string) string { return filepath.Join(state, "servers") }

// socketName is the name of a server's socket.
func socketName(pid int) string { return strconv.Itoa(pid) + ".sock" }

// socketPath names a socket in a directory that is open: its own path may be
// longer than the 108 bytes an address has room for (unix(7)).
func socketPath(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}

// Respond sends an answer.
func Respond(w http.ResponseWriter, status int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(what) // a client that has gone hears nothing
}
