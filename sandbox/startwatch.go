package sandbox

import "time"

// ask notes that the init was asked to start a command. The init has
// patience.start to answer. One timer serves all commands of a box and is not set
// again for each: setting a timer wakes a thread, which costs a quick command more
// than everything else here.
func (i *initProc) ask(j *Job) {
	i.table.mu.Lock()
	defer i.table.mu.Unlock()
	i.asked[j] = time.Now()
	switch patience := i.patience.start; {
	case i.armed || i.table.cause != nil:
	case i.late == nil:
		i.late = time.AfterFunc(patience, i.silence)
	default:
		i.late.Reset(patience)
	}
	i.armed = i.table.cause == nil
}

// answered notes that the init has answered, and reports whether that took too
// long.
func (i *initProc) answered(j *Job) (late bool) {
	i.table.mu.Lock()
	defer i.table.mu.Unlock()
	late = time.Since(i.asked[j]) >= i.patience.start
	delete(i.asked, j)
	return late
}

// silence kills an init that did not answer in time. If the init still has time
// for an answer, silence sets the timer again.
func (i *initProc) silence() {
	i.table.mu.Lock()
	defer i.table.mu.Unlock()
	i.armed = false
	if i.table.cause != nil || len(i.asked) == 0 {
		return
	}
	left := i.patience.start
	for _, at := range i.asked {
		left = min(left, i.patience.start-time.Since(at))
	}
	if left <= 0 {
		i.kill()
		return
	}
	i.armed = true
	i.late.Reset(left)
}
