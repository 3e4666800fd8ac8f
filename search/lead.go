package search

import (
	"context"
	"errors"
	"time"

	"belljar.dev/policies"
	"belljar.dev/search/engine"
)

const (
	// softLeast and softMost bound how long the engines that usually answer are waited for
	// after enough others have answered. Between the bounds it is softTimes the longest
	// recent answer time of these engines. With a median of 300 ms, which was measured for
	// engines, one answer in 150 takes longer than softMost.
	softLeast = 800 * time.Millisecond
	softMost  = 1190 * time.Millisecond
	softTimes = 1.5
)

// lead runs one query from its first request to its last answer.
//
//	launch   ask the engines, all at the same time
//	take     record each answer as it arrives: health, progress, and a reserve in
//	         place of an engine that failed if too few others are left
//	give     publish the report, when the engines that are waited for have
//	         answered, or enough have and the soft deadline is over, or all time is up
//	keep     put later answers into the cache
func (f *Fan) lead(ctx context.Context, fl *flight, p *plan, door Door) {
	// Engines get their full time even if the caller's timeout is shorter: an engine must
	// not count as failed because a caller is in a hurry.
	timed, stop := context.WithTimeout(ctx, max(p.query.Timeout, f.patience))
	defer stop()
	r := &run{
		f: f, fl: fl, plan: p, door: door, start: time.Now(), ctx: ctx, timed: timed,
		answers: make(chan arrival, len(p.first)+len(p.reserves)+1),
	}
	defer r.asking.Wait()
	r.launch()
	soft, hard := time.NewTimer(r.soft()), time.NewTimer(p.query.Timeout)
	defer soft.Stop()
	defer hard.Stop()
	for {
		if !r.given && r.ready() {
			r.give()
		}
		if r.running == 0 {
			break
		}
		select {
		case a := <-r.answers:
			r.take(a)
		case <-soft.C:
			r.softOver = true
		case <-hard.C:
			r.timeOver = true
		case <-ctx.Done():
			for r.running > 0 { // all calls return soon after ctx has ended
				r.take(<-r.answers)
			}
		}
		if ctx.Err() != nil {
			if !r.given {
				f.publish(fl, nil, context.Cause(ctx))
			}
			return
		}
	}
	if r.late {
		r.keep()
	}
}

// launch asks all engines of the plan. For each engine that is not asked or only probed, it
// asks a reserve.
func (r *run) launch() {
	for _, e := range r.plan.closed {
		r.all = append(r.all, &entry{engine: e, done: true, asked: Asked{Engine: e.Name, Role: e.Role, Outcome: engine.DisabledByPolicy}})
	}
	var short []engine.Role // roles for which a reserve is needed
	for _, e := range r.plan.first {
		if en := r.ask(e, false); en == nil || en.probe {
			short = append(short, e.Role)
		}
	}
	if !r.plan.named {
		for n := len(r.plan.first); n < wanted11; n++ {
			short = append(short, engine.RoleGeneral)
		}
		for _, role := range short {
			r.replace(role)
		}
	}
	r.await()
}

// ask begins to ask an engine. It returns nil if the engine is not asked now.
func (r *run) ask(e *engine.Engine, reserve bool) *entry {
	t := r.f.book.take(e, time.Now())
	en := &entry{engine: e, asked: Asked{Engine: e.Name, Role: e.Role, Reserve: reserve}, probe: t.state == Open}
	if !t.ask {
		if !reserve { // reserves count only if they are asked
			en.done = true
			en.asked.Outcome, en.asked.RetryAfter, en.asked.Detail = engine.SkippedOpen, t.retry, t.why.Words()
			r.all = append(r.all, en)
		}
		return nil
	}
	r.all = append(r.all, en)
	en.awaited = t.state == Healthy && !reserve
	r.begin(en, func() heard {
		ctx := r.timed
		if e.Timeout > 0 {
			own, cancel := context.WithTimeout(ctx, e.Timeout)
			defer cancel()
			ctx = own
		}
		return r.f.ask(ctx, r.door, r.plan, e)
	})
	return en
}

// begin runs work, which gets the answer for an entry.
func (r *run) begin(en *entry, work func() heard) {
	r.running++
	r.asking.Go(func() { r.answers <- arrival{en, work()} })
}

// replace asks a reserve in place of an engine of a role, or the next reserve if that one
// is left alone too. It returns nil if no reserve is left.
func (r *run) replace(role engine.Role) *entry {
	for {
		e := r.plan.substitute(role)
		if e == nil {
			return nil
		}
		if en := r.ask(e, true); en != nil && !en.probe {
			return en
		}
	}
}

// await decides which engines are waited for in addition to the healthy ones: general
// reserves if fewer than enough healthy engines are general, and all engines if none is
// healthy.
func (r *run) await() {
	var any, general int
	for _, en := range r.all {
		if en.awaited {
			any++
			if en.engine.Role == engine.RoleGeneral {
				general++
			}
		}
	}
	for _, en := range r.all {
		switch {
		case en.done || en.awaited:
		case any == 0, general < enough && en.engine.Role == engine.RoleGeneral && !en.probe:
			en.awaited = true
		}
	}
}

// take records one answer.
func (r *run) take(a arrival) {
	r.running--
	en := a.entry
	en.done, en.parsed = true, a.heard.parsed
	en.asked.Outcome, en.asked.Detail = a.heard.parsed.Outcome, clean(a.heard.parsed.Detail, titleMost)
	en.asked.Took, en.asked.Lane = a.heard.took, a.heard.lane
	en.asked.Results = len(a.heard.parsed.Hits)
	if r.ctx.Err() != nil {
		if en.asked.Lane == "" {
			r.f.book.drop(en.engine) // we cancelled the request, so it is not the engine's failure
		}
		return
	}
	if en.asked.Lane == "" {
		before := r.f.book.peek(en.engine)
		en.asked.RetryAfter = r.f.book.note(en.engine, time.Now(), told{
			outcome: en.asked.Outcome, status: a.heard.status, retry: a.heard.parsed.RetryAfter,
			took: a.heard.took, query: r.plan.mark.small(),
		})
		if after := r.f.book.peek(en.engine); after != before {
			r.f.cfg.Log.Info("a search engine changed", "engine", en.engine.Name, "from", before.String(), "to", after.String(),
				"outcome", en.asked.Outcome.String(), "retry", en.asked.RetryAfter)
		}
	}
	if r.given {
		r.late = true
		return
	}
	r.fl.tell(Progress{Asked: en.asked, Done: r.done(), Total: r.total()})
	r.rescue(en)
}

// rescue asks a reserve if an engine of the general web has failed and too few indexes are
// left.
func (r *run) rescue(en *entry) {
	if r.plan.named || en.probe || en.engine.Role != engine.RoleGeneral || en.asked.Outcome.Answered() || r.softOver || r.timeOver {
		return
	}
	left := make(map[string]bool)
	for _, o := range r.all {
		if o.engine.Role == engine.RoleGeneral && !o.probe && (!o.done || o.asked.Outcome.Answered()) {
			left[o.engine.Family] = true
			o.awaited = true
		}
	}
	if len(left) < enough {
		if en := r.replace(engine.RoleGeneral); en != nil {
			en.awaited = true
		}
	}
}

// ready reports whether the report can be published.
func (r *run) ready() bool {
	pending, browser := 0, 0
	for _, en := range r.all {
		switch {
		case en.done:
		case en.asked.Lane != "":
			browser++
		case en.awaited:
			pending++
		}
	}
	switch {
	case pending > 0 && !r.timeOver && (!r.softOver || !r.enough()):
		return false
	case r.hits() > 0:
		r.secondLane(false)
		return true
	case r.running > browser && !r.timeOver:
		// There are no results so far, so every engine that may still have some is waited
		// for.
		return false
	}
	return !r.secondLane(true) && browser == 0
}

// enough reports whether the results so far can be published without the late engines.
func (r *run) enough() bool {
	families, possible := make(map[string]bool), make(map[string]bool)
	answered, awaited := 0, 0
	for _, en := range r.all {
		if en.probe || en.asked.Outcome == engine.DisabledByPolicy || en.asked.Outcome == engine.SkippedOpen {
			continue
		}
		ok := en.done && en.asked.Outcome.Answered()
		if en.engine.Role == engine.RoleGeneral {
			possible[en.engine.Family] = true
			if ok {
				families[en.engine.Family] = true
			}
		}
		if en.awaited {
			awaited++
			if ok {
				answered++
			}
		}
	}
	return len(families) >= min(enough, len(possible)) && 2*answered >= awaited
}

// secondLane reads one engine's page in the browser, if no engine of the general web
// answered and one that has pages for people refused us. If there are other results, nobody
// waits for the page. The call's profile must have a browser. secondLane reports whether it
// has begun.
func (r *run) secondLane(awaited bool) bool {
	if r.browsing || r.f.cfg.Browser == nil || r.plan.grant.Browser() == policies.BrowserOff || r.plan.query.Category != "general" && !r.plan.named {
		return false
	}
	var to *engine.Engine
	for _, en := range r.all {
		if en.engine.Role != engine.RoleGeneral {
			continue
		}
		if en.asked.Outcome.Answered() {
			return false
		}
		turned := en.asked.Outcome.Blocked() || en.asked.Outcome == engine.RateLimited || en.asked.Outcome == engine.SkippedOpen
		if to == nil && en.engine.Scraped && turned {
			if _, ok := r.plan.address(en.engine); ok {
				to = en.engine
			}
		}
	}
	if to == nil {
		return false
	}
	r.browsing = true
	en := &entry{engine: to, awaited: awaited, asked: Asked{Engine: to.Name, Role: to.Role, Lane: laneBrowser}}
	r.all = append(r.all, en)
	r.begin(en, func() heard { return r.f.browse(r.ctx, r.plan, to) })
	return true
}

// soft returns how long the healthy engines are waited for after enough engines have
// answered.
func (r *run) soft() time.Duration {
	longest := time.Duration(0)
	for _, en := range r.all {
		if !en.awaited {
			continue
		}
		slow, known := r.f.book.slow(en.engine)
		if !known {
			return softMost
		}
		longest = max(longest, slow)
	}
	return min(max(softLeast, time.Duration(softTimes*float64(longest))), softMost)
}

func (r *run) done() (n int) {
	for _, en := range r.all {
		if en.done && en.asked.Outcome != engine.DisabledByPolicy && en.asked.Outcome != engine.SkippedOpen {
			n++
		}
	}
	return n
}

func (r *run) total() (n int) {
	for _, en := range r.all {
		if en.asked.Outcome != engine.DisabledByPolicy && en.asked.Outcome != engine.SkippedOpen {
			n++
		}
	}
	return n
}

func (r *run) hits() (n int) {
	for _, en := range r.all {
		n += en.asked.Results
	}
	return n
}

// give publishes the report as it is now.
func (r *run) give() {
	r.given = true
	report := r.report()
	if none, bad := errors.AsType[*UnavailableError](r.judge(report)); bad {
		old, age, ok := r.f.cache.get(r.plan.grant.Tenant(), r.plan.mark, time.Now(), true)
		if !ok {
			r.f.publish(r.fl, nil, none)
			return
		}
		old = old.again(age, true)
		old.Engines = report.Engines
		report = old
	} else {
		r.f.cache.put(r.plan.grant.Tenant(), r.plan.mark, report, time.Now(), r.fresh(report))
	}
	r.f.publish(r.fl, report, nil)
}

// keep caches the report with all answers.
func (r *run) keep() {
	if report := r.report(); r.judge(report) == nil {
		r.f.cache.put(r.plan.grant.Tenant(), r.plan.mark, report, time.Now(), r.fresh(report))
	}
}
