package act

import (
	"context"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"
)

// When a page that does not answer counts as hung. On a busy machine a page may not have run at
// all meanwhile, so what counts is the processor time that its Chrome got: after hungWork for each
// page and frame, of MaxTabs at most, its script is stopped, and after as much again Chrome is
// ended. What it gets while the page floods its console does not count, up to floodWork times as
// much, since the answer may wait behind the lines. A page that waits for something else than a
// processor has stopTime, and endTime from then on.
const (
	hungWork  = time.Second
	floodWork = 4
	stopTime  = 10 * time.Second
	endTime   = 20 * time.Second
	// awakeTime is how long a call waits at most to see that.
	awakeTime = 3 * time.Second
	awakeTick = 100 * time.Millisecond
)

// question is what a page was asked and has not answered yet.
type question struct {
	pending[runtime.EvaluateResult]
	session string
	since   time.Time     // when it was asked, or its script was stopped
	work    time.Duration // processor time of its Chrome then
	seen    time.Duration // and when hung was asked last
	flooded time.Duration // of that, what does not count
	stopped bool          // its script was stopped
}

// hung reports whether the page has had its time: until its script is stopped, and from then on
// until Chrome is ended. work is the processor time of its Chrome by now, which sessions share.
// What it has had since the last call does not count if the page is flooding, within bounds.
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
	return work-q.work-q.flooded >= bound || now.Sub(q.since) >= most
}

// abandon stops the script of a page that its tab is about to leave and that still has not answered
// in a session: Chrome can load no other page of the same process meanwhile.
func (q *question) abandon(g *governor, session string) {
	if q != nil && q.session == session && !q.answered() {
		begin(g, session, runtime.TerminateExecution, cdp.Empty{}).drop()
	}
}

// awake sees whether the page answers after a call to which it did not. A script that runs
// without end is stopped; where that does not help, Chrome is ended, and the next call starts
// another and says so. A page that may have had no time to answer keeps its question until the
// next call that it does not answer.
func (t *tab) awake(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), awakeTime)
	defer cancel()
	g, s := t.e.g, t.session()
	t.mu.Lock()
	q := t.asked
	t.asked = nil
	t.mu.Unlock()
	if q == nil || q.session != s || q.answered() {
		work := t.e.cpu()
		q = &question{session: s, since: time.Now(), work: work, seen: work}
		q.pending = begin(g, s, runtime.Evaluate, runtime.EvaluateParams{Expression: "0", Silent: new(true)})
	}
	stop := t.stop()
	for !q.came(ctx, stop, awakeTick) {
		work := t.e.cpu()
		t.e.mu.Lock()
		sessions := len(t.e.bySess)
		t.e.mu.Unlock()
		switch now := time.Now(); {
		case !q.hung(now, work, sessions, (ear{t}).flooding(s, now)):
		case q.stopped:
			g.end(errGone)
		default:
			begin(g, s, runtime.TerminateExecution, cdp.Empty{}).drop()
			q.since, q.work, q.flooded, q.stopped = now, work, 0, true
		}
	}
	if ctx.Err() != nil && !q.answered() {
		t.change(func() { t.asked = q })
	} else {
		q.drop()
	}
}
