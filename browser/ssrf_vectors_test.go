package browser_test

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
)

// target is what a vector is aimed at: a host, the address at which hits are counted, and
// the host of the page with the vector.
type target struct {
	host string
	addr netip.Addr
	page string
}

// undoneMost is how many vectors may be missing in a version of Chromium other than the one
// that they were written for. If more are missing, the test is wrong.
const undoneMost = 6

// TestNoPrivateRequest checks that no private address gets a packet, whatever a page asks
// its browser for. The same request to a public address arrives there, or arrives in a run
// without walls: a vector that never works shows nothing. A run without walls shows whether
// this version of Chromium supports the vector at all: version 148 does not prerender the
// pages that a page's rules name.
func TestNoPrivateRequest(t *testing.T) {
	testenv.Need(t, testenv.Tun)
	if !inWorld(t) {
		return
	}
	w := newWorld(t, browser.Config{Slots: 3})
	if err := addInterface(t); err != nil {
		t.Fatal(err)
	}
	plain, opened := w.grant("t", ""), w.grant("s", intercepted)
	rows, undone := make([]string, len(vectors)), make([]bool, len(vectors))
	work := make(chan int, len(vectors))
	for i := range vectors {
		work <- i
	}
	close(work)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for i := range work {
				g := plain
				if vectors[i].secure {
					g = opened
				}
				rows[i], undone[i] = w.attack(i, vectors[i], g)
			}
		})
	}
	wg.Wait()
	for i, v := range vectors { // a request may come after its page was closed
		for _, addr := range []netip.Addr{privateOf(i), namedOf(i)} {
			if got := w.at(addr); len(got) > 0 {
				t.Errorf("at the end, %s has reached %s: %q", v.name, addr, got)
			}
		}
	}
	t.Logf("%d ways:\n%s", len(vectors), strings.Join(rows, "\n"))
	var lacks []string
	for i, v := range vectors {
		if undone[i] {
			lacks = append(lacks, v.name)
		}
	}
	major := w.pool.Major()
	switch what := fmt.Sprintf("not done by Chromium %d, nor without walls: %d (%s)", major, len(lacks), strings.Join(lacks, ", ")); {
	case len(lacks) == 0:
	case major == browser.NewestTried:
		t.Errorf("%s; they were written with this version, so they show nothing", what)
	case len(lacks) > undoneMost:
		t.Errorf("%s; at most %d may be", what, undoneMost)
	default:
		t.Log(what)
	}
}

// privateOf returns the private address at which vector i is aimed as an address, and namedOf
// the one at which it is aimed by a name.
func privateOf(i int) netip.Addr { return number("10.9.0.0", i+1) }
func namedOf(i int) netip.Addr   { return number("172.20.0.0", i+1) }

// attack tries one vector, and returns its line of the table; undone says that this version
// of Chromium does not support it.
func (w *world) attack(i int, v vector, g policies.Grant) (row string, undone bool) {
	public := target{fmt.Sprintf("v%d.example", i), number("93.184.0.0", 0x6400+i), fmt.Sprintf("s%d.example", i)}
	private := target{privateOf(i).String(), privateOf(i), fmt.Sprintf("t%d.example", i)}
	named := target{fmt.Sprintf("p%d.example", i), namedOf(i), fmt.Sprintf("u%d.example", i)}
	unwalled := target{fmt.Sprintf("b%d.example", i), number("10.7.0.0", i+1), number("10.8.0.0", i+1).String()}
	for j, at := range []target{public, private, named, unwalled} {
		w.dns.set(at.host, at.addr.String())
		w.dns.set(at.page, number("93.185.0.0", 4*i+j).String())
		w.plant(v, at, at.page+"/p/")
	}
	// A vector that works in a frame is tried at both private targets by one page with two
	// frames, which saves a load.
	path, aimed := "/p/", []string{private.page + "/p/", named.page + "/p/"}
	if v.framed() {
		path, aimed = "/f/", []string{private.page + "/f/"}
		w.plant(v, named, private.page+"/q/")
		w.page(private.page+path, `<!doctype html><iframe src="/p/"></iframe><iframe src="/q/"></iframe>`)
		for _, at := range []target{public, unwalled} {
			w.page(at.page+path, `<!doctype html><iframe src="/p/"></iframe>`)
		}
	}
	scheme := "http://"
	if v.secure {
		scheme = "https://"
	}
	row = fmt.Sprintf("%-28s %-26s ", v.kind, v.name)
	wait, hit := 100*time.Millisecond, false
	for !v.bare && !v.never && !hit && wait < time.Second {
		wait *= 3
		_, err := w.load(g, browser.Request{URL: scheme + public.page + path, Wait: wait})
		hit = len(w.at(public.addr)) > 0
		if err != nil && !hit {
			w.t.Logf("%s, control: %v", v.name, err)
		}
	}
	switch {
	case v.never:
		row += "control: never does it   "
		wait = 300 * time.Millisecond
	case hit:
		row += "control: through the door"
		wait *= 3 // on a busy machine, a request may come later than that of the control
	case w.bare(scheme+unwalled.page+path, func() bool {
		return len(w.at(unwalled.addr)) > 0 && !v.dns || v.dns && w.dns.questions(unwalled.host) > 0
	}, v.flags...):
		row += "control: without walls   "
		wait = 600 * time.Millisecond
	default:
		undone, wait = true, 600*time.Millisecond
		row += "control: not done by it  "
	}
	hits := 0
	for _, at := range aimed {
		_, err := w.load(g, browser.Request{URL: scheme + at, Wait: wait})
		if browser.KindOf(err) == browser.KindTimedOut { // a page that was not there has requested nothing
			_, _ = w.load(g, browser.Request{URL: scheme + at, Wait: wait})
		}
	}
	for _, at := range []target{private, named} {
		if got := w.at(at.addr); len(got) > 0 {
			w.t.Errorf("%s reached %s: %q", v.name, at.host, got)
			hits += len(got)
		}
		if n := w.dns.questions(at.host); v.dns && n > 0 {
			w.t.Errorf("%s had %s looked up", v.name, at.host)
			hits += n
		}
	}
	return row + fmt.Sprintf("  private hits: %d", hits), undone
}

// plant serves the page of a vector at a host and a path.
func (w *world) plant(v vector, at target, page string) {
	url, ws := "http://"+at.host+"/hit/", "ws"
	if v.secure {
		url, ws = "https://"+at.host+"/hit/", "wss"
	}
	fill := strings.NewReplacer("{URL}", url, "{HOST}", at.host, "{WS}", ws)
	var headers []string
	for _, h := range v.headers {
		headers = append(headers, fill.Replace(h))
	}
	w.page(page, "<!doctype html><title>t</title>"+fill.Replace(v.html), headers...)
	for name, text := range v.files {
		w.file(page+name, "text/javascript", fill.Replace(text))
	}
}
