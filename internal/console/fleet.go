package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"belljar.dev/internal/jsonlist"
	"belljar.dev/policies/audit"
)

// Bounds of requests to the workers of a fleet.
const (
	askMost      = 5 * time.Second // time for a worker's answer; a slower worker is left out, and the page says so
	askAtOnce    = 16              // number of workers that are asked at the same time
	maxTogether  = 3 << 20         // bytes of the answers of all workers to one request
	mostAnswers  = 200             // number of approvals or questions in one list
	mostMissing  = 20              // number of workers that are named as missing
	mostThings   = 1000            // elements of one worker's list; a worker with more is named as missing
	mostChanging = 10_000          // elements of the list from which events are made
	maxThing     = 1 << 20         // bytes of one element of a list
	mostMembers  = 100             // members of one element of a list
)

// missingHeader is the header that names the workers whose data are missing in an answer.
const missingHeader = "Belljar-Missing"

// Fleet gives access to the workers whose parts a console shows as one.
type Fleet interface {
	// Linked returns the names of the linked workers, in order.
	Linked() []string
	// Workers returns the workers as they are shown to people.
	Workers() []Worker
	// Ask sends a request to the part of a worker. The caller closes the body of the
	// answer.
	Ask(r *http.Request, worker string) (*http.Response, error)
}

// Worker is a worker of a fleet.
type Worker struct {
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Since   time.Time `json:"since"` // when the worker was linked
	Places  int       `json:"places"`
	Running int64     `json:"running"` // number of requests of clients that run
	State   string    `json:"state"`   // ready, draining, or late (the clock is wrong)
}

// said is the answer of a worker.
type said struct {
	worker string
	body   []byte
}

// each sends a request for a path to all workers that query wants, and returns their
// answers in the order of their names. The header of the answer to the person names the
// workers that are missing.
func (r *request) each(path string, query func(worker string) (string, bool)) []said {
	ctx, cancel := context.WithTimeout(r.context(), askMost)
	defer cancel()
	var mu sync.Mutex
	linked := r.views.Fleet.Linked()
	all, missing := make([]said, len(linked)), make([]bool, len(linked))
	together := 0
	var asking sync.WaitGroup
	turn := make(chan struct{}, askAtOnce)
	for i, worker := range linked {
		text, wanted := query(worker)
		if !wanted {
			continue
		}
		turn <- struct{}{}
		asking.Go(func() {
			defer func() { <-turn }()
			status, body, err := r.ask(ctx, worker, http.MethodGet, path+text, nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || status != http.StatusOK || together+len(body) > maxTogether {
				missing[i] = true
				return
			}
			together += len(body)
			all[i] = said{worker, body}
		})
	}
	asking.Wait()
	answers := all[:0]
	for i, is := range all {
		switch {
		case missing[i]:
			r.missing(linked[i])
		case is.worker != "":
			answers = append(answers, is)
		}
	}
	return answers
}

// missing adds a worker to the header that names the missing workers.
func (r *request) missing(worker string) {
	if h := r.w.Header(); len(h[missingHeader]) < mostMissing {
		h.Add(missingHeader, worker)
	}
}

// ask sends a request to one worker, and reads the answer.
func (r *request) ask(ctx context.Context, worker, method, path string, body []byte) (status int, text []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://worker/"+api+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, &Error{http.StatusNotFound, err}
	}
	pass(req.Header, r.who)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := r.views.Fleet.Ask(req, worker)
	if err != nil {
		return 0, nil, &Error{http.StatusBadGateway, err}
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+2)) //nolint:forbidigo // the reader has a bound
	switch {
	case err != nil:
		return 0, nil, fault(http.StatusBadGateway, "read the answer of worker %s: %w", worker, err)
	case len(text) > maxAnswer+1:
		return 0, nil, fault(http.StatusBadGateway, "the answer of worker %s has more than %d bytes", worker, maxAnswer)
	case !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") || !json.Valid(text):
		return 0, nil, fault(http.StatusBadGateway, "worker %s shows nothing to the console of its front; start it with --console", worker)
	}
	return resp.StatusCode, text, nil
}

// same returns a function that gives every worker the query of the request.
func (r *request) same() func(string) (string, bool) {
	text := ""
	if r.in.URL.RawQuery != "" {
		text = "?" + r.in.URL.RawQuery
	}
	return func(string) (string, bool) { return text, true }
}

// thingOf is an object of a worker, with the worker's name as a further member.
type thingOf map[string]json.RawMessage

// UnmarshalJSON reads an object with at most mostMembers members.
func (t *thingOf) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return errors.New("it is not an object")
	}
	*t = make(thingOf)
	for n := 0; d.More(); n++ {
		if n == mostMembers {
			return fmt.Errorf("it has more than %d members", mostMembers)
		}
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		key, _ := name.(string) // the decoder returns the name of a member always as a string
		(*t)[key] = value
	}
	return nil
}

// listOf is a list of one worker, or the first mostThings elements of it.
type listOf[T any] []T

// UnmarshalJSON reads the list. A null is not an element of it.
func (t *listOf[T]) UnmarshalJSON(text []byte) error {
	*t = listOf[T]{}
	err := jsonlist.Each(bytes.NewReader(text), jsonlist.Bounds{Elements: mostThings, Bytes: maxThing}, func(text json.RawMessage) error {
		var one T
		if err := json.Unmarshal(text, &one); err != nil {
			return err
		}
		if string(text) == "null" {
			return errors.New("null is not an entry")
		}
		*t = append(*t, one)
		return nil
	})
	if errors.Is(err, jsonlist.ErrFull) {
		return nil
	}
	return err
}

// full reports whether the worker may have more elements.
func (t listOf[T]) full() bool { return len(t) == mostThings }

// of sets the member worker, whatever the worker says itself.
func (t thingOf) of(worker string) thingOf {
	t["worker"], _ = json.Marshal(worker) // every string can be written as JSON
	return t
}

// text returns a member that is a string; empty for any other member.
func (t thingOf) text(name string) (text string) {
	_ = json.Unmarshal(t[name], &text) // any other member stays empty
	return text
}

// when returns a member that is a time.
func (t thingOf) when(name string) (at time.Time) {
	_ = json.Unmarshal(t[name], &at)
	return at
}

// newestFirst sorts by the time in a member, the newest first.
func newestFirst(all []thingOf, name string) {
	sort.SliceStable(all, func(i, j int) bool { return all[i].when(name).After(all[j].when(name)) })
}

// fleetList returns the lists of all workers as one list.
func fleetList(r *request) (any, error) { return r.joined(), nil }

// joined returns the lists of all workers as one list, worker by worker.
func (r *request) joined() []thingOf {
	all := []thingOf{}
	for _, is := range r.each(r.path, r.same()) {
		var some listOf[thingOf]
		if json.Unmarshal(is.body, &some) != nil {
			r.missing(is.worker)
			continue
		}
		if some.full() {
			r.missing(is.worker)
		}
		for _, t := range some {
			all = append(all, t.of(is.worker))
		}
	}
	return all
}

// fleetAnswers returns a list of approvals or questions, the newest first. Each worker
// sends its newest ones, so the newest of all workers are among them.
func fleetAnswers(r *request) (any, error) {
	all := r.joined()
	newestFirst(all, "created")
	return all[:min(len(all), mostAnswers)], nil
}

// fleetInbox returns what waits at all workers, the newest first.
func fleetInbox(r *request) (any, error) {
	var in struct {
		Approvals listOf[thingOf] `json:"approvals"`
		Questions listOf[thingOf] `json:"questions"`
		Pins      listOf[thingOf] `json:"pins"`
		More      int             `json:"more,omitempty"`
	}
	sum := in
	for _, is := range r.each("inbox", r.same()) {
		in.Approvals, in.Questions, in.Pins, in.More = nil, nil, nil, 0
		if json.Unmarshal(is.body, &in) != nil {
			r.missing(is.worker)
			continue
		}
		if in.Approvals.full() || in.Questions.full() || in.Pins.full() {
			r.missing(is.worker)
		}
		for _, k := range []struct{ to, from *listOf[thingOf] }{{&sum.Approvals, &in.Approvals}, {&sum.Questions, &in.Questions}, {&sum.Pins, &in.Pins}} {
			for _, t := range *k.from {
				*k.to = append(*k.to, t.of(is.worker))
			}
		}
		sum.More += max(0, in.More)
	}
	for _, list := range []*listOf[thingOf]{&sum.Approvals, &sum.Questions, &sum.Pins} {
		newestFirst(*list, "created")
		n := min(len(*list), maxInbox)
		sum.More += len(*list) - n
		*list = append(listOf[thingOf]{}, (*list)[:n]...)
	}
	return sum, nil
}

// listWorkers returns the workers.
func listWorkers(r *request) (any, error) { return r.views.Fleet.Workers(), nil }

// askWorker serves any route of one worker, as a console of the worker would. The worker
// checks the role for that route, and the route of askWorker itself lets no person change
// anything who may only read.
func askWorker(r *request) (any, error) {
	worker := r.named("worker")
	if !slices.Contains(r.views.Fleet.Linked(), worker) {
		return nil, fault(http.StatusNotFound, "no worker %.63q is linked", worker)
	}
	_, path, _ := strings.Cut(r.in.URL.EscapedPath(), "/"+api+"workers/")
	_, path, _ = strings.Cut(path, "/")
	if r.in.URL.RawQuery != "" {
		path += "?" + r.in.URL.RawQuery
	}
	var body []byte
	if r.in.Method == http.MethodPost {
		var is json.RawMessage
		if err := r.read(&is); err != nil {
			return nil, err
		}
		body = is
	}
	ctx, cancel := context.WithTimeout(r.context(), compareMost)
	defer cancel()
	status, text, err := r.ask(ctx, worker, r.in.Method, path, body)
	if err != nil {
		return nil, err
	}
	if r.in.Method == http.MethodPost {
		r.console.look()
	}
	respond(r.w, status, json.RawMessage(text))
	return nil, errAnswered
}

// places is the state of a search in the logs of all workers: for each worker whose log has
// further records, the cursor at which the search continues.
type places map[string]string

// String returns p in the form of a query.
func (p places) String() string {
	q := url.Values{}
	for worker, cursor := range p {
		q.Set(worker, cursor)
	}
	return q.Encode()
}

// parsePlaces parses the result of places.String.
func parsePlaces(text string) (places, error) {
	q, err := url.ParseQuery(text)
	if err != nil {
		return nil, fault(http.StatusBadRequest, "before=%.40q: want the value of next in an earlier answer", text)
	}
	p := make(places)
	for worker := range q {
		if _, err := audit.ParseCursor(q.Get(worker)); err != nil {
			return nil, fault(http.StatusBadRequest, "before=%.40q: %w", text, err)
		}
		p[worker] = q.Get(worker)
	}
	return p, nil
}

// fleetRecords lists records of the logs of all workers, the newest first.
func fleetRecords(r *request) (any, error) {
	most, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	q := r.in.URL.Query()
	var before places
	if text := q.Get("before"); text != "" {
		if before, err = parsePlaces(text); err != nil {
			return nil, err
		}
	}
	answers := r.each("audit", func(worker string) (string, bool) {
		if before != nil {
			if before[worker] == "" {
				return "", false // the worker has no more records, or was not linked at the first page
			}
			q.Set("before", before[worker])
		}
		return "?" + q.Encode(), true
	})
	out := struct {
		Records []thingOf `json:"records"`
		Next    string    `json:"next"`
		More    bool      `json:"more,omitempty"`
		Chain   chainIs   `json:"chain"`
	}{Records: []thingOf{}, Chain: chainIs{State: "ok"}}
	next := make(places)
	maps.Copy(next, before) // also the cursors of workers that do not answer now
	var logs []*logOf
	for _, is := range answers {
		one := &logOf{worker: is.worker}
		if json.Unmarshal(is.body, &one.page) != nil {
			r.missing(is.worker)
			continue
		}
		if one.page.Records.full() {
			r.missing(is.worker)
		}
		logs = append(logs, one)
		out.More = out.More || one.page.More
		out.Chain = out.Chain.with(is.worker, one.page.Chain)
	}
	for _, worker := range r.w.Header()[missingHeader] {
		out.Chain = out.Chain.with(worker, chainIs{State: "unknown", Why: "it does not answer"})
	}
	out.Records = merged(logs, most)
	for _, l := range logs {
		switch left := l.page.Records[l.taken:]; {
		case len(left) == 0 && l.page.Next == "":
			delete(next, l.worker)
		case len(left) == 0:
			next[l.worker] = l.page.Next
		case l.taken > 0: // the next page begins after the last record that is shown
			next[l.worker] = l.page.Records[l.taken-1].text("cursor")
		case before == nil:
			next[l.worker] = fromNewest
		}
	}
	out.Next = next.String()
	return out, nil
}

// logOf is a page of the log of a worker. taken is the number of its records that are used.
type logOf struct {
	worker string
	taken  int
	page   struct {
		Records listOf[thingOf] `json:"records"`
		Next    string          `json:"next"`
		More    bool            `json:"more"`
		Chain   chainIs         `json:"chain"`
	}
}

// merged returns the records of all logs. It always takes the newest of the records that
// are next in their logs. The records of one log stay in order, although times in a log may
// go back.
func merged(logs []*logOf, most int) []thingOf {
	all := []thingOf{}
	for len(all) < most {
		var from *logOf
		for _, l := range logs {
			if l.taken < len(l.page.Records) && (from == nil || l.page.Records[l.taken].when("time").After(from.page.Records[from.taken].when("time"))) {
				from = l
			}
		}
		if from == nil {
			break
		}
		all = append(all, from.page.Records[from.taken].of(from.worker))
		from.taken++
	}
	return all
}

// fromNewest is the cursor of a log whose records were not shown yet.
const fromNewest = "9223372036854775807-0"

// with returns the worse of two results of verification. worker is the worker that reports
// other.
func (c chainIs) with(worker string, other chainIs) chainIs {
	other.Why, other.Last = worker+": "+other.Why, 0
	switch {
	case other.State == "broken" && c.State != "broken":
		return other
	case other.State != "ok" && c.State == "ok": // any other word of a worker counts as unknown
		other.State = "unknown"
		return other
	}
	return c
}

// fleetThings calls note with digests of what can change at the workers.
func fleetThings(ctx context.Context, views *Views, note func(thing, any)) {
	in := (&http.Request{Header: http.Header{}, URL: &url.URL{}}).WithContext(ctx)
	r := &request{in: in, w: headerOnly{}, views: views, who: Person{Name: "the console", Role: Viewer, Scope: Everything()}}
	linked := r.views.Fleet.Linked()
	note(thing{kind: "worker"}, linked)
	for _, is := range r.each("things", r.same()) {
		// An element that cannot be read is left out. When a page requests the list, the
		// answer names the worker as missing.
		_ = jsonlist.Each(bytes.NewReader(is.body), jsonlist.Bounds{Elements: mostChanging, Bytes: maxThing}, func(text json.RawMessage) error {
			var t changing
			err := json.Unmarshal(text, &t)
			if err == nil {
				note(thing{t.Kind, is.worker + " " + t.ID, t.Tenant}, t.Sum)
			}
			return err
		})
	}
}

// headerOnly is the writer for an answer that is not sent.
type headerOnly struct{ http.ResponseWriter }

// Header returns an empty header.
func (headerOnly) Header() http.Header { return http.Header{} }
