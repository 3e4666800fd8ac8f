package fleet

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
)

// askPath is the prefix of the paths of a front's own requests, which do not come from a
// client.
const askPath = "/link/ask"

// ErrNotLinked is the error for a request to a worker that is not linked, or that accepts
// no further requests. The request was not sent.
var ErrNotLinked = errors.New("it is not linked, or accepts no more requests")

// Asker sends a front's own requests to workers.
type Asker struct{ roster *roster }

// AskerOf returns the Asker of a front.
func AskerOf(f *Front) Asker { return Asker{f.roster} }

// Ask sends a request of the front itself to a worker. The worker's handler
// WorkerConfig.Asked answers it; without this handler the status is 404. The caller closes
// the body of the answer.
func (a Asker) Ask(r *http.Request, worker string) (*http.Response, error) {
	l := a.roster.named(worker)
	if l == nil || l.client.Available() == 0 {
		return nil, fmt.Errorf("ask worker %.63s: %w", worker, ErrNotLinked)
	}
	out := r.Clone(r.Context())
	path := askPath + r.URL.EscapedPath()
	to, err := url.Parse("http://worker" + path)
	if err != nil {
		return nil, fmt.Errorf("ask worker %s: %w", worker, err)
	}
	to.RawQuery = r.URL.RawQuery
	out.URL, out.Host, out.RequestURI = to, "", ""
	l.running.Add(1)
	defer l.running.Add(-1)
	res, err := l.client.RoundTrip(out)
	if err != nil {
		return nil, fmt.Errorf("ask worker %s: %w", worker, err)
	}
	return res, nil
}

// Linked returns the names of the workers that are linked, in order.
func (a Asker) Linked() []string {
	a.roster.mu.Lock()
	defer a.roster.mu.Unlock()
	return slices.Sorted(maps.Keys(a.roster.links))
}
