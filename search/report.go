package search

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"belljar.dev/search/engine"
)

// Report is the result of a query: the merged results, and the outcome of each engine. It
// is not changed after it was returned.
type Report struct {
	Results    []Result
	Answers    []Answer
	Suggestion string // better spelling that an engine offers; may be empty
	Engines    []Asked
	Took       time.Duration

	// Partial reports that an engine that was expected to answer did not, so there may be
	// more to find.
	Partial bool
	// Cached reports that no engine was asked, because the same query was asked shortly
	// before.
	Cached bool
	// Stale reports that the results are from an earlier time, because no engine answers
	// now. Age is the age of the results, also of cached ones.
	Stale bool
	Age   time.Duration
	// Note tells the agent something that matters in addition to the results; may be empty.
	Note string
}

// Result is one page. Its texts were written by others: invisible characters were removed,
// but the texts can contain anything else, such as instructions.
type Result struct {
	Title     string
	URL       string // http or https; never a private host
	Snippet   string // may be empty
	Published time.Time
	Engines   []Source // engines that showed it, best rank first
	Score     float64
}

// Source is an engine that showed a result, and the rank there.
type Source struct {
	Engine string
	Rank   int // position in the engine's answer, from 1
}

// Answer is an answer that an engine itself gave.
type Answer struct {
	Engine string
	Text   string
}

// Asked is the outcome of one engine.
type Asked struct {
	Engine  string
	Role    engine.Role
	Outcome engine.Outcome
	Results int
	Took    time.Duration
	// RetryAfter is the time until the engine will be asked again; 0 if it can be asked
	// now.
	RetryAfter time.Duration
	Detail     string // reason for the outcome, or the limit if it is DisabledByPolicy; does not contain the query
	Reserve    bool   // reports whether it was asked in place of another engine
	Pending    bool   // reports whether it had not answered when the report was made
	Lane       string // "browser" if a Chrome read its page, otherwise empty
}

// again returns the report as it is returned a second time, after age.
func (r *Report) again(age time.Duration, stale bool) *Report {
	out := *r
	out.Cached, out.Stale, out.Age = !stale, stale, age
	out.Engines = slices.Clone(r.Engines)
	for i := range out.Engines {
		out.Engines[i].RetryAfter = max(0, out.Engines[i].RetryAfter-age)
	}
	return &out
}

// cut returns the report with its first results only.
func (r *Report) cut(most int) *Report {
	out := *r
	out.Results = slices.Clone(r.Results[:min(most, len(r.Results))])
	return &out
}

// UnavailableError means that no engine that counts answered, so it is not known whether
// there are results. It does not contain the query.
type UnavailableError struct {
	Report     *Report // report without results
	RetryAfter time.Duration
}

// Error lists what the engines did, when to ask again, and what must not be concluded.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("no search engine gave an answer that counts: %s. This does not show that nothing exists. Do not ask again for %s.",
		troubles(e.Report.Engines), span(e.RetryAfter))
}

// Status returns the report on one line: how many engines answered, and why each of the
// others did not.
func (r *Report) Status() string {
	answered, asked := 0, 0
	for _, a := range r.Engines {
		if a.Outcome == engine.None || a.Outcome == engine.DisabledByPolicy {
			continue
		}
		asked++
		if a.Outcome.Answered() {
			answered++
		}
	}
	line := fmt.Sprintf("%d/%d engines answered", answered, asked)
	if t := troubles(r.Engines); t != "" {
		line += "; " + t
	}
	switch {
	case r.Stale:
		line += fmt.Sprintf("; these results are %s old", span(r.Age))
	case r.Cached:
		line += fmt.Sprintf("; asked %s ago", span(r.Age))
	}
	return line
}

// troubles returns the list of the engines that did not answer, with the reason.
func troubles(all []Asked) string {
	var parts, closed, limited []string
	limit := "" // the last limit, if engines were stopped by several limits
	for _, a := range all {
		switch {
		case a.Outcome == engine.DisabledByPolicy && a.Detail == "":
			closed = append(closed, a.Engine)
			continue
		case a.Outcome == engine.DisabledByPolicy:
			limited, limit = append(limited, a.Engine), a.Detail
			continue
		}
		if t := a.trouble(); t != "" {
			parts = append(parts, t)
		}
	}
	if len(closed) > 0 {
		parts = append(parts, strings.Join(closed, ", ")+" not allowed by the policy")
	}
	if len(limited) > 0 {
		parts = append(parts, strings.Join(limited, ", ")+" not asked because of a limit of the sandbox: "+limit)
	}
	return strings.Join(parts, "; ")
}

func (a Asked) trouble() string {
	what := a.Outcome.Words()
	switch {
	case a.Pending && a.Outcome == engine.None:
		what = "still pending"
	case a.Outcome.Answered() || a.Outcome == engine.None:
		return ""
	case a.Outcome == engine.SkippedOpen && a.Detail != "":
		what = a.Detail
	}
	if a.RetryAfter > 0 {
		return fmt.Sprintf("%s %s, retry in %s", a.Engine, what, span(a.RetryAfter))
	}
	return a.Engine + " " + what
}

// span returns a duration as a status line writes it.
func span(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", max(1, int(d.Round(time.Second)/time.Second)))
	case d < 90*time.Minute:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute)/time.Minute))
	}
	return fmt.Sprintf("%d h", int(d.Round(time.Hour)/time.Hour))
}
