package reader_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"belljar.dev/browser/fetch"
	"belljar.dev/browser/reader"
	"belljar.dev/internal/golden"
)

// summary returns a result in words; of long content only the beginning and the end.
func summary(res *reader.Result, err error) string {
	if e, ok := errors.AsType[*fetch.Error](err); ok {
		return fmt.Sprintf("REFUSED (%v): %s; instead: %s\n", e.Kind, e.Message, e.Instead)
	}
	if err != nil {
		return "ERROR: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, r := range res.Redirects {
		fmt.Fprintf(&b, "redirected (%d) to %s\n", r.Status, r.To)
	}
	if res.Stop != nil {
		return b.String() + "STOP: " + res.Stop.To + ": " + res.Stop.Why + "\n"
	}
	if res.Image != nil {
		return b.String() + fmt.Sprintf("IMAGE %s of %d bytes\n", res.Type, len(res.Image))
	}
	p := res.Page
	if res.Status != http.StatusOK {
		fmt.Fprintf(&b, "answered %d\n", res.Status)
	}
	fmt.Fprintf(&b, "%s %s by %s, rendered %s (%s), %d characters", p.Kind, p.Format, p.Extraction, res.Rendered, res.Why, len([]rune(p.Content)))
	if p.Truncated {
		b.WriteString(", truncated")
	}
	if res.Partial != "" {
		b.WriteString(", partial: " + res.Partial)
	}
	b.WriteByte('\n')
	for _, n := range append(res.Notes, p.Notes...) {
		b.WriteString("note: " + n + "\n")
	}
	content := []rune(p.Content)
	const most = 4000
	if len(content) > most {
		return b.String() + "\n" + string(content[:most/2]) + "\n[...]\n" + string(content[len(content)-most/2:])
	}
	return b.String() + "\n" + string(content)
}

// TestGoldenSites checks that each of these pages becomes the markdown of its golden file,
// or the refusal in it.
func TestGoldenSites(t *testing.T) {
	r := newRig(t, false)
	all := sites(t)
	at := func(w http.ResponseWriter, req *http.Request) {
		if h := all[strings.TrimPrefix(req.URL.Path, "/")]; h != nil {
			h(w, req)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}
	r.Serve(t, "site.example", http.HandlerFunc(at))
	soon := time.Now().Add(time.Hour)
	r.ServeTLS(t, "tls.example", all["next"], nil, soon)
	r.ServeTLS(t, "wrong-name.example", all["next"], []string{"other.example"}, soon)
	r.ServeTLS(t, "expired.example", all["next"], nil, time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))
	r.ServeSelfSigned(t, "self-signed.example", all["next"])
	g := r.grant(t, "")
	check := func(name, url string) {
		t.Run(name, func(t *testing.T) {
			q := reader.Query{URL: url}
			if name == "slow" || name == "stream" {
				q.Timeout = 600 * time.Millisecond
			}
			golden.Equal(t, name+".golden", summary(r.r.Read(t.Context(), g, q)))
		})
	}
	for name := range all {
		check(name, "http://site.example/"+name)
	}
	for _, name := range []string{"tls", "wrong-name", "expired", "self-signed"} {
		check(name, "https://"+name+".example/")
	}
}
