package sandbox

import "time"

// ask notes that the init was asked to start a command. The init has
// patience.start to answer. One timer serves all commands of a box and is not set
// again for each: setting a timer wakes a thread, which costs a quick command more
// than everything else here.
func (b *Box) ask(j *Job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[j] = time.Now()
	switch patience := b.sup.patience.start; {
	case b.armed || b.closed:
	case b.late == nil:
		b.late = time.AfterFunc(patience, b.silence)
	default:
		b.late.Reset(patience)
	}
	b.armed = !b.closed
}

// answered notes that the init has answered, and reports whether that took too
// long.
func (b *Box) answered(j *Job) (late bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	late = time.Since(b.asked[j]) >= b.sup.patience.start
	delete(b.asked, j)
	return late
}

// silence kills an init that did not answer in time. If the init still has time
// for an answer, silence sets the timer again.
func (b *Box) silence() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = false
	if b.closed || len(b.asked) == 0 {
		return
	}
	left := b.sup.patience.start
	for _, at := range b.asked {
		left = min(left, b.sup.patience.start-time.Since(at))
	}
	if left <= 0 {
		_ = b.process.Kill()
		return
	}
	b.armed = true
	b.late.Reset(left)
}
