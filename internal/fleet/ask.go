package fleet

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
)

// askPath is what the paths begin with that a front asks for itself, and not for a client.
const askPath = "/link/ask"

// ErrNotLinked is the error of a request to a worker that is not linked, or that has as many
// requests as it takes. Nothing was sent.
var ErrNotLinked = errors.New("it is not linked, or takes no more requests")

// Asker sends workers requests of a front itself.
type Asker struct{ roster *roster }

// AskerOf returns the Asker of a front.
func AskerOf(f *Front) Asker { return Asker{f.roster} }

// Ask sends a worker a request of the front itself. The handler WorkerConfig.Asked of the worker
// answers it, or the status is 404. The caller closes the body of the answer.
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

// Linked are the names of the workers that are linked, in order.
func (a Asker) Linked() []string {
	a.roster.mu.Lock()
	defer a.roster.mu.Unlock()
	return slices.Sorted(maps.Keys(a.roster.links))
}
