package act

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"
)

// When a page that does not answer counts as hung. On a busy machine a page may not have run at
// all meanwhile, so what counts is the processor time that its Chrome got: after hungWork for each
// page and frame, of MaxTabs at most, its script is stopped, and after as much again Chrome is
// ended; each not before hungTime, since other threads of the Chrome use processors too. What it
// gets while the page floods its console does not count, up to floodWork times as much, since the
// answer may wait behind the lines. A page that waits for something else than a processor has
// stopTime, and endTime from then on.
const (
	hungWork  = time.Second
	hungTime  = answerTime - askTime
	floodWork = 4
	stopTime  = 10 * time.Second
	endTime   = 20 * time.Second
	// answerTime is how long a page may take over one event of input or one script of ours. Once
	// it has taken askTime, it is asked whether it answers at all. With one to three pages and
	// frames and a free processor, Chrome has then had hungWork for each before answerTime is over,
	// so the same call stops a script without end. A call fails after answerTime and awakeTime at most.
	answerTime = LookPatience
	askTime    = time.Second
	// awakeTime is how long a call then waits at most to see whether the page answers.
	awakeTime = 800 * time.Millisecond
	awakeTick = 100 * time.Millisecond
)

// question is what a page, or a frame of another site, was asked last, to see whether it answers. The
// next call forgets it once it is answered.
type question struct {
	pending[runtime.EvaluateResult]
	since   time.Time     // when it was asked, or its script was stopped
	work    time.Duration // processor time of its Chrome then
	seen    time.Duration // and when hung was asked last
	flooded time.Duration // of that, what does not count
	stopped bool          // its script was stopped
	waking  sync.Mutex    // held by the one that sees whether the page hangs
	// Of the call that runs: it waits for the answer no longer; it has stopped the script; it has
	// stopped one before, after which the page answered. Guarded by the tab's mu.
	givenUp, stops, ended bool
}

// open reports whether the question was asked and has no answer yet.
func (q *question) open() bool { return q != nil && !q.answered() }

// mute reports whether the call that runs has given the page up, which does not answer since. The
// tab's mu is held.
func (q *question) mute() bool { return q.open() && q.givenUp }

// stoppedOne reports whether the call that runs has stopped a script of the page, which answered
// since. The tab's mu is held.
func (q *question) stoppedOne() bool { return q != nil && (q.ended || q.stops && !q.open()) }

// questionOf is what a session was asked last; nil for none.
func questionOf(t *tab, session string) *question {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.views[session]; v != nil {
		return v.asked
	}
	return nil
}

// ask asks the page of a session whether it answers, unless it was asked before and has not answered.
func ask(t *tab, session string) *question {
	if q := questionOf(t, session); q.open() {
		return q
	}
	work := t.e.cpu()
	q := &question{since: time.Now(), work: work, seen: work}
	q.pending = begin(t.e.g, session, runtime.Evaluate, runtime.EvaluateParams{Expression: "0", Silent: new(true)})
	over := q
	t.change(func() {
		switch v := t.views[session]; {
		case v == nil: // the session has ended, and nobody asks it again
			over = nil
		case v.asked.open(): // it was asked meanwhile
			q = v.asked
		default:
			q.ended = v.asked.stoppedOne()
			v.asked, over = q, v.asked
		}
	})
	if over != nil {
		over.drop()
	}
	return q
}

// answerOf waits for what a page answers itself, and not Chrome for it. Where that takes long, it calls
// slow and asks the page whether it answers at all. It does not wait for a page that is mute.
func answerOf[R any](ctx context.Context, t *tab, sent pending[R], slow func()) (R, error) {
	if mute(t, sent.session) {
		sent.drop()
		var none R
		return none, fmt.Errorf("%s: the page was given up: %w", sent.method, context.DeadlineExceeded)
	}
	begun := time.Now()
	if !sent.came(ctx, t.stop(), askTime) {
		slow()
		ask(t, sent.session)
	}
	r, err := sent.waitOr(ctx, t.stop())
	if errors.Is(err, context.DeadlineExceeded) {
		late(ctx, t, sent.session, begun)
	}
	return r, err
}

// late is for a page that did not answer in the time that its caller had, from begun on.
func late(ctx context.Context, t *tab, session string, begun time.Time) {
	q := ask(t, session)
	if q.since.Before(begun) {
		begun = q.since
	}
	if time.Since(begun)+awakeTime >= hungTime {
		awake(ctx, t, session)
	} else if session != t.session() { // a frame keeps nobody from the others
		t.change(func() { q.givenUp = true })
	}
}

// leaving waits until Chrome has begun what leaves the page of a tab. A page that hangs keeps it from
// that, so it has as long as for an answer.
func leaving[R any](ctx context.Context, t *tab, sent pending[R]) (R, error) {
	if !sent.came(ctx, t.stop(), askTime) {
		ask(t, sent.session)
		if !sent.came(ctx, t.stop(), answerTime-askTime) {
			awake(ctx, t, sent.session)
		}
	}
	return sent.waitOr(ctx, t.stop())
}

// mute reports whether the call that runs has given up the page of a session, which does not answer
// since.
func mute(t *tab, session string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.views[session]
	return v != nil && v.asked.mute()
}

// stopped reports whether the call that runs has stopped a script of a page or frame of the tab, which
// answered since.
func stopped(t *tab) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.views {
		if v.asked.stoppedOne() {
			return true
		}
	}
	return false
}

// eachTab does f with each tab.
func eachTab(e *engine, f func(*tab)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.tabs {
		t.mu.Lock()
		f(t)
		t.mu.Unlock()
	}
}

// listenAnew begins a call, which waits also for the pages that the call before has given up, but
// not for a frame whose script was stopped. t.mu is held.
func listenAnew(t *tab) {
	for _, v := range t.views {
		if q := v.asked; !q.open() {
			v.asked = nil
		} else {
			q.givenUp, q.stops, q.ended = q.stopped && v.top != t.target, false, false
		}
	}
}

// forgetQuestions has no page of a tab counted as one that has not answered. t.mu is held.
func forgetQuestions(t *tab) {
	for _, v := range t.views {
		v.asked = nil
	}
}

// hung reports whether the page has had its time: until its script is stopped, and from then on
// until Chrome is ended. work is the processor time of its Chrome by now, which sessions share.
// What it has had since hung was asked last does not count if the page is flooding, within bounds.
func (q *question) hung(now time.Time, work time.Duration, sessions int, flooding bool) bool {
	most := stopTime
	if q.stopped {
		most = endTime
	}
	bound := time.Duration(min(max(sessions, 1), MaxTabs)) * hungWork
	if flooding {
		q.flooded += max(min(work-q.seen, floodWork*bound-q.flooded), 0)
	}
	q.seen = work
	since := now.Sub(q.since)
	return work-q.work-q.flooded >= bound && since >= hungTime || since >= most
}

// dialogWaits reports whether a dialog of some tab waits for an answer.
func dialogWaits(e *engine) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.tabs, func(t *tab) bool { return t.waiting() != nil })
}

// abandon stops the script of a page that its tab is about to leave and that still has not answered:
// Chrome can load no other page of the same process meanwhile.
func abandon(t *tab) {
	if s := t.session(); questionOf(t, s).open() {
		begin(t.e.g, s, runtime.TerminateExecution, cdp.Empty{}).drop()
	}
}

// awake sees whether the page of a session answers after it did not. A script that runs without end is
// stopped; where that does not help, Chrome is ended, unless it is the page of a frame, and the next call
// starts another and says so. A page that may have had no time to answer is mute for the rest of the
// call, and keeps its question.
func awake(ctx context.Context, t *tab, session string) {
	t.mu.Lock()
	v := t.views[session]
	over := v != nil && (v.asked.mute() || v.asked.stoppedOne() && !v.asked.open())
	t.mu.Unlock()
	if over {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), awakeTime)
	defer cancel()
	q, g, stop := ask(t, session), t.e.g, t.stop()
	q.waking.Lock()
	defer q.waking.Unlock()
	for !q.came(ctx, stop, awakeTick) {
		work := t.e.cpu()
		t.e.mu.Lock()
		sessions := len(t.e.bySess)
		t.e.mu.Unlock()
		switch now := time.Now(); {
		case dialogWaits(t.e): // pages of one site share a thread
			q.since, q.work = now, work
		case !q.hung(now, work, sessions, (ear{t}).flooding(session, now)):
		case !q.stopped:
			begin(g, session, runtime.TerminateExecution, cdp.Empty{}).drop()
			q.since, q.work, q.flooded, q.stopped = now, work, 0, true
			t.change(func() { q.stops = true })
		case session == t.session():
			g.end(errGone)
		}
	}
	t.change(func() { q.givenUp = true })
}
