package sandbox

import (
	"syscall"
	"time"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/rawsys"
)

// A warm shell is a bash that was started before it is needed, in a leaf and
// with pipes of its own, and waits for its script: the start of bash is most
// of the price of a short command. Each serves one command and is then
// replaced in the background. A script that would see the difference is started
// the ordinary way, and so is every command if no warm shell is ready.
type warmShell struct {
	job     *Job // without a command
	control pipe // its script is written here
	status  pipe // it says here whether it begins
	held    int  // its stderr, so that its end is not another event; -1 if closed
	ready   bool // it can be given a command
}

// drop ends a shell that got no command.
func (w *warmShell) drop() {
	w.close()
	w.kill()
}

// close closes what is not of the job.
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

// kill ends the shell and frees what it holds.
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

// free frees what was made for a command or a warm shell that does not run.
func (t *table) free(j *Job) {
	j.streams.close()
	if j.leaf != nil {
		j.leaf.Kill(time.Now().Add(j.box.sup.patience.kill))
		t.giveLeaf(j.leaf)
	}
}
