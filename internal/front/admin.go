package front

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/origin"
)

// Admin is the listener for the operator of a server: probes and metrics. It has an address
// of its own, which is reachable only from this machine.
type Admin struct {
	listener net.Listener
	socket   bool // whether it is a Unix socket, which web pages cannot reach
	log      *slog.Logger

	succeeded atomic.Bool // whether another process serves the socket now
}

// adminWait is how long a request to the admin listener may take to arrive. Its answer must
// be written within twice that time, which begins at the end of the request's headers.
const adminWait = 10 * time.Second

// OpenAdmin opens the admin listener on HOST:PORT, where HOST is loopback, or on unix:PATH.
// If a listener is inherited, it uses that one. Only processes of the same user and of root
// can connect to a Unix socket. The caller closes the listener, or lets Serve do so.
func OpenAdmin(ctx context.Context, addr string, from *Inherited, log *slog.Logger) (*Admin, error) {
	if l := from.listener(nameAdmin); l != nil {
		return inheritAdmin(l, log)
	}
	if path, ok := AdminSocket(addr); ok {
		l, err := listenSocket(ctx, path)
		if err != nil {
			return nil, err
		}
		return &Admin{listener: l, socket: true, log: log}, nil
	}
	loopback, err := checkShape(addr)
	if err == nil && !loopback {
		err = fmt.Errorf("listen on %q: the admin listener has no login, so only this machine may reach it; use 127.0.0.1 or unix:PATH", addr)
	}
	if err != nil {
		return nil, &ConfigError{fmt.Errorf("--admin: %w", err)}
	}
	l, err := listen(ctx, "--admin", addr)
	if err != nil {
		return nil, err
	}
	return &Admin{listener: l, log: log}, nil
}

// inheritAdmin takes over an inherited listener, to which the same rules apply. A Unix
// socket has the mode that the service manager has chosen.
func inheritAdmin(l net.Listener, log *slog.Logger) (*Admin, error) {
	if _, socket := l.(*net.UnixListener); socket {
		return &Admin{listener: l, socket: true, log: log}, nil
	}
	loopback, err := checkShape(l.Addr().String())
	if err == nil && !loopback {
		err = fmt.Errorf("the inherited socket %s listens on %s, which other machines can reach; the admin listener has no login, so use loopback or a Unix socket", nameAdmin, l.Addr())
	}
	if err != nil {
		l.Close()
		return nil, &ConfigError{err}
	}
	return &Admin{listener: l, log: log}, nil
}

// AdminSocket returns the path in the address of an admin listener. ok is false if the
// address is not a Unix socket.
func AdminSocket(addr string) (path string, ok bool) { return strings.CutPrefix(addr, "unix:") }

// listenSocket opens a Unix socket. It replaces a socket file that a killed server has
// left.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if !filepath.IsAbs(path) {
		return nil, &ConfigError{fmt.Errorf("--admin unix:%s: want an absolute path", path)}
	}
	// The socket's file gets the mode of the socket, without the bits of the umask
	// (net/unix/af_unix.c, unix_bind_bsd). So other users can never connect, not even for a
	// short time.
	private := func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(failed, err)
	}
	config := &net.ListenConfig{Control: private}
	l, err := config.Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && deserted(ctx, path) {
		if err = os.Remove(path); err == nil {
			l, err = config.Listen(ctx, "unix", path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--admin: listen on unix:%s: %w", path, err)
	}
	return l, nil
}

// deserted reports whether a path is a socket on which no process listens.
func deserted(ctx context.Context, path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Addr returns the address of the listener, in the form of --admin.
func (a *Admin) Addr() string {
	if a.socket {
		return "unix:" + a.listener.Addr().String()
	}
	return a.listener.Addr().String()
}

// Close closes a listener that is not served. It may be called several times.
func (a *Admin) Close() { a.listener.Close() }

// Succeed stops listening here. The next process, which has inherited the socket,
// continues.
func (a *Admin) Succeed() {
	a.succeeded.Store(true)
	if u, ok := a.listener.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	a.listener.Close()
}

// Serve answers requests until ctx ends or Succeed is called, and returns when all
// connections are closed.
func (a *Admin) Serve(ctx context.Context, h http.Handler) error {
	server := &http.Server{
		Handler: a.guarded(h), ReadTimeout: adminWait, WriteTimeout: 2 * adminWait, IdleTimeout: idleWait, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(a.listener) }()
	select {
	case err := <-ended:
		if !a.succeeded.Load() {
			return fmt.Errorf("serve %s: %w", a.Addr(), err)
		}
		ended <- err // read again for the log line below
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), linger)
	defer cancel()
	if server.Shutdown(patience) != nil {
		_ = server.Close() // connections that are still open are cut
	}
	a.log.Debug("the admin listener is closed", "err", <-ended)
	return nil
}

// guarded refuses requests of web pages, and every method except GET and HEAD.
func (a *Admin) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.socket {
			if err := (origin.Guard{}).Check(r); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this method is not allowed here; use GET", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
