package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"belljar.dev/sandbox/boxinit"
)

// watchdogBeat is the interval at which a box's memory is added up if no cgroup
// limits it.
const watchdogBeat = 50 * time.Millisecond

// watchMemory replaces a memory cgroup. While commands run, it adds up the box's
// resident memory; if that is over the limit, it kills the command with the most.
// It ends with the box.
func (b *Box) watchMemory() {
	tick := time.NewTicker(watchdogBeat)
	defer tick.Stop()
	for {
		select {
		case <-b.gone:
			return
		case <-tick.C:
		}
		b.weigh()
	}
}

// weigh kills the command with the most memory if all together use too much.
func (b *Box) weigh() {
	b.waking.RLock() // no command runs in a box that is being parked or woken
	defer b.waking.RUnlock()
	b.mu.Lock()
	jobs := make(map[int]*Job, len(b.running))
	for _, j := range b.running {
		jobs[int(j.pid.Load())] = j
	}
	b.mu.Unlock()
	if len(jobs) == 0 {
		return
	}
	if worst := overweight(b.process.Pid, b.grant.Limits().Memory); worst != 0 {
		if j := jobs[boxPid(worst)]; j != nil {
			j.oom.Store(true)
			_ = b.send(&boxinit.Request{Op: boxinit.OpSignal, ID: j.wire, Signal: syscall.SIGKILL})
		}
	}
}

// overweight returns the child of an init that uses the most memory with its
// descendants, if all together use more than limit, or else 0.
func overweight(init int, limit int64) int {
	var total, most int64
	worst := 0
	for _, command := range children(init) {
		held := family(command)
		total += held
		if worst == 0 || held > most {
			worst, most = command, held
		}
	}
	if total <= limit {
		return 0
	}
	return worst
}

// family returns how many bytes a process and its descendants have in memory.
func family(pid int) int64 {
	held := int64(0)
	queue := []int{pid}
	for n := 0; n < len(queue) && n < 1<<16; n++ { // processes move while they are read: no loop for ever
		held += resident(queue[n])
		queue = append(queue, children(queue[n])...)
	}
	return held
}

// resident returns how many bytes the command has in memory.
func (j *Job) resident() int64 {
	if j.leaf != nil {
		return j.leaf.resident()
	}
	for _, pid := range children(j.box.process.Pid) {
		if int64(boxPid(pid)) == j.pid.Load() {
			return family(pid)
		}
	}
	return 0
}

// children returns the processes that the threads of a process started
// (proc_tid_children(5); a kernel without CONFIG_PROC_CHILDREN lists none).
func children(pid int) []int {
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

// tellsChildren reports whether the kernel lists the children of a thread, whose
// directory in /proc is given. Without that the watchdog cannot add up a box's
// memory.
func tellsChildren(thread string) bool {
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

// boxPid returns the pid of a process in its box: the second of its pids, counted
// from our namespace inwards (proc_pid_status(5), NSpid).
func boxPid(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, line, _ := strings.Cut(string(text), "\nNSpid:")
	line, _, _ = strings.Cut(line, "\n")
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(fields[1])
	return n
}
