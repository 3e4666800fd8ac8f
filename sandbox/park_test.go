package sandbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox"
)

// park parks a box that nothing stands in the way of.
func park(t testing.TB, b *sandbox.Box) {
	t.Helper()
	if !b.Park(20 * time.Second * testenv.Patience(t)) {
		t.Fatal("the box is not parked")
	}
}

// What a command could have seen before a box was parked is as it was.
func TestParkKeeps(t *testing.T) {
	b, _ := openBox(t, grant(t))
	const make = `umask 022; cd /tmp && echo text >file && chmod 640 file && touch -d '2001-02-03 04:05:06' file && ln -s /etc/passwd link && mkdir -m 1730 dir && mkfifo fifo
		python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("/tmp/socket")' 2>/dev/null
		echo shared >/dev/shm/s; echo home >~/h; echo run >$XDG_RUNTIME_DIR/r; ln file hard; setfattr -n user.x -v y file 2>/dev/null
		truncate -s 1M sparse; echo work >/workspace/w`
	const look = `find /tmp /dev/shm ~ /run /workspace -printf '%p %D:%i %y %m %U:%G %s %n %b %T@ %l\n' | grep -v '^/run/user[ /]' | sort; cat /tmp/file /dev/shm/s ~/h $XDG_RUNTIME_DIR/r /workspace/w
		hostname; id; ulimit -a; umask; env | sort | grep -v BELLJAR; cat /proc/mounts | sort; grep -E 'Cap|NoNew|Seccomp' /proc/self/status; find / /dev /etc -maxdepth 1 -printf '%p %y %m %U:%G %l\n'`
	shell(t, b, make)
	_, before := shell(t, b, look)
	park(t, b)
	_, after := shell(t, b, look)
	if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(after, "\n")); diff != "" {
		t.Error(diff)
	}
}
