package testenv

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Process is a process of this machine (proc_pid_stat(5)).
type Process struct {
	PID, Parent, Session int
	Name                 string // name of its program, at most 15 bytes
	State                string
	Began                string        // ticks between the boot and its start, as a text; only for comparisons for equality
	CPU                  time.Duration // CPU time of the process, and of the children that it has waited for
}

// userHZ is the number of ticks per second, a constant of the kernel's interface.
const userHZ = 100

// Processes returns the processes of this machine, by their process IDs.
func Processes() map[int]Process {
	all := make(map[int]Process)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the process is gone
		}
		// pid (name) state ppid ...; the name may contain any characters, even ")".
		id, rest, _ := strings.Cut(string(text), " (")
		end := strings.LastIndexByte(rest, ')')
		pid, err := strconv.Atoi(id)
		if err != nil || end < 0 {
			continue
		}
		f := strings.Fields(rest[end+1:])
		if len(f) < 20 {
			continue
		}
		number := func(i int) int { n, _ := strconv.Atoi(f[i]); return n }
		all[pid] = Process{
			PID: pid, Name: rest[:end], State: f[0], Parent: number(1), Session: number(3), Began: f[19],
			CPU: time.Duration(number(11)+number(12)+number(13)+number(14)) * time.Second / userHZ,
		}
	}
	return all
}

// Below returns the processes in all that descend from the process pid, and this process
// itself if all contains it.
func Below(all map[int]Process, pid int) (below []Process) {
	for _, p := range all {
		// The process IDs are not read at the same moment. The ID of a parent that has
		// ended may belong to another process by now, so parents may form a cycle: stop
		// after len(all) steps.
		for at, steps := p.PID, 0; at > 0 && steps < len(all); at, steps = all[at].Parent, steps+1 {
			if at == pid {
				below = append(below, p)
				break
			}
		}
	}
	return below
}
