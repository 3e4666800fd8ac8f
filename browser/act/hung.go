package act

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"
)

// These times say when a page, or a frame of another site, that does not answer counts as
// hung. On a busy machine it may not have run at all meanwhile, so what counts is the
// processor time that its Chrome got: its script is stopped after hungWork for each page
// and frame, MaxTabs of them at most. After the same time again, Chrome is ended, or, for a
// frame, the script that runs then is stopped. Neither is done before hungTime, since other
// threads of the Chrome use processors too. Processor time while the page floods its
// console does not count, up to floodWork times as much, since the answer may wait behind
// the lines. A page that waits for something other than a processor has stopTime until its
// script is stopped, and endTime from then on.
const (
	hungWork  = time.Second
	hungTime  = answerTime - askTime
	floodWork = 4
	stopTime  = 10 * time.Second
	endTime   = 20 * time.Second
	// answerTime is how long a page may take over one event of input or one script of ours. Once
	// it has taken askTime, it is asked whether it answers at all. With one to three pages and
	// frames and a free processor, Chrome has then had hungWork for each before answerTime is over,
	// so the same call stops a script without end. A single wait for input or a script of ours
	// ends after answerTime and awakeTime at the latest.
	answerTime = LookPatience
	askTime    = time.Second
	// awakeTime is how long a call then waits at most to see whether the page answers after all.
	awakeTime = 800 * time.Millisecond
	awakeTick = 100 * time.Millisecond
)

// question is what a page, or a frame of another site, was asked last, to see whether it answers. Its
// fields are guarded by the tab's mu.
type question struct {
	pending[runtime.EvaluateResult]
	since   time.Time     // when it was asked, or its script was stopped, or a dialog waited last
	work    time.Duration // processor time of its Chrome at since
	seen    time.Duration // processor time of its Chrome when hung was called last
	flooded time.Duration // part of the processor time since work that does not count: a flood of events
	stopped bool          // whether its script was stopped
	givenUp bool          // whether the call that runs no longer waits for its answer
}

// restart makes the time of the page begin at now; work is the processor time of its Chrome
// then.
func (q *question) restart(now time.Time, work time.Duration) {
	q.since, q.work, q.seen, q.flooded = now, work, work, 0
}

// open reports whether the question was asked and has no answer yet.
func (q *question) open() bool { return q != nil && !q.answered() }

// ask asks the page of a session whether it answers, and returns the question. If the page
// has not answered an earlier question yet, ask returns that question.
func ask(t *tab, session string) *question {
	t.mu.Lock()
	v := t.views[session]
	if v != nil && v.asked.open() {
		defer t.mu.Unlock()
		return v.asked
	}
	t.mu.Unlock()
	q := new(question)
	q.restart(time.Now(), t.e.cpu())
	q.pending = begin(t.e.g, session, runtime.Evaluate, runtime.EvaluateParams{Expression: "0", Silent: new(true)})
	t.mu.Lock()
	defer t.mu.Unlock()
	switch v := t.views[session]; {
	case v == nil: // the session has ended, so nobody asks it again
	case v.asked.open(): // another caller has asked it meanwhile
		q.drop()
		return v.asked
	default:
		forgetAnswers(t)
		v.asked = q
	}
	return q
}

// answerOf waits for an answer that the page itself gives, not Chrome in its place. If that
// takes longer than askTime, it calls slow, unless slow is nil, and asks the page whether
// it answers at all. It does not wait for a page that was given up.
func answerOf[R any](ctx context.Context, t *tab, sent pending[R], slow func()) (R, error) {
	if hopeless(t, sent.session) && !sent.came(ctx, t.stop(), awakeTick) {
		timedOut(ctx, t, sent.session)
	}
	if givenUp(t, sent.session) {
		sent.drop()
		var none R
		return none, fmt.Errorf("%s: the page was given up: %w", sent.method, context.DeadlineExceeded)
	}
	if !sent.came(ctx, t.stop(), askTime) {
		if slow != nil {
			slow()
		}
		ask(t, sent.session)
	}
	r, err := sent.waitOr(ctx, t.stop())
	if errors.Is(err, context.DeadlineExceeded) {
		timedOut(ctx, t, sent.session)
	}
	return r, err
}

// timedOut handles a page that did not answer its caller in time. If enough time has passed
// to know whether the page hangs, awake checks it. Otherwise a frame of another site is
// given up, so that it does not delay the other frames.
func timedOut(ctx context.Context, t *tab, session string) {
	q := ask(t, session)
	t.mu.Lock()
	age := time.Since(q.since)
	t.mu.Unlock()
	if age+awakeTime >= hungTime {
		awake(ctx, t, session)
	} else if session != t.session() {
		giveUp(t, q)
	}
}

// leaving waits for an answer that Chrome sends once it has begun to leave the page.
func leaving[R any](ctx context.Context, t *tab, sent pending[R]) (R, error) {
	unheld(t, func(most time.Duration) bool { return sent.came(ctx, t.stop(), most) })
	return sent.waitOr(ctx, t.stop())
}

// unheld calls over until over reports that waiting has ended, and frees the tab from a
// page or frame that hangs: each of them may keep Chrome from leaving it, by the handlers
// that run when it is left. over waits for at most the duration most.
func unheld(t *tab, over func(most time.Duration) bool) {
	if over(askTime) {
		return
	}
	t.mu.Lock()
	all := slices.Collect(maps.Keys(t.views))
	t.mu.Unlock()
	var asked []*question
	for _, s := range all {
		asked = append(asked, ask(t, s))
	}
	for !over(awakeTick) {
		for _, q := range asked {
			if q.open() {
				free(t, q)
			}
		}
	}
}

// giveUp makes the call that runs wait no longer for the page that was asked.
func giveUp(t *tab, q *question) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q.givenUp = true
}

// givenUp reports whether the call that runs has given up the page of a session, and the
// page has not answered since.
func givenUp(t *tab, session string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.views[session]
	return v != nil && v.asked.open() && v.asked.givenUp
}

// hopeless reports whether a session is of a frame whose script was stopped and that has
// not answered since.
func hopeless(t *tab, session string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.views[session]
	return v != nil && v.top != t.target && v.asked.open() && v.asked.stopped
}

// freed reports whether a script of the tab was stopped, its page or frame has answered
// since, and the agent was not told yet.
func freed(t *tab) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	forgetAnswers(t)
	return t.freed
}

// tellFreed is freed for a caller that notifies the agent. It resets the state.
func tellFreed(t *tab) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	forgetAnswers(t)
	defer func() { t.freed = false }()
	return t.freed
}

// wasStopped is the text about such a script for the agent.
const wasStopped = "a script that ran without end was stopped"

// eachTab calls f with each tab, with the tab's mu held.
func eachTab(e *engine, f func(*tab)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.tabs {
		t.mu.Lock()
		f(t)
		t.mu.Unlock()
	}
}

// listenAnew begins a call, which waits again for the pages that the call before has given
// up. t.mu is held.
func listenAnew(t *tab) {
	forgetAnswers(t)
	for _, v := range t.views {
		if v.asked != nil {
			v.asked.givenUp = false
		}
	}
}

// forgetQuestions forgets that pages of a tab have not answered. t.mu is held.
func forgetQuestions(t *tab) {
	forgetAnswers(t)
	for _, v := range t.views {
		v.asked = nil
	}
}

// hung reports whether the page has used up its time: first the time until its script is
// stopped, and then the time until Chrome is ended. work is the processor time of its
// Chrome by now, which all sessions share. While the page is flooding, the processor time
// since the last call of hung does not count, within a bound.
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

// abandon stops the scripts of the page and frames that a tab is about to leave and that still have not
// answered: Chrome can load no other page of the same process meanwhile.
func abandon(t *tab) {
	t.mu.Lock()
	var hang []string
	for s, v := range t.views {
		if v.asked.open() {
			hang, t.freed = append(hang, s), true
		}
	}
	t.mu.Unlock()
	for _, s := range hang {
		terminate(t.e.g, s)
	}
}

// terminate stops the script that runs in a session.
func terminate(g *governor, session string) {
	begin(g, session, runtime.TerminateExecution, cdp.Empty{}).drop()
}

// awake waits at most awakeTime for the page of a session, and stops a script that runs
// without end. If the page still does not answer after that, awake ends Chrome, and the
// next call starts another Chrome and reports that. If the page is a frame of another site,
// awake stops the script that runs then, and does not end Chrome. It gives the page up for
// the rest of the call.
func awake(ctx context.Context, t *tab, session string) {
	if givenUp(t, session) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), awakeTime)
	defer cancel()
	q, stop := ask(t, session), t.stop()
	for !q.came(ctx, stop, awakeTick) {
		free(t, q)
	}
	giveUp(t, q)
}

// free stops the script of a page that has not answered, or ends its Chrome, if it hangs by now.
func free(t *tab, q *question) {
	switch script, chrome := hangs(t, q); {
	case script:
		terminate(t.e.g, q.session)
	case chrome:
		t.e.g.end(errGone)
	}
}

// hangs reports whether a page that has not answered hangs by now, so that its script has to be
// stopped, or its Chrome ended.
func hangs(t *tab, q *question) (script, chrome bool) {
	now, work, dialog := time.Now(), t.e.cpu(), dialogWaits(t.e)
	t.e.mu.Lock()
	sessions := len(t.e.bySess)
	t.e.mu.Unlock()
	flooding, own := (ear{t}).flooding(q.session, now), t.session()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case dialog: // pages of one site share a thread
		q.restart(now, work)
	case !q.hung(now, work, sessions, flooding):
	case q.stopped && q.session == own:
		return false, true
	default:
		q.restart(now, work)
		q.stopped = true
		return true, false
	}
	return false, false
}
