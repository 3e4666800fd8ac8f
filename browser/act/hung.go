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
// ended. A page that waits for something else than a processor has stopTime, and endTime from then on,
// and so has one whose answer may wait behind the lines that it wrote.
const (
	hungWork = time.Second
	stopTime = 10 * time.Second
	endTime  = 20 * time.Second
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
	stopped bool          // its script was stopped
}

// hung reports whether the page has had its time: until its script is stopped, and from then on
// until Chrome is ended. work is the processor time of its Chrome by now, which sessions share.
func (q *question) hung(now time.Time, work time.Duration, sessions int) bool {
	most := stopTime
	if q.stopped {
		most = endTime
	}
	shares := min(max(sessions, 1), MaxTabs)
	return work-q.work >= time.Duration(shares)*hungWork || now.Sub(q.since) >= most
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
		q = &question{session: s, since: time.Now(), work: t.e.lease.CPU()}
		q.pending = begin(g, s, runtime.Evaluate, runtime.EvaluateParams{Expression: "0", Silent: new(true)})
	}
	stop := t.stop()
	for !q.came(ctx, stop, awakeTick) {
		work := t.e.lease.CPU()
		if (ear{t}).flooded(s) {
			q.work = work // what Chrome did was to report lines
		}
		t.e.mu.Lock()
		sessions := len(t.e.bySess)
		t.e.mu.Unlock()
		switch now := time.Now(); {
		case !q.hung(now, work, sessions):
		case q.stopped:
			g.end(errGone)
		default:
			begin(g, s, runtime.TerminateExecution, cdp.Empty{}).drop()
			q.since, q.work, q.stopped = now, work, true
		}
	}
	if ctx.Err() != nil && !q.answered() {
		t.change(func() { t.asked = q })
	} else {
		q.drop()
	}
}
