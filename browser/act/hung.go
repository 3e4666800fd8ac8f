package act

import (
	"context"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"
)

// When a page that does not answer counts as hung. On a busy machine a page may not have run at
// all meanwhile, so what counts is the processor time that its Chrome got: hungWork is what one
// script of a page gets on an idle machine in two seconds. A page that waits for something else
// than a processor has hungTime.
const (
	hungWork = 2 * time.Second
	hungTime = 30 * time.Second
	// awakeTime is how long a call waits at most to see that.
	awakeTime = 3 * time.Second
	awakeTick = 100 * time.Millisecond
)

// question is what a page was asked and has not answered yet.
type question struct {
	pending[runtime.EvaluateResult]
	session string
	since   time.Time
	work    time.Duration // processor time of its Chrome by then
}

// awake sees whether the page answers after a call to which it did not. A script that runs
// without end is stopped; where that does not help, Chrome is ended, and the next call starts
// another and says so. A page that may have had no time to answer keeps its question until the
// next call that it does not answer.
func (t *tab) awake(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), awakeTime)
	defer cancel()
	s := t.session()
	begin(t.e.g, s, runtime.TerminateExecution, cdp.Empty{}).drop()
	t.mu.Lock()
	q := t.asked
	t.asked = nil
	t.mu.Unlock()
	if q == nil || q.session != s || q.answered() {
		q = &question{session: s, since: time.Now(), work: t.e.lease.CPU()}
		q.pending = begin(t.e.g, s, runtime.Evaluate, runtime.EvaluateParams{Expression: "0", Silent: new(true)})
	}
	stop := t.stop()
	for !q.came(ctx, stop, awakeTick) {
		if t.e.lease.CPU()-q.work >= hungWork || time.Since(q.since) >= hungTime {
			t.e.g.end(errGone)
		}
	}
	if ctx.Err() != nil && !q.answered() {
		t.change(func() { t.asked = q })
	} else {
		q.drop()
	}
}
