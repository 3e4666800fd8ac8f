package search

import (
	"time"

	"belljar.dev/search/engine"
)

// report returns the report from the answers so far.
func (r *run) report() *Report {
	out := &Report{Took: time.Since(r.start)}
	var all []said
	for _, en := range r.all {
		a := en.asked
		switch {
		case !en.done:
			a.Pending, a.Took = true, out.Took
			if r.timeOver {
				a.Outcome = engine.Timeout
			}
			out.Partial = out.Partial || !en.probe
		case !a.Outcome.Answered() && a.Outcome != engine.None && a.Outcome != engine.DisabledByPolicy:
			out.Partial = true
		}
		out.Engines = append(out.Engines, a)
		if len(en.parsed.Hits) > 0 {
			all = append(all, said{en.engine, en.parsed.Hits})
		}
		if s := clean(en.parsed.Suggestion, titleMost); s != "" && out.Suggestion == "" {
			out.Suggestion = s
		}
		if s := clean(en.parsed.Answer, answerMost); s != "" {
			out.Answers = append(out.Answers, Answer{en.engine.Name, s})
		}
	}
	out.Results = merge(all, r.plan.query)
	if len(out.Results) > cachedResults {
		out.Results = out.Results[:cachedResults]
	}
	if len(out.Results) == 0 && len(all) > 0 {
		out.Note = "Engines had results, but none of them is from the requested domains."
		if len(r.plan.query.AllowedDomains)+len(r.plan.query.BlockedDomains) == 0 {
			out.Note = "Engines had results, but none of them leads to a public web page."
		}
	}
	return out
}

// judge returns an *UnavailableError if a report without results does not prove that
// nothing exists: for a query about the general web, no engine of the general web has
// answered.
func (r *run) judge(report *Report) error {
	if len(report.Results) > 0 || report.Note != "" {
		return nil
	}
	general, said, generalSaid := 0, 0, 0
	retry := time.Duration(0)
	for i := range report.Engines {
		a := &report.Engines[i]
		if a.Role == engine.RoleGeneral {
			general++
		}
		if a.Outcome.Answered() {
			said++
			if a.Role == engine.RoleGeneral {
				generalSaid++
			}
		}
		if a.RetryAfter > 0 && (retry == 0 || a.RetryAfter < retry) {
			retry = a.RetryAfter
		}
	}
	if generalSaid > 0 || general == 0 && said > 0 {
		return nil
	}
	if retry == 0 {
		retry = failedFirst
	}
	return &UnavailableError{Report: report, RetryAfter: retry}
}

// fresh returns how long a report may be returned again from the cache.
func (r *run) fresh(report *Report) time.Duration {
	families := make(map[string]bool)
	for _, en := range r.all {
		if en.engine.Role == engine.RoleGeneral && en.asked.Outcome.Answered() {
			families[en.engine.Family] = true
		}
	}
	switch {
	case len(report.Results) == 0, r.running > 0, !r.plan.named && len(families) < enough:
		return freshPartial
	case r.plan.query.Category == "news":
		return freshNews
	}
	return freshFor
}
