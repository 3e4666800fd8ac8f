package engine

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// why returns the reason why there are no results.
func (b *body) why() (Outcome, string) {
	if o, d := b.byAddress(); o != None {
		return o, d
	}
	if o, d := b.byProof(b.engine.answers, false); o != None {
		return o, d
	}
	if b.fine() {
		if o, d := b.byProof(b.engine.answers, true); o != None {
			return o, d
		}
	}
	if o, ok := b.engine.statuses[b.resp.Status]; ok {
		return o, fmt.Sprintf("status %d", b.resp.Status)
	}
	if o, d := b.byProof(b.engine.common, false); o != None && o != HTTPError {
		return o, d
	}
	if !b.fine() {
		return byStatus(b.resp.Status)
	}
	if o, d := b.byProof(b.engine.common, false); o != None {
		return o, d
	}
	return b.unproven()
}

// unproven returns the outcome if nothing proves that there are no results, and nothing
// proves that the engine blocked us.
func (b *body) unproven() (Outcome, string) {
	switch {
	case b.items > 0:
		return Drift, fmt.Sprintf("%d results were found, but none has a title and an address", b.items)
	case strings.TrimSpace(b.text) == "":
		return BlockedSoft, "an empty body"
	case b.cut():
		return Drift, "the answer is cut off"
	case b.format == formatHTML && !b.engine.speaks(formatHTML):
		return BlockedSoft, "a page for people instead of " + b.engine.format()
	case b.format == formatHTML && b.tree().links(b) < driftLinks:
		return BlockedSoft, "a page without results, and without a statement that nothing was found"
	case b.format == formatHTML:
		return Drift, "a page with links, and not one of them is found as a result"
	}
	return Drift, "an answer without results, and without proof that nothing was found"
}

// byAddress returns the outcome that the final address and the headers show, or None.
func (b *body) byAddress() (Outcome, string) {
	location := b.resp.Header.Get("Location")
	for _, c := range b.engine.locations {
		if c.like.MatchString(b.resp.FinalURL) || location != "" && c.like.MatchString(location) {
			return c.outcome, "redirected to " + c.like.String()
		}
	}
	for _, name := range []string{"X-Yandex-Captcha", "Cf-Mitigated", "X-Datadome-Cid"} {
		if b.resp.Header.Get(name) != "" && (name != "X-Datadome-Cid" || !b.fine()) {
			return BlockedCaptcha, "the header " + name
		}
	}
	return None, ""
}

// byStatus returns the outcome that a status alone shows.
func byStatus(status int) (Outcome, string) {
	detail := fmt.Sprintf("status %d", status)
	switch {
	case status == http.StatusTooManyRequests:
		return RateLimited, detail
	case status == http.StatusUnauthorized, status == http.StatusPaymentRequired, status == http.StatusForbidden,
		status == http.StatusUnavailableForLegalReasons:
		return BlockedSoft, detail
	case status >= 300 && status < 400:
		return BlockedSoft, detail + " to a place that is not followed"
	}
	return HTTPError, detail
}

// byProof looks for the proofs in answers: those of emptiness if empty is set, and
// otherwise all others. It returns None if it finds no proof.
func (b *body) byProof(answers []*answer, empty bool) (Outcome, string) {
	for _, a := range answers {
		if !b.suits(a) {
			continue
		}
		holds := b.prover(a)
		if holds == nil {
			continue
		}
		all := []struct {
			outcome Outcome
			proofs  []proof
		}{{BlockedCaptcha, a.captcha}, {RateLimited, a.limited}, {BlockedSoft, a.blocked}, {HTTPError, a.failed}}
		if empty {
			all = all[:1]
			all[0].outcome, all[0].proofs = Empty, a.empty
		}
		for _, kind := range all {
			for _, p := range kind.proofs {
				if holds(p) {
					return kind.outcome, p.text
				}
			}
		}
	}
	return None, ""
}

// prover returns a function that checks a proof of a on the body, or nil if the body cannot
// be read.
func (b *body) prover(a *answer) func(proof) bool {
	if a.format != formatJSON {
		tree := b.tree().top
		return func(p proof) bool {
			n := p.inTree(tree, b.titles)
			// On a page with many links to other sites, the words may be part of results
			// that the selectors do not find any more.
			return n != nil && (p.like == nil || b.format != formatHTML || b.tree().links(b) < driftLinks)
		}
	}
	value, ok := b.json(a)
	if !ok {
		return nil
	}
	return func(p proof) bool { return p.inValue(value) }
}

// titles reports whether n may be the title of a result: it contains a link to another
// site, or is in one.
func (b *body) titles(n *html.Node) bool {
	if b.format != formatHTML {
		return false
	}
	for p := n; p != nil; p = p.Parent {
		if p.DataAtom == atom.A && b.elsewhere(p) != "" {
			return true
		}
	}
	return slices.ContainsFunc(cascadia.QueryAll(n, anchors()), func(a *html.Node) bool { return b.elsewhere(a) != "" })
}

// cut reports whether the end of the body is missing.
func (b *body) cut() bool {
	switch {
	case b.resp.Truncated:
		return true
	case b.format == formatJSON:
		b.json(nil)
		return b.broken != nil
	case b.format == formatXML:
		return b.tree().open > 0
	}
	return b.tree().unended
}

var waitSeconds = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:in|after|for) (\d{1,6}) ?(?:seconds|secs|s)\b`)
})

// maxWait bounds how long an engine can ask us to wait.
const maxWait = 24 * time.Hour

// retryAfter returns how long the engine asks us to wait.
func (b *body) retryAfter() time.Duration {
	var wait time.Duration
	h := b.resp.Header
	if s := h.Get("Retry-After"); s != "" {
		if n, err := strconv.Atoi(s); err == nil {
			wait = time.Duration(min(max(n, 0), int(maxWait/time.Second))) * time.Second
		} else if at, err := http.ParseTime(s); err == nil {
			wait = time.Until(at)
		}
	}
	if object, ok := b.value.(map[string]any); ok {
		wait = max(wait, waitOf(object))
	}
	if wait == 0 && b.parsed.Outcome == RateLimited && h.Get("X-Ratelimit-Remaining") == "0" {
		if n, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64); err == nil {
			wait = time.Until(time.Unix(n, 0))
		}
	}
	return min(max(wait, 0), maxWait)
}

// waitOf returns how long the answer of an API asks us to wait.
func waitOf(object map[string]any) time.Duration {
	for _, key := range []string{"backoff", "retry_after"} {
		if n, err := strconv.Atoi(literal(object[key])); err == nil && n > 0 && n < int(maxWait/time.Second) {
			return time.Duration(n) * time.Second
		}
	}
	for _, key := range []string{"error_message", "message", "error", "detail"} {
		if m := waitSeconds().FindStringSubmatch(literal(object[key])); m != nil {
			n, err := strconv.Atoi(m[1])
			if err == nil {
				return time.Duration(n) * time.Second
			}
		}
	}
	return 0
}
