package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"belljar.dev/policies"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/limit"
)

// Bounds of one box that no profile changes.
const (
	maxRunning  = 256       // commands at the same time, including background jobs
	maxFinished = 64        // finished jobs and outputs that are remembered
	maxKept     = 256 << 20 // bytes on disk of the outputs of finished foreground commands
	maxSpare    = 8         // empty leaf cgroups that are kept
)

// table is what a box knows about its commands: those that run, the jobs and outputs that
// callers may ask for, and what the next command can use. It knows nothing of the init. A
// box that has ended takes no further command.
type table struct {
	box string         // id of the box, for errors
	wg  sync.WaitGroup // counts everything that serves the box or its commands

	mu       sync.Mutex      // also guards the fields of Box.init, Box.life and Box.ports that say so
	cause    error           // why the box has ended, or nil
	lastID   uint64          // last number of a command on the wire
	running  map[uint64]*Job // by wire id
	alone    *Job            // job that has the box for itself, or nil
	lastJob  int64           // number of the last background job
	jobs     []*Job          // background jobs, oldest first
	outputs  []*Output       // outputs of finished foreground commands, oldest first
	lastLeaf int             // number of the last leaf cgroup
	spare    []*cgroup.Leaf  // empty leaf cgroups
	oomSeen  int64           // number of out-of-memory kills already dealt with
	warm     *warmShell      // warm shell that waits for the next command, or nil
	warming  bool            // whether a warm shell is being started
}

// end makes the table refuse further commands. It returns false if it refused them already.
// t.mu is held.
func (t *table) end(cause error) bool {
	if t.cause != nil {
		return false
	}
	t.cause = cause
	return true
}

// goneErr returns the reason why the box has ended, for callers of its methods.
// The caller holds t.mu.
func (t *table) goneErr() error {
	if t.cause == nil || errors.Is(t.cause, ErrClosed) {
		return fmt.Errorf("box %s: %w", t.box, ErrClosed)
	}
	return fmt.Errorf("box %s: %w: %w", t.box, ErrClosed, t.cause)
}

// enter puts a job with its command into the table, within its bounds, and adds it to
// t.wg, so that closing the box waits for it. A new job gets its number. The caller
// holds t.mu.
func (t *table) enter(c *Cmd, j *Job) error {
	if t.cause != nil {
		return t.goneErr()
	}
	if len(t.running) >= maxRunning {
		return &limit.Refusal{Message: fmt.Sprintf("%d commands are running in this session; wait for some to end", len(t.running)), Err: limit.ErrTooMany}
	}
	switch {
	case t.alone != nil:
		return &limit.Refusal{Message: "another command has this box for itself; wait for its end", Err: limit.ErrTooMany}
	case c.Alone && len(t.running) > 0:
		return &limit.Refusal{Message: fmt.Sprintf("%d commands run in this box, and this one needs it for itself; wait for their end", len(t.running)), Err: limit.ErrTooMany}
	}
	if c.Background {
		if err := t.roomForJob(c.Grant); err != nil {
			return err
		}
	}
	if j.wire == 0 {
		j.wire = t.nextID()
	}
	j.assign(c)
	if c.Background {
		t.list(j)
	}
	t.running[j.wire] = j
	if c.Alone {
		t.alone = j
	}
	t.wg.Add(1)
	return nil
}

// nextID returns a new number for a message to the init. t.mu is held.
func (t *table) nextID() uint64 {
	t.lastID++
	return t.lastID
}

// find returns the job with that number, running or a warm shell's, or nil, and the last
// number that was assigned. The caller does not hold t.mu.
func (t *table) find(wire uint64) (j *Job, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j = t.running[wire]
	if w := t.warm; w != nil && w.job.wire == wire {
		j = w.job
	}
	return j, t.lastID
}

// roomForJob checks the bound on background jobs. t.mu is held.
func (t *table) roomForJob(g policies.Grant) error {
	n := 0
	for _, j := range t.jobs {
		if j.Status() == Running {
			n++
		}
	}
	if most := g.Limits().Jobs; n >= most {
		return &limit.Refusal{Message: fmt.Sprintf("%d background tasks are running and profile %q allows %d; kill one with KillBgTask or wait", n, g.Profile(), most), Err: limit.ErrTooMany}
	}
	return nil
}

// list gives a job its number and remembers it; the oldest finished ones are
// forgotten. t.mu is held.
func (t *table) list(j *Job) {
	t.lastJob++
	j.id = t.lastJob
	t.jobs = append(t.jobs, j)
	for i := 0; len(t.jobs) > maxFinished && i < len(t.jobs); {
		if old := t.jobs[i]; old.Status() != Running {
			old.streams.output.Close()
			t.jobs = slices.Delete(t.jobs, i, i+1)
		} else {
			i++
		}
	}
}

// leave takes a job out of those that run. Its output is kept for readers if ran is set.
func (t *table) leave(j *Job, ran bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, j.wire)
	if t.alone == j {
		t.alone = nil
	}
	switch {
	case !ran:
		t.jobs = slices.DeleteFunc(t.jobs, func(k *Job) bool { return k == j })
		j.streams.output.Close()
	case j.id == 0:
		t.outputs = append(t.outputs, j.streams.output)
		if j.streams.output.onDisk() > 0 { // other outputs add nothing on disk
			t.shrinkOutputs()
		}
		if len(t.outputs) > maxFinished {
			t.outputs[0].Close()
			t.outputs = slices.Delete(t.outputs, 0, 1)
		}
	}
}

// shrinkOutputs limits the spool files of finished commands to maxKept. It removes
// the files of the oldest outputs first, but never that of the command that just
// ended. The caller holds t.mu.
func (t *table) shrinkOutputs() {
	var kept int64
	for _, o := range t.outputs {
		kept += o.onDisk()
	}
	for _, o := range t.outputs[:len(t.outputs)-1] {
		if kept > maxKept {
			kept -= o.onDisk()
			o.shrink()
		}
	}
}

// ranOut reports whether there was an out-of-memory kill in the box since the last
// call. g are its cgroups.
func (t *table) ranOut(g *cgroup.Group) bool {
	n := g.OOMKills()
	t.mu.Lock()
	defer t.mu.Unlock()
	more := n > t.oomSeen
	t.oomSeen = n
	return more
}

// alive returns the commands that run.
func (t *table) alive() []*Job {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.running))
}

// remembered returns the background jobs, oldest first.
func (t *table) remembered() []*Job {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.jobs)
}

// output returns the output with that id, if it is remembered.
func (t *table) output(id string) (*Output, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range t.jobs {
		if j.streams.output.has(id) {
			return j.streams.output, true
		}
	}
	for _, j := range t.running {
		if j.streams.output.has(id) {
			return j.streams.output, true
		}
	}
	for _, o := range t.outputs {
		if o.has(id) {
			return o, true
		}
	}
	return nil, false
}

// takeLeaf returns the cgroup for the next command, one of g, or nil if this host has
// no usable cgroups.
func (t *table) takeLeaf(g *cgroup.Group) (*cgroup.Leaf, error) {
	if !g.Leaves() {
		return nil, nil //nolint:nilnil // documented: no leaf is not an error
	}
	t.mu.Lock()
	if n := len(t.spare); n > 0 {
		l := t.spare[n-1]
		t.spare = t.spare[:n-1]
		t.mu.Unlock()
		return l, nil
	}
	t.lastLeaf++
	name := "c" + strconv.Itoa(t.lastLeaf)
	t.mu.Unlock()
	return g.NewLeaf(name)
}

// giveLeaf takes back an empty leaf, to use it again or remove it.
func (t *table) giveLeaf(l *cgroup.Leaf) {
	t.mu.Lock()
	if l.Reusable() && t.cause == nil && len(t.spare) < maxSpare {
		t.spare = append(t.spare, l)
		t.mu.Unlock()
		return
	}
	t.mu.Unlock()
	l.Remove()
}

// dropSpare removes the empty leaves.
func (t *table) dropSpare() {
	t.mu.Lock()
	spare := t.spare
	t.spare = nil
	t.mu.Unlock()
	for _, l := range spare {
		l.Remove()
	}
}

// close closes what is kept of the commands. No command runs any more.
func (t *table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.outputs {
		o.Close()
	}
	for _, j := range t.jobs {
		j.streams.output.Close()
	}
	for _, l := range t.spare {
		l.Close()
	}
	t.outputs, t.spare = nil, nil
}
