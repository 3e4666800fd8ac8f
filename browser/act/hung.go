package act

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// question is what a page was asked last, to see whether it answers. The next call forgets it once
// it is answered.
type question struct {
	pending[runtime.EvaluateResult]
	session string
	since   time.Time     // when it was asked, or its script was stopped
	work    time.Duration // processor time of its Chrome then
	seen    time.Duration // and when hung was asked last
	flooded time.Duration // of that, what does not count
	stopped bool          // its script was stopped
	// Of the call that runs: it waits for the answer no longer, and it has stopped the script.
	// Guarded by the tab's mu.
	givenUp, stops bool
}

// open reports whether the question was asked in this session and has no answer yet.
func (q *question) open(session string) bool {
	return q != nil && q.session == session && !q.answered()
}

// ask asks the page of a tab whether it answers, unless it was asked before and has not answered.
func ask(t *tab) *question {
	s, work := t.session(), t.e.cpu()
	t.mu.Lock()
	q := t.asked
	t.mu.Unlock()
	if q.open(s) {
		return q
	}
	q = &question{session: s, since: time.Now(), work: work, seen: work}
	q.pending = begin(t.e.g, s, runtime.Evaluate, runtime.EvaluateParams{Expression: "0", Silent: new(true)})
	over := q
	t.change(func() {
		if other := t.asked; other.open(s) { // it was asked meanwhile
			q = other
		} else {
			t.asked, over = q, other
		}
	})
	if over != nil {
		over.drop()
	}
	return q
}

// answerOf waits for what the page of a tab answers itself, and not Chrome for it. Where that takes
// long, it calls slow and asks the page whether it answers at all. It does not wait for a page that is
// mute.
func answerOf[R any](ctx context.Context, t *tab, sent pending[R], slow func()) (R, error) {
	if mute(t) {
		sent.drop()
		var none R
		return none, fmt.Errorf("%s: %w", sent.method, errGivenUp)
	}
	if !sent.came(ctx, t.stop(), askTime) {
		slow()
		ask(t)
	}
	return sent.waitOr(ctx, t.stop())
}

// leaving waits until Chrome has begun what leaves the page of a tab. A page that hangs keeps it from
// that, so it has as long as for an answer.
func leaving[R any](ctx context.Context, t *tab, sent pending[R]) (R, error) {
	if !sent.came(ctx, t.stop(), askTime) {
		ask(t)
		if !sent.came(ctx, t.stop(), answerTime-askTime) {
			t.awake(ctx)
		}
	}
	return sent.waitOr(ctx, t.stop())
}

// errGivenUp is why a mute page was not waited for.
var errGivenUp = fmt.Errorf("the page was given up: %w", context.DeadlineExceeded)

// checkHung returns err. If err says that the page did not answer within its time, and the caller has
// time left, awake sees first whether the page hangs.
func checkHung(ctx context.Context, t *tab, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errGivenUp) && ctx.Err() == nil {
		t.awake(ctx)
	}
	return err
}

// mute reports whether the call that runs has given the page up, which does not answer since.
func mute(t *tab) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked != nil && t.asked.givenUp && !t.asked.answered()
}

// stopped reports whether the call that runs has stopped a script of the page, which answers since.
func stopped(t *tab) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked != nil && t.asked.stops && t.asked.answered()
}

// listenAnew begins a call, which waits also for the pages that the call before has given up.
func listenAnew(e *engine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.tabs {
		t.mu.Lock()
		if q := t.asked; q != nil && q.answered() {
			t.asked = nil
		} else if q != nil {
			q.givenUp, q.stops = false, false
		}
		t.mu.Unlock()
	}
}

// forgetQuestions has no page counted as one that has not answered.
func forgetQuestions(e *engine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.tabs {
		t.mu.Lock()
		t.asked = nil
		t.mu.Unlock()
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

// abandon stops the script of a page that its tab is about to leave and that still has not answered
// in a session: Chrome can load no other page of the same process meanwhile.
func (q *question) abandon(g *governor, session string) {
	if q.open(session) {
		begin(g, session, runtime.TerminateExecution, cdp.Empty{}).drop()
	}
}

// awake sees whether the page answers after it did not. A script that runs without end is stopped;
// where that does not help, Chrome is ended, and the next call starts another and says so. A page
// that may have had no time to answer is mute for the rest of the call, and keeps its question.
func (t *tab) awake(ctx context.Context) {
	if mute(t) || stopped(t) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), awakeTime)
	defer cancel()
	q, g, stop := ask(t), t.e.g, t.stop()
	for !q.came(ctx, stop, awakeTick) {
		work := t.e.cpu()
		t.e.mu.Lock()
		sessions := len(t.e.bySess)
		t.e.mu.Unlock()
		switch now := time.Now(); {
		case dialogWaits(t.e): // pages of one site share a thread
			q.since, q.work = now, work
		case !q.hung(now, work, sessions, (ear{t}).flooding(q.session, now)):
		case q.stopped:
			g.end(errGone)
		default:
			begin(g, q.session, runtime.TerminateExecution, cdp.Empty{}).drop()
			q.since, q.work, q.flooded, q.stopped = now, work, 0, true
			t.change(func() { q.stops = true })
		}
	}
	t.change(func() { q.givenUp = true })
}
