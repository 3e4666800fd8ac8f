package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/cgroup"
)

// watchdogBeat is the interval at which a box's memory is added up if no cgroup
// limits it.
const watchdogBeat = 50 * time.Millisecond

// watchMemory is used instead of a memory cgroup. While commands run, it adds up the
// resident memory of the box; if the sum is over the limit, it kills the command that uses
// most. It returns when the box ends.
func watchMemory(b *Box) {
	tick := time.NewTicker(watchdogBeat)
	defer tick.Stop()
	for {
		select {
		case <-b.init.gone:
			return
		case <-tick.C:
		}
		weigh(b)
	}
}

// weigh kills the command with the most memory if all commands together use more than the
// limit.
func weigh(b *Box) {
	b.life.waking.RLock() // no command runs in a box that is being parked or woken
	defer b.life.waking.RUnlock()
	b.table.mu.Lock()
	jobs := make(map[int]*Job, len(b.table.running))
	for _, j := range b.table.running {
		jobs[int(j.pid.Load())] = j
	}
	b.table.mu.Unlock()
	if len(jobs) == 0 {
		return
	}
	if worst := cgroup.Overweight(b.init.process.Pid, b.grant.Limits().Memory); worst != 0 {
		if j := jobs[boxPid(worst)]; j != nil {
			j.oom.Store(true)
			_ = b.init.send(&boxinit.Request{Op: boxinit.OpSignal, ID: j.wire, Signal: syscall.SIGKILL})
		}
	}
}

// memoryOf returns how many bytes a command has in memory.
func memoryOf(j *Job) int64 {
	if j.leaf != nil {
		return j.leaf.Resident()
	}
	for _, pid := range cgroup.Children(j.box.init.process.Pid) {
		if int64(boxPid(pid)) == j.pid.Load() {
			return cgroup.MemoryOf(pid)
		}
	}
	return 0
}

// boxPid returns the pid that a process has in its box: the second of its pids, counted
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

// outOfMemory ends the command that ran out of memory. The kernel has killed one of its
// processes, and the others would continue without it. The kernel does not report which
// command that was. If only one command runs, it is that one. Otherwise it is the command
// whose main process was killed, which its end shows, or else the command with the most
// memory. outOfMemory stops waiting for that end when gone is closed.
func (t *table) outOfMemory(g *cgroup.Group, gone <-chan struct{}) {
	jobs := t.alive()
	if len(jobs) > 1 {
		select {
		case <-gone:
		case <-time.After(oomPause):
		}
		if !t.ranOut(g) {
			return
		}
		jobs = t.alive()
	}
	if j := largest(jobs); j != nil {
		j.stopWith(stopRequest{status: OOM})
	}
}

// largest returns the job with the most memory, or nil if there are no jobs.
func largest(jobs []*Job) (worst *Job) {
	if len(jobs) == 1 {
		return jobs[0]
	}
	most := int64(-1)
	for _, j := range jobs {
		if held := memoryOf(j); held > most {
			worst, most = j, held
		}
	}
	return worst
}

// oomPause is long enough for the init to report the end of a killed process.
const oomPause = 20 * time.Millisecond
