package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// TestDrain checks that a server that gets SIGTERM with 200 calls in flight first reports
// that it is not ready. It accepts no new calls, and answers all 200. Streams end cleanly,
// and each answer tells the client to connect again.
func TestDrain(t *testing.T) {
	const sessions, each = 10, 20
	w, a, dir := servedWithAdmin(t)
	gate := filepath.Join(dir, "ws", "gate")
	if err := syscall.Mkfifo(gate, 0o666); err != nil {
		t.Fatal(err)
	}
	open, err := os.OpenFile(gate, os.O_RDWR, 0) // also open for writing, so that a reader waits and gets no end of file
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	var all []map[string]string
	for range sessions {
		all = append(all, w.session("one"))
	}
	stream := openStream(t, w, all[0])
	defer stream.Close()
	var calls sync.WaitGroup
	for n := range sessions * each {
		calls.Go(func() {
			res, text := w.post(all[n%sessions], fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"read -r <gate; echo through"}}}`, n))
			if res == nil || res.StatusCode != http.StatusOK || !strings.Contains(text, "through") || !strings.Contains(text, "exit=0") {
				t.Errorf("call %d is lost: %v %s", n, res, text)
			}
		})
	}
	a.until(`belljar_calls_running{tenant="a"}`, sessions*each)
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	a.until("belljar_ready", 0)
	if status, r := a.ready(); status != http.StatusServiceUnavailable || len(r.Faults) != 1 || r.Faults[0].What != "draining" {
		t.Errorf("/readyz: %d %+v", status, r)
	}
	for what, ask := range map[string]func() (*http.Response, string){
		"initialize": func() (*http.Response, string) {
			return w.post(map[string]string{"Authorization": "Bearer one"}, hello)
		},
		"call of a session": func() (*http.Response, string) {
			return w.post(all[0], `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		},
	} {
		var res *http.Response
		var text string
		testenv.Until(10*time.Second, func() bool { // /readyz reports it shortly before the places do
			res, text = ask()
			return res == nil || res.StatusCode != http.StatusOK
		})
		if res == nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !res.Close {
			t.Errorf("%s while it drains: %+v %s", what, res, text)
		}
	}
	if got := a.value(`belljar_calls_running{tenant="a"}`); got != sessions*each {
		t.Errorf("%v calls run, want all %d", got, sessions*each)
	}
	if _, err := open.WriteString(strings.Repeat("\n", sessions*each)); err != nil { // one line for each call
		t.Fatal(err)
	}
	calls.Wait()
	if _, err := io.Copy(io.Discard, stream); err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
	w.end()
}
