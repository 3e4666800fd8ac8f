package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"belljar.dev/policies/audit"
)

// Bounds of a page of the audit log.
const (
	usualRecords = 100
	mostRecords  = 500
	searchMost   = 2 * time.Second // duration of a search; after it, the page has what was found, and where to continue
	verifyEvery  = 10 * time.Minute
)

// record is the short form of a record of the log.
type record struct {
	Cursor   string     `json:"cursor"`
	Seq      uint64     `json:"seq"`
	Time     time.Time  `json:"time"`
	Kind     audit.Kind `json:"kind"`
	Event    string     `json:"event,omitempty"`
	CallID   string     `json:"call_id,omitempty"`
	Tenant   string     `json:"tenant,omitempty"`
	Session  string     `json:"session,omitempty"`
	Box      string     `json:"box,omitempty"`
	Tool     string     `json:"tool,omitempty"`
	Decision string     `json:"decision,omitempty"`
	Rule     string     `json:"rule,omitempty"`
	Reason   string     `json:"reason,omitempty"`
	Command  string     `json:"command,omitempty"`
	Outcome  string     `json:"outcome,omitempty"` // result of a call that has ended: ok or failed
	Exit     *int       `json:"exit,omitempty"`
	MS       int64      `json:"ms,omitempty"`
	Cast     string     `json:"cast,omitempty"`
}

// extra contains the fields of a record that an audit.Entry does not have.
type extra struct {
	Reason string `json:"reason"`
	Rule   string `json:"rule"` // rule of the egress door
	Host   string `json:"host"`
	By     string `json:"by"`
	File   string `json:"file"`
}

// maxBriefText is how many bytes of a text a list contains.
const maxBriefText = 300

// brief returns the short form of a record, for a list.
func brief(e audit.Entry, at audit.Cursor) record {
	var more extra
	_ = json.Unmarshal(e.Raw, &more) // fields with another type stay empty
	r := record{
		Cursor: at.String(), Seq: e.Seq, Time: e.Time, Kind: e.Kind, Event: e.Event, CallID: e.CallID, Tenant: e.Tenant, Session: e.Session, Box: e.Box,
		Tool: e.Tool, Decision: e.Verdict, Rule: more.Rule, Exit: e.Exit, MS: e.DurMS,
	}
	for _, text := range []string{more.Reason, more.Host, more.By, more.File} {
		if r.Reason == "" {
			r.Reason = clip(text)
		}
	}
	if len(e.Rules) > 0 {
		r.Rule = e.Rules[0].ID
	}
	r.Command = clip(e.Args.Command)
	if r.Command == "" {
		r.Command = clip(e.Facts.Command)
	}
	if e.Kind == audit.KindOutcome {
		r.Outcome = "ok"
		if e.Failed {
			r.Outcome = "failed"
		}
	}
	if e.Cast != nil && !e.Cast.Reel() { // `belljar audit reel` shows reels
		r.Cast = e.CallID
	}
	return r
}

// clip cuts a long text after a whole character.
func clip(text string) string {
	for i := range text {
		if i > maxBriefText {
			return text[:i] + "..."
		}
	}
	return text
}

// records is a page of the log, the newest record first.
type records struct {
	Records []record `json:"records"`
	Next    string   `json:"next"`           // cursor at which the next page begins; empty at the end
	More    bool     `json:"more,omitempty"` // whether the log may have more records, for which no cursor is known
	Chain   chainIs  `json:"chain"`
}

// limitOf returns how many records a request wants.
func limitOf(r *request) (int, error) {
	text := r.in.URL.Query().Get("limit")
	if text == "" {
		return usualRecords, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostRecords {
		return 0, fault(http.StatusBadRequest, "limit=%q: want a number from 1 to %d", text, mostRecords)
	}
	return n, nil
}

// listRecords returns the records before a cursor that match a search.
func listRecords(r *request) (any, error) {
	q := r.in.URL.Query()
	want := audit.Search{
		Filter: audit.Filter{Tenant: q.Get("tenant"), Session: q.Get("session"), Tool: q.Get("tool"), Verdict: q.Get("decision"), Kind: audit.Kind(q.Get("kind"))},
		Rule:   q.Get("rule"), Upstream: q.Get("upstream"), Text: q.Get("q"),
	}
	most, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	var before audit.Cursor
	if text := q.Get("before"); text != "" {
		if before, err = audit.ParseCursor(text); err != nil {
			return nil, &Error{http.StatusBadRequest, fmt.Errorf("before: %w", err)}
		}
	}
	ctx, cancel := context.WithTimeout(r.context(), searchMost)
	defer cancel()
	page := records{Records: []record{}}
	at, more, err := audit.ReadBack(ctx, r.views.AuditDir, before, want, func(e audit.Entry, at audit.Cursor) bool {
		if r.views.scope.Sees(e.Tenant) {
			page.Records = append(page.Records, brief(e, at))
		}
		return len(page.Records) < most
	})
	if err != nil {
		return nil, err
	}
	if more && at.Seq > 0 {
		page.Next = at.String()
	}
	page.More = more && at.Seq == 0
	page.Chain = r.console.chain.state(time.Now())
	return page, nil
}

// showRecord returns one record as it is in the log.
func showRecord(r *request) (any, error) {
	at, err := audit.ParseCursor(r.named("cursor"))
	if err != nil {
		return nil, &Error{http.StatusNotFound, err}
	}
	e, err := audit.ReadRecord(r.views.AuditDir, at)
	if err == nil && !r.views.scope.Sees(e.Tenant) {
		err = audit.ErrNoRecord
	}
	if errors.Is(err, audit.ErrNoRecord) {
		return nil, &Error{http.StatusNotFound, err}
	}
	if err != nil {
		return nil, err
	}
	return struct {
		Record json.RawMessage `json:"record"`
		Cursor string          `json:"cursor"`
		Cast   string          `json:"cast,omitempty"`
		Chain  chainIs         `json:"chain"`
	}{e.Raw, at.String(), brief(e, at).Cast, r.console.chain.state(time.Now())}, nil
}

// chainIs is the result of verifying the log.
type chainIs struct {
	State   string    `json:"state"` // ok, broken or unknown
	Why     string    `json:"why,omitempty"`
	Seq     uint64    `json:"seq,omitempty"`    // number of the first record that was changed
	Checked time.Time `json:"checked,omitzero"` // when the log was verified
	Last    uint64    `json:"last,omitempty"`   // number of the last record that was verified
}

// chain keeps the last result of verifying a log. To verify a long log takes long. A chain
// is safe for concurrent use.
type chain struct {
	asked chan struct{} // contains one element while the log waits to be verified

	mu sync.Mutex
	is chainIs // guarded by mu
}

// state returns the last result. If it is old, state requests a new verification.
func (h *chain) state(now time.Time) chainIs {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.is.Checked) > verifyEvery {
		select {
		case h.asked <- struct{}{}:
		default: // the request that waits already serves this caller too
		}
	}
	if h.is.State == "" {
		return chainIs{State: "unknown", Why: "the log is being verified"}
	}
	return h.is
}

// follow verifies a log whenever this is requested, until ctx ends.
func (h *chain) follow(ctx context.Context, dir string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.asked:
		}
		is := chainIs{State: "ok"}
		report, err := audit.Verify(ctx, dir, audit.Against{})
		changed, isFault := errors.AsType[*audit.Fault](err)
		switch {
		case isFault:
			is.State, is.Why, is.Seq = "broken", err.Error(), changed.Seq
		case err != nil:
			is.State, is.Why = "unknown", err.Error()
		}
		is.Checked, is.Last = time.Now(), report.Last
		h.mu.Lock()
		h.is = is
		h.mu.Unlock()
	}
}

// Bounds of a tail.
const (
	mostTail    = 2000 // number of records that are read at a time
	mostTenants = 2000
)

// tail keeps the number of the newest record of each tenant. It is safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	last uint64            // guarded by mu: number of the newest record that was seen
	of   map[string]uint64 // guarded by mu: number by tenant; an empty name is the server
}

// newest returns the number of the newest record of each tenant that had a record since the
// first call or shortly before it.
func (t *tail) newest(ctx context.Context, dir string) map[string]uint64 {
	t.mu.Lock()
	last := t.last
	t.mu.Unlock()
	fresh := make(map[string]uint64)
	read, newest := 0, last
	_, _, _ = audit.ReadBack(ctx, dir, audit.Cursor{}, audit.Search{}, func(e audit.Entry, _ audit.Cursor) bool {
		newest = max(newest, e.Seq)
		if e.Seq <= last {
			return false
		}
		fresh[e.Tenant] = max(fresh[e.Tenant], e.Seq)
		read++
		return read < mostTail
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil || len(t.of)+len(fresh) > mostTenants {
		t.of = make(map[string]uint64)
	}
	if last > 0 && read == mostTail { // each tenant may have records among those that were not read
		for tenant := range t.of {
			t.of[tenant] = newest
		}
	}
	for tenant, seq := range fresh {
		t.of[tenant] = max(t.of[tenant], seq)
	}
	t.last = max(t.last, newest)
	return maps.Clone(t.of)
}
