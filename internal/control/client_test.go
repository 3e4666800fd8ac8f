package control

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
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
