package front

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Bounds of the search for the process that has a port.
const (
	maxSockets     = 8 << 20 // bytes of a table of the kernel
	maxProcesses   = 8192
	maxDescriptors = 4096 // number of descriptors of one process
)

// by returns the phrase that names a process in a message; empty if the process is not
// known.
func by(process string) string {
	if process == "" {
		return ""
	}
	return " by " + process
}

// holder returns the process that listens on the port of an address, for a person. It is
// empty if this process is not allowed to see it.
func holder(addr string) string {
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return ""
	}
	inodes := make(map[string]bool)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listening(table, port, inodes)
	}
	if len(inodes) == 0 {
		return ""
	}
	proc, err := os.Open("/proc")
	if err != nil {
		return ""
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(maxProcesses)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err != nil || !has(filepath.Join("/proc", name, "fd"), inodes) || pid <= 0 {
			continue
		}
		comm, err := os.ReadFile(filepath.Join("/proc", name, "comm")) // at most 16 bytes (proc_pid_comm(5))
		if err != nil {
			return "process " + name
		}
		return fmt.Sprintf("process %s (%q)", name, strings.TrimSpace(string(comm)))
	}
	return ""
}

// listening adds the inodes of the sockets that listen on a port (proc_pid_net(5), tcp).
func listening(table string, port uint64, inodes map[string]bool) {
	file, err := os.Open(table)
	if err != nil {
		return
	}
	defer file.Close()
	const listens = "0A"
	want := fmt.Sprintf(":%04X", port)
	lines := bufio.NewScanner(io.LimitReader(file, maxSockets))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && fields[3] == listens && strings.HasSuffix(fields[1], want) {
			inodes["socket:["+fields[9]+"]"] = true
		}
	}
}

// has reports whether a directory of descriptors contains one of the sockets.
func has(dir string, inodes map[string]bool) bool {
	fds, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer fds.Close()
	names, _ := fds.Readdirnames(maxDescriptors)
	for _, name := range names {
		if to, err := os.Readlink(filepath.Join(dir, name)); err == nil && inodes[to] {
			return true
		}
	}
	return false
}
