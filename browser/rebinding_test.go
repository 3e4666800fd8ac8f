package browser_test

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/policies"
)

// rebindings are ways in which the DNS answers about one name lead from a public address,
// at which no server listens or listens any more, to another address.
var rebindings = []struct {
	name  string
	turns func(public, other string) []string
	own   bool // whether the page is at that name as well; its server then ends after it has sent the page
}{
	{"changes after the page", func(public, other string) []string { return []string{public, other} }, true},
	{"changes with every question", func(public, other string) []string {
		return []string{public, other, public, other, public, other, public, other}
	}, true},
	{"several addresses, the other last", func(public, other string) []string { return []string{public + " " + other} }, false},
	{"several addresses, the other first", func(public, other string) []string { return []string{other + " " + public} }, false},
	{"both families", func(public, other string) []string {
		if strings.HasPrefix(other, "10.") {
			other += " ::1"
		}
		return []string{public + " " + other}
	}, false},
	{"an alias", func(_, other string) []string {
		return []string{"cname:" + strings.ReplaceAll(other, ".", "-") + ".alias"}
	}, false},
}

// asking are the ways in which a page requests the name until it gets an answer.
var asking = []struct{ name, html string }{
	{"page", ""},
	{"redirect", ""},
	{"subresource", inline(`const again = () => { const i = new Image(); i.onerror = () => setTimeout(again, 30); i.src = "{URL}?" + Math.random() }; again()`)},
	{"XHR after load", inline(`const again = () => fetch("{URL}?" + Math.random(), {mode: "no-cors"}).then(r => r.ok || setTimeout(again, 30), () => setTimeout(again, 30)); onload = again`)},
	{"web socket", inline(`const again = () => { const s = new WebSocket("ws://{HOST}/hit/"); s.onclose = () => setTimeout(again, 30) }; onload = again`)},
}

// TestRebinding checks that a name is judged by the address that is dialled, at each dial:
// not by an earlier answer, and not by another of its addresses.
func TestRebinding(t *testing.T) {
	if !inWorld(t) {
		return
	}
	w := newWorld(t, browser.Config{Slots: 3})
	g := w.grant("t", "")
	type one struct{ how, what int }
	work := make(chan one, len(rebindings)*len(asking))
	for i := range rebindings {
		for j := range asking {
			work <- one{i, j}
		}
	}
	close(work)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for o := range work {
				n := o.how*len(asking) + o.what
				name := rebindings[o.how].name + ", " + asking[o.what].name
				allowed, private := 0, number("10.11.0.0", n+1)
				for wait := 400 * time.Millisecond; allowed == 0 && wait < 30*time.Second; wait *= 4 {
					allowed = w.rebind(g, fmt.Sprintf("c%d", n), o.how, o.what, number("93.187.0.0", n+1), wait)
				}
				hits := 0
				for wait := 800 * time.Millisecond; w.dns.answers(private) == 0 && wait < 10*time.Second; wait *= 2 {
					hits += w.rebind(g, fmt.Sprintf("a%d", n), o.how, o.what, private, wait)
				}
				hits += len(w.at(netip.IPv6Loopback()))
				if w.dns.answers(private) == 0 {
					t.Errorf("%s: the door never heard of the private address, so this shows nothing", name)
				}
				if allowed == 0 {
					t.Errorf("%s: it reaches nothing where it may, so it shows nothing", name)
				}
				if hits > 0 {
					t.Errorf("%s reached a private address", name)
				}
				t.Logf("%-52s control hits: %2d  private hits: %d", name, allowed, hits)
			}
		})
	}
	wg.Wait()
}

// rebind tries one way to an address, and returns how often the address was reached.
func (w *world) rebind(g policies.Grant, id string, how, what int, other netip.Addr, wait time.Duration) int {
	id = fmt.Sprintf("%s-%d", id, wait.Milliseconds())
	host, page := "r"+id+".example:8080", "q"+id+".example"
	public := netip.AddrFrom4([4]byte{93, 186, byte(how + 1), byte(len(w.at(other)) + what + 1)})
	w.dns.set(strings.TrimSuffix(host, ":8080"), rebindings[how].turns(public.String(), other.String())...)
	w.dns.set(strings.ReplaceAll(other.String(), ".", "-")+".alias", other.String())
	w.dns.set(page, "93.185.1.1")
	fill := strings.NewReplacer("{URL}", "http://"+host+"/hit/", "{HOST}", host)
	stop := w.serve(netip.AddrPortFrom(other, 8080).String())
	defer stop()
	html := "<!doctype html><p>x" + fill.Replace(asking[what].html)
	var tries []string
	switch {
	case rebindings[how].own:
		tries = append(tries, "http://"+host+"/p/")
		gone := w.serve(netip.AddrPortFrom(public, 8080).String())
		defer gone()
		w.pageThen(strings.TrimSuffix(host, ":8080")+"/p/", html, gone)
	case asking[what].html != "":
		tries = append(tries, "http://"+page+"/p/")
		w.page(page+"/p/", html)
	}
	w.redirect(page+"/to/", "http://"+host+"/hit/")
	switch asking[what].name {
	case "page":
		tries = append(tries, "http://"+host+"/hit/", "http://"+host+"/hit/?2")
	case "redirect":
		tries = append(tries, "http://"+page+"/to/", "http://"+page+"/to/?2")
	}
	for _, url := range tries {
		_, _ = w.load(g, browser.Request{URL: url, Wait: wait})
	}
	return len(w.at(other))
}
