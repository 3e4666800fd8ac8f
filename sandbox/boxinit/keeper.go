package boxinit

import (
	"bufio"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// runKeeper removes a supervisor's cgroups if the supervisor is killed: after its death no
// other process can. The directories come over the control connection, one in each line.
// The end of the connection means that the supervisor no longer needs them, or is dead.
func runKeeper() int {
	// The keeper must outlive the signals that end the supervisor.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	nameProcess(KeeperName)
	var dirs []string
	lines := bufio.NewScanner(os.NewFile(control, "control"))
	for lines.Scan() {
		dirs = append(dirs, lines.Text())
	}
	for _, dir := range dirs {
		RemoveCgroups(dir)
	}
	return 0
}

// RemoveCgroups kills the processes in a tree of cgroups and removes the tree. It gives up
// after five seconds: a process that cannot die keeps its cgroup.
func RemoveCgroups(top string) {
	deadline := time.Now().Add(5 * time.Second)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		// Only in v2, and since Linux 5.14 (cgroup.kill). Otherwise the boxes end with
		// their init, which ends with the supervisor.
		if f, err := os.OpenFile(top+"/cgroup.kill", os.O_WRONLY, 0); err == nil {
			_, _ = f.WriteString("1")
			f.Close()
		}
		removeTree(top)
		if _, err := os.Lstat(top); err != nil || time.Now().After(deadline) {
			return
		}
		<-time.After(wait)
	}
}

// removeTree removes directories from the leaves up. The files in a cgroup belong to the
// kernel and are removed with it.
func removeTree(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeTree(dir + "/" + e.Name())
		}
	}
	_ = os.Remove(dir)
}
