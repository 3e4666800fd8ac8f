package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// TestHandOverOfServices checks that a service of systemd is not handed over if systemd
// cannot be notified of the successor: it would end both processes.
func TestHandOverOfServices(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	for _, tt := range []struct {
		pid, socket string
		want        bool
	}{{"", "", true}, {"1", "", true}, {self, "", false}, {self, "/run/systemd/notify", true}} {
		env := map[string]string{varExecPID: tt.pid, varNotify: tt.socket}
		if err := mayHandOver(func(name string) string { return env[name] }); (err == nil) != tt.want {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// TestServiceManagerHears checks that a service manager is notified when clients can
// connect, and which process is the successor.
func TestServiceManagerHears(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	for name, socket := range map[string]string{"file": filepath.Join(t.TempDir(), "notify"), "abstract": fmt.Sprintf("@belljar-test-%d", os.Getpid())} {
		t.Run(name, func(t *testing.T) {
			heard, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			defer heard.Close()
			next := func() string {
				t.Helper()
				if err := heard.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Error(err)
				}
				b := make([]byte, 100)
				n, err := heard.Read(b)
				if err != nil {
					t.Error(err)
				}
				return string(b[:n])
			}
			w := serveWeb(t, []string{varNotify + "=" + socket, "XDG_STATE_HOME=" + t.TempDir()}, "--workspace", t.TempDir(), "--state", t.TempDir())
			g := &generations{w, w.cmd.Process.Pid}
			if got := next(); got != "READY=1" {
				t.Errorf("of the first server the manager hears %q", got)
			}
			g.handOver()
			got := []string{next(), next()} // one message of each server, in any order
			slices.Sort(got)
			if want := []string{"MAINPID=" + strconv.Itoa(g.pid), "READY=1"}; !slices.Equal(got, want) {
				t.Errorf("at the hand-over the manager hears %q, want %q", got, want)
			}
			g.stop()
		})
	}
}
