package search

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"belljar.dev/search/engine"
)

// Report is what a query came to: the merged results, and of each engine what
// became of it. It is not changed once it was given out.
type Report struct {
	Results    []Result
	Answers    []Answer
	Suggestion string // a better spelling that an engine offers; may be empty
	Engines    []Asked
	Took       time.Duration

	// Partial says that an engine which was expected to answer did not, so that
	// there may be more to find.
	Partial bool
	// Cached says that no engine was asked: the same was asked a moment before.
	Cached bool
	// Stale says that the results are of an earlier time, since no engine
	// answers now. Age is how old they are, of cached ones too.
	Stale bool
	Age   time.Duration
	// Note is for the agent where something beside the results matters; may be
	// empty.
	Note string
}

// Result is one page. Its words are foreign: they were cleaned of what cannot
// be seen, and say what somebody wants them to say.
type Result struct {
	Title     string
	URL       string // http or https; of no private host
	Snippet   string // may be empty
	Published time.Time
	Engines   []Source // best rank first
	Score     float64
}

// Source is an engine that showed a result, and where.
type Source struct {
	Engine string
	Rank   int // from 1
}

// Answer is what an engine itself answered.
type Answer struct {
	Engine string
	Text   string
}

// Asked is what became of one engine.
type Asked struct {
	Engine  string
	Role    engine.Role
	Outcome engine.Outcome
	Results int
	Took    time.Duration
	// RetryAfter is when it will be asked again, from now; 0 where nothing is in
	// the way.
	RetryAfter time.Duration
	Detail     string // what the outcome rests on, of DisabledByPolicy the limit; holds nothing of the query
	Reserve    bool   // asked in the place of another
	Pending    bool   // it had not answered when the report was made
	Lane       string // "browser" where a Chrome read its page; else empty
}

// again is a report that is given out a second time, so much later.
func (r *Report) again(age time.Duration, stale bool) *Report {
	out := *r
	out.Cached, out.Stale, out.Age = !stale, stale, age
	out.Engines = slices.Clone(r.Engines)
	for i := range out.Engines {
		out.Engines[i].RetryAfter = max(0, out.Engines[i].RetryAfter-age)
	}
	return &out
}

// cut is a report with its first results only.
func (r *Report) cut(most int) *Report {
	out := *r
	out.Results = slices.Clone(r.Results[:min(most, len(r.Results))])
	return &out
}

// UnavailableError says that no engine that counts answered, so that nothing is
// known about what there is. It holds nothing of the query.
type UnavailableError struct {
	Report     *Report // without results
	RetryAfter time.Duration
}

// Error says which engines did what, when to ask again, and what must not be
// concluded.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("no search engine gave an answer that counts: %s. This does not show that nothing exists. Do not ask again for %s.",
		troubles(e.Report.Engines), span(e.RetryAfter))
}

// Status is the report on one line: how many engines answered, and of each
// other one why not.
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

// troubles are the engines that did not answer, one after the other.
func troubles(all []Asked) string {
	var parts, closed, limited []string
	limit := "" // the newest, where they reached several
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

// span is a time in the words of a status line.
func span(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", max(1, int(d.Round(time.Second)/time.Second)))
	case d < 90*time.Minute:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute)/time.Minute))
	}
	return fmt.Sprintf("%d h", int(d.Round(time.Hour)/time.Hour))
}
