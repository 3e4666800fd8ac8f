package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"belljar.dev/internal/testenv"
)

// activated starts a server in the way of a service manager, with open sockets. asPID is
// the value of LISTEN_PID; if it is empty, it is the server's own PID. The caller must wait
// for the server.
func activated(t *testing.T, asPID, names string, sockets []net.Listener, args ...string) (cmd *exec.Cmd, log *bufio.Reader) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	script := `export LISTEN_PID="${AS:-$$}"; program=$1; shift; exec -a belljar "$program" serve "$@"`
	cmd = exec.CommandContext(ctx, "bash", append([]string{"-c", script, "bash", os.Args[0], "--workspace", t.TempDir(), "--state", t.TempDir()}, args...)...)
	cmd.Env = append(os.Environ(), "AS="+asPID, "LISTEN_FDS="+strconv.Itoa(len(sockets)), "LISTEN_FDNAMES="+names, "XDG_STATE_HOME="+t.TempDir())
	for _, l := range sockets {
		lender, ok := l.(interface{ File() (*os.File, error) })
		if !ok {
			t.Fatalf("%T has no descriptor", l)
		}
		f, err := lender.File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(errs)
}

// says returns the next line of a log that contains a text.
func says(t *testing.T, log *bufio.Reader, text string) string {
	t.Helper()
	var all strings.Builder
	for {
		line, err := log.ReadString('\n')
		all.WriteString(line)
		if strings.Contains(line, text) {
			return line
		}
		if err != nil {
			t.Fatalf("it never said %q:\n%s", text, all.String())
		}
	}
}

// TestSocketActivation checks that a server uses the sockets of its service manager
// according to their names: the socket of its clients, which could connect before the
// server ran, and the socket of its probes.
func TestSocketActivation(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	clients, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer clients.Close()
	path := filepath.Join(t.TempDir(), "admin.sock")
	probes, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer probes.Close()
	early := make(chan error, 1)
	go func() { // before the server runs
		res, err := http.Post("http://"+clients.Addr().String()+"/mcp", "application/json", strings.NewReader("{}"))
		if err == nil {
			res.Body.Close()
		}
		early <- err
	}()
	cmd, log := activated(t, "", "belljar.socket:admin", []net.Listener{clients, probes}, "--http", "127.0.0.1:1")
	if line := says(t, log, "clients can connect"); !strings.Contains(line, clients.Addr().String()) || !strings.Contains(line, path) {
		t.Errorf("it says %s", line)
	}
	if err := <-early; err != nil {
		t.Errorf("a client that came before the server: %v", err)
	}
	if status, r := adminAt(t, "unix:"+path).ready(); status != http.StatusOK || !r.Ready {
		t.Errorf("/readyz: %d %+v", status, r)
	}
	checkCloseOnExec(t, cmd.Process.Pid)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	says(t, log, "the server has stopped")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the socket of the service manager is gone: %v", err)
	}
}

// checkCloseOnExec checks that no descriptor of a process outlives an exec, except its
// standard streams and the descriptors with which this test process was started.
func checkCloseOnExec(t *testing.T, pid int) {
	t.Helper()
	given := outliving(t, os.Getpid())
	for fd, at := range outliving(t, pid) {
		if given[fd] != at {
			t.Errorf("descriptor %s (%s) outlives an exec", fd, at)
		}
	}
}

// outliving returns the descriptors of a process, from 3 on, that outlive an exec, and what
// each of them is.
func outliving(t *testing.T, pid int) map[string]string {
	t.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil || len(names) < 5 {
		t.Fatalf("%v, %v", names, err)
	}
	found := make(map[string]string)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if fd, _ := strconv.Atoi(filepath.Base(name)); err != nil || fd < 3 {
			continue // it was closed meanwhile
		}
		_, rest, _ := bytes.Cut(text, []byte("flags:\t"))
		digits, _, _ := bytes.Cut(rest, []byte("\n"))
		flags, err := strconv.ParseUint(string(digits), 8, 64)
		if err != nil {
			t.Fatalf("%s: %q", name, text)
		}
		if flags&syscall.O_CLOEXEC == 0 {
			fd := filepath.Base(name)
			found[fd], _ = os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd))
		}
	}
	return found
}

// TestSocketActivationIsChecked checks that sockets that are not meant for the server are
// left alone, and that the rules for the flags also apply to the other sockets.
func TestSocketActivationIsChecked(t *testing.T) {
	listen := func(addr string) net.Listener {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	unix, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	for _, tt := range []struct {
		name, as, names string
		sockets         []net.Listener
		status          int
		want            string
	}{
		{"everybody, without login and TLS", "", "", []net.Listener{listen("0.0.0.0:0")}, 2, "other machines can reach it"},
		{"probes for everybody", "", "x:admin", []net.Listener{listen("127.0.0.1:0"), listen("0.0.0.0:0")}, 2, "which other machines can reach"},
		{"two for clients", "", "a:b", []net.Listener{listen("127.0.0.1:0"), listen("127.0.0.1:0")}, 1, "two sockets of this kind"},
		{"a Unix socket for clients", "", "", []net.Listener{unix}, 1, "clients connect by TCP"},
		{"another process's", "1", "", []net.Listener{listen("127.0.0.1:0")}, 2, "want HOST:PORT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr := "127.0.0.1:0"
			if tt.as != "" {
				addr = "none" // this value is read only if no socket is used
			}
			cmd, log := activated(t, tt.as, tt.names, tt.sockets, "--http", addr)
			says(t, log, tt.want)
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != tt.status {
				t.Errorf("it ended with status %d, want %d", got, tt.status)
			}
		})
	}
}
