package cgroup

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// This file replaces the controllers that a host does not have: belljar adds up what the
// processes of a box use, according to /proc.

// Overweight returns the child of an init that uses the most memory together with its
// descendants, if all children together use more memory than most, in bytes. Otherwise it
// returns 0.
func Overweight(init int, most int64) int {
	var total, largest int64
	worst := 0
	for _, command := range Children(init) {
		held := MemoryOf(command)
		total += held
		if worst == 0 || held > largest {
			worst, largest = command, held
		}
	}
	if total <= most {
		return 0
	}
	return worst
}

// MemoryOf returns how many bytes a process and its descendants have in memory.
func MemoryOf(pid int) (held int64) {
	for _, p := range family(pid) {
		held += resident(p)
	}
	return held
}

// Sums returns what a process and its descendants use: their memory in bytes, the processor
// time of them and of those that they waited for, and their number.
func Sums(pid int) (memory int64, cpu time.Duration, processes int64) {
	for _, p := range family(pid) {
		memory += resident(p)
		cpu += cpuTime(p)
		processes++
	}
	return memory, cpu, processes
}

// maxFamily bounds the processes that are read: new ones can appear during the reading,
// which must end.
const maxFamily = 1 << 16

// family returns a process and its descendants.
func family(pid int) []int {
	all := []int{pid}
	for n := 0; n < len(all) && len(all) < maxFamily; n++ {
		all = append(all, Children(all[n])...)
	}
	return all
}

// tick is the unit of times in /proc, on every Linux (proc_pid_stat(5), sysconf(3)).
const tick = time.Second / 100

// cpuTime returns the processor time of a process and of the children that it waited for
// (proc_pid_stat(5), fields 14 to 17).
func cpuTime(pid int) (spent time.Duration) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0 // it ended meanwhile
	}
	_, rest, _ := bytes.Cut(text[max(0, bytes.LastIndexByte(text, ')')):], []byte(" ")) // a name may have any character
	fields := strings.Fields(string(rest))
	for i := 11; i < 15 && i < len(fields); i++ {
		ticks, _ := strconv.ParseInt(fields[i], 10, 64)
		spent += time.Duration(ticks) * tick
	}
	return spent
}

// Children returns the processes that the threads of a process started
// (proc_tid_Children(5); a kernel without CONFIG_PROC_CHILDREN lists none).
func Children(pid int) []int {
	var pids []int
	dir := fmt.Sprintf("/proc/%d/task", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // it ended meanwhile
	}
	for _, e := range entries {
		text, _ := os.ReadFile(dir + "/" + e.Name() + "/children")
		for f := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(f); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// listsChildren reports whether the kernel lists the children of a thread, whose directory
// in /proc is given. Otherwise the watchdog cannot add up a box's memory.
func listsChildren(thread string) bool {
	_, err := os.ReadFile(thread + "/children")
	return err == nil
}

// resident returns how many bytes of memory a process has, without mapped files
// (proc_pid_status(5), RssAnon and RssShmem). Mapped files are mostly programs and
// libraries that many processes share, and would be counted many times.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	held := int64(0)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "RssAnon" && name != "RssShmem" {
			continue
		}
		kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		held += kilobytes << 10
	}
	return held
}
