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
	// lookEvery is the time between a look and the next one. If looks take long, as on a
	// slow file system, they come later, because they must not take more than a tenth of
	// the time. A box chooses how many directories there are at the top, so if these take
	// long, only they are looked at later.
	lookEvery = time.Second
	lookShare = 10
	// maxFailed is how many looks may fail one after the other: a command that works in the
	// workspace may be faster than one of them.
	maxFailed = 3
	// maxNews bounds what is remembered of the changes that were reverted while commands
	// run; the oldest are dropped.
	maxNews = 256
)

// pulse looks at a workspace again as long as commands run in it.
type pulse struct {
	mu     *sync.Mutex // mutex of the protector
	look   func()      // called without mu
	timer  *time.Timer // nil before the first start
	armed  bool        // whether the timer is set; guarded by mu
	closed bool        // whether close was called; guarded by mu
	beats  sync.WaitGroup
}

// start sets the timer for the next look, unless it is set already: most commands end
// before. mu is held.
func (p *pulse) start(after time.Duration) {
	if p.armed || p.closed {
		return
	}
	p.armed = true
	p.beats.Add(1)
	if p.timer == nil {
		p.timer = time.AfterFunc(after, p.beat)
		return
	}
	p.timer.Reset(after)
}

func (p *pulse) beat() {
	defer p.beats.Done()
	p.mu.Lock()
	p.armed = false
	closed := p.closed
	p.mu.Unlock()
	if !closed {
		p.look()
	}
}

// close waits for a look in progress; no other follows.
func (p *pulse) close() {
	p.mu.Lock()
	p.closed = true
	if p.armed && p.timer.Stop() {
		p.armed = false
		p.beats.Done()
	}
	p.mu.Unlock()
	p.beats.Wait()
}

// BoxState is what a Protector remembers of one box; the zero value is ready. The
// Protector guards its fields.
type BoxState struct {
	running int // number of its commands that run
	told    int // Protector.taken when a command of the box last ended
}

// Watch is the Protector's view of one command.
type Watch struct {
	p     *Protector
	ward  *BoxState
	since int         // Protector.taken when the box last got a report; later changes are reported to the command
	lost  func(error) // ends the box of the command
}

// Begin is called before a command starts in a box. If no other command runs, what changed
// in the meantime is a person's work, and becomes what is protected. The caller must call
// Watch.End. If the workspace cannot be protected any more while the command runs, lost is
// called, in a goroutine of the protector.
func (p *Protector) Begin(w *BoxState, lost func(error)) (*Watch, error) {
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
			return nil, fmt.Errorf("%w: keep that commands run in it: %w", errUnprotected, err)
		}
	} else if err := p.again(false, false); err != nil {
		return nil, err
	}
	if w.running == 0 {
		w.told = p.taken - p.idle
	}
	w.running++
	p.running++
	p.begun++
	p.idle = 0
	one := &Watch{p: p, ward: w, since: w.told, lost: lost}
	p.watches = append(p.watches, one)
	p.pulse.start(lookEvery)
	return one, nil
}

// End is called after a command and all its processes have ended, even if other commands
// still run. It reverts what must not be, and returns what was reverted since the command
// began, or since the last report to its box.
func (w *Watch) End() ([]Reverted, error) {
	p := w.p
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.again(p.running == 1, false)
	told := p.since(w.since)
	p.watches = slices.DeleteFunc(p.watches, func(other *Watch) bool { return other == w })
	w.ward.running--
	w.ward.told = p.taken
	if p.running--; p.running == 0 {
		p.news, p.failed, p.ended = nil, 0, time.Now()
		p.failing = err != nil
		p.pulse.start(lookEvery)
	}
	return told, err
}

// Reverted returns the changes that were reverted so far while the command ran.
func (w *Watch) Reverted() []Reverted {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return w.p.since(w.since)
}

// since returns the changes that were reverted after the first n ones. p.mu is held.
func (c *commands) since(n int) []Reverted {
	return slices.Clone(c.news[max(0, len(c.news)-(c.taken-n)):])
}

// beat looks and walks while commands run, and continues to walk after the last one.
func (p *Protector) beat() {
	if p.lookNow() {
		_, _ = p.walkFor(walkStep) // what fails is tried again by the next look, which closes the boxes
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
	p.pulse.start(max(lookEvery, lookShare*took))
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
	return p.running == 0 && !p.pulse.closed && p.unwalked()
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
