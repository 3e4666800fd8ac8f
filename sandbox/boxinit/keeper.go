package boxinit

import (
	"bufio"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// runKeeper removes a supervisor's cgroups should the supervisor be killed:
// nobody else can, once it is gone. The directories come over the control
// connection, a line each; its end says that the supervisor is done with
// them, or dead.
func runKeeper() int {
	// It must outlive what ends the supervisor.
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

// RemoveCgroups kills what is in a tree of cgroups and removes the tree. It
// gives up after five seconds: a process that cannot die holds its cgroup.
func RemoveCgroups(top string) {
	deadline := time.Now().Add(5 * time.Second)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		// v2 only, and 5.14 or later (cgroup.kill); elsewhere the boxes die
		// with their init, which dies with the supervisor.
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

// removeTree removes directories from the leaves up; the files in a cgroup
// are the kernel's and go with it.
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
