package sandbox

import "time"

// ask notes that the init was asked to start a command, from when on it has
// patience.start to say what became of it. One timer serves all commands of a
// box, and is not set anew for each: setting a timer wakes a thread, which
// costs a quick command more than all else here.
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

// answered notes that it did, and reports whether that took too long.
func (b *Box) answered(j *Job) (late bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	late = time.Since(b.asked[j]) >= b.sup.patience.start
	delete(b.asked, j)
	return late
}

// silence kills an init that did not answer in time: it is of no use to
// anybody. Where one still has time it looks again.
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
