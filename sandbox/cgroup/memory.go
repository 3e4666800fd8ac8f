package cgroup

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// This file is what replaces a memory controller where a host has none: belljar
// adds up what the processes of a box have in memory, as /proc says it.

// Overweight returns the child of an init that uses the most memory with its
// descendants, if all together use more than most bytes, or else 0.
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
func MemoryOf(pid int) int64 {
	held := int64(0)
	queue := []int{pid}
	for n := 0; n < len(queue) && n < 1<<16; n++ { // processes move while they are read: no loop for ever
		held += resident(queue[n])
		queue = append(queue, Children(queue[n])...)
	}
	return held
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

// listsChildren reports whether the kernel lists the children of a thread, whose
// directory in /proc is given. Without that the watchdog cannot add up a box's
// memory.
func listsChildren(thread string) bool {
	_, err := os.ReadFile(thread + "/children")
	return err == nil
}

// resident returns how many bytes of memory a process has, without mapped files
// (proc_pid_status(5), RssAnon and RssShmem). These are mostly programs and
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
