package sandbox

import (
	"syscall"
	"time"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/rawsys"
)

// A warmShell is a bash that was started before it is needed, with its own leaf and pipes,
// and that waits for a script: starting bash is most of the cost of a short command. Each
// warm shell serves one command and is then replaced in the background. A script that could
// see the difference is started the ordinary way, and so is every command while no warm
// shell is ready.
type warmShell struct {
	job     *Job // job of the shell, which has no command yet
	control pipe // pipe to which the script is written
	status  pipe // pipe on which the shell reports that the script begins
	held    int  // copy of the shell's end of stderr, so that the shell's end causes no second event; -1 if closed
	ready   bool // reports whether the shell can be given a command
}

// drop ends a shell that was given no command.
func (w *warmShell) drop() {
	w.close()
	w.kill()
}

// close closes the descriptors that do not belong to the job.
func (w *warmShell) close() {
	w.control.close()
	w.status.close()
	w.release()
}

func (w *warmShell) release() {
	if w.held >= 0 {
		rawsys.Close(w.held)
		w.held = -1
	}
}

// kill ends the shell and frees its resources.
func (w *warmShell) kill() {
	if w.job.leaf == nil {
		_ = w.job.box.init.send(&boxinit.Request{Op: boxinit.OpSignal, ID: w.job.wire, Signal: syscall.SIGKILL})
	}
	w.job.box.table.free(w.job)
}

// coolDown ends the warm shell, and reports whether there was one.
func (t *table) coolDown() bool {
	t.mu.Lock()
	w := t.warm
	if w == nil || !w.ready {
		t.mu.Unlock()
		return false
	}
	t.warm = nil
	t.mu.Unlock()
	w.drop()
	return true
}

// free frees the resources of a command or a warm shell that does not run.
func (t *table) free(j *Job) {
	j.streams.close()
	if j.leaf != nil {
		j.leaf.Kill(time.Now().Add(j.box.sup.patience.kill))
		t.giveLeaf(j.leaf)
	}
}
