package protect

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// A command may run for hours, and what it makes has its effect as soon as it exists. So a
// Protector looks at the workspace again while commands run, and each command can ask what
// was reverted.

const (
	// lookEvery is the time between a look and the next one. Looks take at most one part in
	// lookShare of the time: if they take long, for example on a slow file system, they come
	// later. If a whole look takes long, short looks come in between, without the
	// directories at the top: a box chooses how many of these there are.
	lookEvery = time.Second
	lookShare = 10
	// maxFailed is how many looks in a row must fail before the boxes are closed: a command
	// that works in the workspace may be faster than one of them.
	maxFailed = 3
	// maxNews bounds what is remembered of the changes that were reverted while commands
	// run; the oldest are dropped.
	maxNews = 256
)

// schedule calls look after a time. The call starts it again while commands run.
type schedule struct {
	mu     *sync.Mutex // mutex of the protector
	look   func()      // called without mu
	timer  *time.Timer // nil before the first start
	armed  bool        // whether the timer is set; guarded by mu
	closed bool        // whether close was called; guarded by mu
	calls  sync.WaitGroup
}

// start sets the timer for the next look, unless it is set already. The timer is not stopped
// with the last command, because most commands end before it fires. mu is held.
func (s *schedule) start(after time.Duration) {
	if s.armed || s.closed {
		return
	}
	s.armed = true
	s.calls.Add(1)
	if s.timer == nil {
		s.timer = time.AfterFunc(after, s.fire)
		return
	}
	s.timer.Reset(after)
}

func (s *schedule) fire() {
	defer s.calls.Done()
	s.mu.Lock()
	s.armed = false
	closed := s.closed
	s.mu.Unlock()
	if !closed {
		s.look()
	}
}

// close waits for a look in progress; no other follows.
func (s *schedule) close() {
	s.mu.Lock()
	s.closed = true
	if s.armed && s.timer.Stop() {
		s.armed = false
		s.calls.Done()
	}
	s.mu.Unlock()
	s.calls.Wait()
}

// BoxState is what a Protector remembers of one box; the zero value is ready. The
// Protector guards its fields.
type BoxState struct {
	running int // number of its commands that run
	told    int // Protector.reverted when the box last got a report
}

// Watch is the Protector's view of one command.
type Watch struct {
	p     *Protector
	box   *BoxState
	since int         // box.told when the command began; later changes are reported to it
	lost  func(error) // ends the box of the command
}

// Begin is called before a command starts in a box. If no other command runs, what changed
// since the last one is a person's work, and becomes what is protected. The caller must call
// Watch.End. If the workspace cannot be protected any more while the command runs, lost is
// called, in a goroutine of the protector.
func (p *Protector) Begin(box *BoxState, lost func(error)) (*Watch, error) {
	if err := p.refresh(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == 0 {
		if err := p.adopt(); err != nil {
			p.release()
			return nil, err
		}
		p.share()
		now := fileClock()
		if p.unseen.IsZero() {
			p.unseen = now
		}
		if err := p.servers.begin(now, p.unseen); err != nil {
			p.release()
			return nil, fmt.Errorf("%w: record that commands run in it: %w", errUnprotected, err)
		}
	} else if err := p.again(false, false); err != nil {
		return nil, err
	}
	if box.running == 0 {
		box.told = p.reverted - p.idle // other boxes got the reports until then
	}
	box.running++
	p.running++
	p.begun++
	p.idle = 0
	one := &Watch{p: p, box: box, since: box.told, lost: lost}
	p.watches = append(p.watches, one)
	p.schedule.start(lookEvery)
	return one, nil
}

// End is called after a command and all its processes have ended, even if other commands
// still run. It looks once more, and returns what was reverted since the last report to the
// box. If no command of the box ran when this one began, that is what was reverted since the
// last command of any box ended.
func (w *Watch) End() ([]Reverted, error) {
	p := w.p
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.again(p.running == 1, false)
	told := p.since(w.since)
	p.watches = slices.DeleteFunc(p.watches, func(other *Watch) bool { return other == w })
	w.box.running--
	w.box.told = p.reverted
	if p.running--; p.running == 0 {
		p.news, p.failed, p.ended = nil, 0, time.Now()
		p.failing = err != nil
		p.schedule.start(lookEvery)
	}
	return told, err
}

// Reverted returns the changes that were reverted so far while the command ran.
func (w *Watch) Reverted() []Reverted {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return w.p.since(w.since)
}

// since returns the reverted changes after the first n. p.mu is held.
func (c *commands) since(n int) []Reverted {
	return slices.Clone(c.news[max(0, len(c.news)-(c.reverted-n)):])
}

// lookAndWalk looks and walks while commands run, and continues to walk after the last one.
func (p *Protector) lookAndWalk() {
	if p.lookNow() {
		_, _ = p.walkFor(walkStep) // the next look or walk tries again what failed
		return
	}
	for p.walking() {
		if _, err := p.walkFor(walkStep); err != nil {
			return // the next command's walk tries again
		}
	}
}

// lookNow looks, unless no command runs. It reports whether it did.
func (p *Protector) lookNow() bool {
	p.mu.Lock()
	if p.running == 0 {
		p.mu.Unlock()
		return false
	}
	begun := time.Now()
	short := begun.Before(p.whole)
	err := p.again(false, short)
	took := time.Since(begun)
	if !short && took*lookShare > lookEvery {
		p.whole = time.Now().Add(lookShare * took)
		took = 0
	}
	var lost []*Watch
	if p.failed++; err == nil {
		p.failed = 0
	} else if p.failed >= maxFailed {
		p.failed, lost = 0, slices.Clone(p.watches)
	}
	p.schedule.start(max(lookEvery, lookShare*took))
	p.mu.Unlock()
	for _, w := range lost {
		w.lost(err)
	}
	return true
}

// walking reports whether the walk must continue although no command runs.
func (p *Protector) walking() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running == 0 && !p.schedule.closed && p.unwalked()
}

// unwalked reports whether there is something that no walk has seen. p.mu is held.
func (p *Protector) unwalked() bool { return p.partial || !p.unseen.IsZero() && !p.failing }

// refresh walks for at most idleWalk before the first command after a pause, so that what a
// person has made is known before a command works in it.
func (p *Protector) refresh() error {
	p.mu.Lock()
	idle := p.running == 0 && p.unseen.IsZero() && !p.partial && time.Since(p.ended) >= idleFor
	p.mu.Unlock()
	if !idle {
		return nil
	}
	_, err := p.walkFor(idleWalk)
	return err
}
