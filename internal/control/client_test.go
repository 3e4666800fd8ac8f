package control

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// serve starts a server in a state directory. It has no boxes.
func serve(t *testing.T, state string) *Listener {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /boxes", func(w http.ResponseWriter, _ *http.Request) { Respond(w, http.StatusOK, []Box{}) })
	l, err := Listen(t.Context(), state, mux, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// killed leaves the socket of a server that was killed.
func killed(t *testing.T, state string, pid int) {
	t.Helper()
	if err := os.MkdirAll(Dir(state), 0o700); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(Dir(state), socketName(pid))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name + ".early", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if err := os.Rename(name+".early", name); err != nil {
		t.Fatal(err)
	}
}

// Any client removes the sockets of servers that were killed, but never the socket of a
// server that starts to listen at that moment.
func TestNoServerIsLost(t *testing.T) {
	state := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	rounds := make(chan struct{}) // one send after each round
	asking.Go(func() {
		for ctx.Err() == nil {
			_, _, _ = Boxes(ctx, state) // an error if a server ends meanwhile, which does not matter
			select {
			case rounds <- struct{}{}:
			default:
			}
		}
	})
	lost := 0
	const starts = 300
	for range starts {
		killed(t, state, os.Getpid())
		l := serve(t, state)
		<-rounds // after a round, a client that met the killed server has renamed the socket and renamed it back
		if _, err := os.Stat(l.path); err != nil {
			lost++
		}
		l.Close(t.Context())
	}
	cancel()
	asking.Wait()
	if lost > 0 {
		t.Errorf("%d of %d servers cannot be found", lost, starts)
	}
}

// A process that is killed while it renames a socket leaves the socket under another name.
func TestSocketsThatWereLeft(t *testing.T) {
	state := t.TempDir()
	old := time.Now().Add(-2 * leftFor)
	left := func(name string, at time.Time) string {
		file := filepath.Join(Dir(state), name)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: file, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		t.Cleanup(func() { l.Close() })
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(name, "ended") || strings.HasSuffix(name, "new") {
			l.Close()
		}
		return file
	}
	killed(t, state, 1<<30)
	alive := left("1073741825.sock.ALIVE", old)
	removed := []string{alive, left("1073741826.sock.ended", old), left("1073741827.sock.new", old)}
	starting := left("1073741828.sock.new", time.Now())
	other := left("note.sock.ended", old)
	defer serve(t, state).Close(t.Context())
	for _, name := range removed {
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want it removed or renamed", name, err)
		}
	}
	for _, kept := range []string{filepath.Join(Dir(state), "1073741825.sock"), starting, other} {
		if _, err := os.Stat(kept); err != nil {
			t.Error(err)
		}
	}
}

// An answer that is too long is reported as such.
func TestAnswerIsBounded(t *testing.T) {
	state := t.TempDir()
	size := 0
	l, err := Listen(t.Context(), state, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		Respond(w, http.StatusOK, strings.Repeat("x", size))
	}), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context())
	size = maxAnswer - 3 // the text has two quotes and an end of line
	if _, err := Each[string](t.Context(), state, "/x"); err != nil {
		t.Error(err)
	}
	size = maxAnswer - 1
	if _, err := Each[string](t.Context(), state, "/x"); err == nil || !strings.Contains(err.Error(), "the answer has more than 1048576 bytes") {
		t.Errorf("got %v, want an error that says that the answer is too long", err)
	}
}

// Servers that were killed do not count against the maximum number of servers.
func TestKilledServersAreForgotten(t *testing.T) {
	state := t.TempDir()
	for pid := range 3 * maxServers {
		killed(t, state, 1<<30+pid)
	}
	defer serve(t, state).Close(t.Context())
	if all, err := Clients(state); err != nil || len(all) != 1 {
		t.Errorf("%d servers can be asked once one has begun, %v, want 1", len(all), err)
	}
	for pid := range 3 * maxServers {
		killed(t, state, 1<<30+pid)
	}
	found, err := Each[[]Box](t.Context(), state, "/boxes")
	if err != nil || len(found) != 1 {
		t.Errorf("found %d servers, %v, want 1", len(found), err)
	}
	if left, err := os.ReadDir(Dir(state)); err != nil || len(left) != 1 {
		t.Errorf("%d sockets are left, %v, want 1", len(left), err)
	}
}
