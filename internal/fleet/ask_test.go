package fleet

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// The front's own requests to a worker go to another handler than the requests of its
// clients. No client reaches that handler, whatever its path is.
func TestAsk(t *testing.T) {
	r := newRig(t, nil)
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"), "old", "link")
	m := r.worker("w2", r.cert("w2", WorkerDNS("w2")), echo("w2"))
	m.cfg.Asked = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "asked %s", r.URL) })
	asker := AskerOf(r.front)
	if got := strings.Join(asker.Linked(), " "); got != "w1 w2" {
		t.Errorf("linked: %s", got)
	}
	ask := func(worker, path string) (int, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := asker.Ask(req, worker)
		if err != nil {
			return 0, "", err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		return res.StatusCode, string(text), err
	}
	for path, want := range map[string]string{"/a/b%2Fc?d=e": "asked /a/b%2Fc?d=e", "/link/state": "asked /link/state"} {
		if status, text, err := ask("w2", path); status != http.StatusOK || text != want || err != nil {
			t.Errorf("%s: %d %q %v", path, status, text, err)
		}
	}
	if status, text, err := ask("w1", "/a"); status != http.StatusNotFound || err != nil {
		t.Errorf("a worker that answers nothing of it: %d %q %v", status, text, err)
	}
	if _, _, err := ask("w3", "/a"); !errors.Is(err, ErrNotLinked) {
		t.Errorf("a worker that is not linked: %v", err)
	}
	// The name of this client's place is the same as the path.
	m.mu.Lock()
	m.places["link"] = true
	m.mu.Unlock()
	w := r.front.roster.named("w1")
	w.Close()
	r.until("the end of w1's link", func() bool { return r.front.roster.named("w1") != w })
	m.Changed()
	res, err := http.Get(r.http.URL + "/link/ask/secret")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); strings.Contains(string(text), "asked") {
		t.Errorf("a client gets %d %s", res.StatusCode, text)
	}
}
