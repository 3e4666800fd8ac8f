package browser

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/cdproto/target"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

const (
	startPatience = 20 * time.Second // time for Chrome's first answer
	// time for Chrome to exit after its pipe has ended, so that its last output can be read
	deathPatience = 3 * time.Second
	closePatience = time.Second // time to dispose of a browser context
	// beat is how often a Chrome that loads pages is asked whether it is alive.
	// beatPatience is how long its answer may take: it shares its CPUs with its pages.
	beat         = time.Second
	beatPatience = 5 * time.Second
	maxErrands   = 256 // queued commands of one Chrome that nobody waits for
)

// chrome is one Chrome in its box.
type chrome struct {
	grant    policies.Grant // grant of its box
	box      *sandbox.Box
	job      *sandbox.Job
	conn     *conn
	version  string
	degraded bool // whether it runs without its own sandbox, because namespaces do not nest in its box
	started  time.Time
	errands  chan func() // functions that send commands whose answers nobody waits for
	wg       sync.WaitGroup
	closing  sync.Once
	gone     chan struct{} // closed when its box is closed and its goroutines have ended

	mu   sync.Mutex
	tabs map[string]*tab // tabs by their frames

	lending // guarded by the pool's mu
}

// lending is what the pool knows about a Chrome whose pages it lends.
type lending struct {
	key     string
	live    int // number of pages that are lent now
	pages   int // number of pages that were lent since its start
	ready   []*tab
	retired bool          // whether it gets no more pages
	used    time.Time     // time when a page was last returned, or when the pool got the Chrome
	stay    time.Time     // time until which the pool does not replace it
	poke    chan struct{} // wakes attend: a page was returned, or more pages are needed; buffered
}

// startChrome starts a Chrome in a box of its own. The caller must close it.
func startChrome(ctx context.Context, s *sandbox.Supervisor, id, program string, g policies.Grant) (_ *chrome, err error) {
	box, err := s.Open(ctx, id, g)
	if err != nil {
		return nil, err
	}
	ch := &chrome{
		grant: g, box: box, degraded: !g.NestsNamespaces(), started: time.Now(), errands: make(chan func(), maxErrands),
		gone: make(chan struct{}), lending: lending{poke: make(chan struct{}, 1)}, tabs: map[string]*tab{},
	}
	toChrome, in, err := os.Pipe()
	if err != nil {
		_ = box.Close()
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	out, fromChrome, err := os.Pipe()
	if err != nil {
		toChrome.Close()
		in.Close()
		_ = box.Close()
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	ch.job, err = box.Start(ctx, sandbox.Cmd{
		Grant: g, Argv: append([]string{program}, flags(ch.degraded, box.Pin())...), Dir: "/tmp", Background: true,
		Timeout: g.Limits().Background, Files: []*os.File{toChrome, fromChrome},
		Env: map[string]string{"LANG": "en_US.UTF-8", "DBUS_SESSION_BUS_ADDRESS": "disabled:"},
	})
	toChrome.Close()
	fromChrome.Close()
	ch.conn = newConn(out, in)
	if err != nil {
		ch.conn.close()
		_ = box.Close()
		return nil, err
	}
	ch.conn.listen("", ch.hear)
	ch.wg.Go(ch.conn.serve)
	ch.wg.Go(ch.run)
	ch.wg.Go(func() {
		select {
		case <-ch.job.Done(): // Chrome no longer has the other end of the pipe
			ch.conn.close()
		case <-ch.conn.done:
		}
	})
	if err := ch.greet(ctx); err != nil {
		err = startFault(err, lastWords(ch.job))
		ch.close()
		return nil, err
	}
	return ch, nil
}

// greet waits until Chrome answers, and reads its version.
func (ch *chrome) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	v, err := call(ctx, ch.conn, "", browser.GetVersion, cdp.Empty{})
	if err != nil {
		return fmt.Errorf("start Chrome: %w", err)
	}
	ch.version = v.Product
	if _, err := tried(v.Product); err != nil {
		return fmt.Errorf("start Chrome: %w", err)
	}
	return nil
}

// run runs the errands until the connection ends.
func (ch *chrome) run() {
	for {
		select {
		case f := <-ch.errands:
			f()
		case <-ch.conn.done:
			return
		}
	}
}

// errand queues a command whose answer nobody waits for. It drops the command if the
// queue is full.
func errand[P, R any](ch *chrome, session string, cmd cdp.Command[P, R], params P) {
	select {
	case ch.errands <- func() { begin(ch.conn, session, cmd, params) }:
	default:
	}
}

// hear handles the events of the browser itself.
func (ch *chrome) hear(method string, params []byte) {
	if method != browser.DownloadWillBegin.Method {
		return
	}
	var e downloadWillBegin
	if decode(params, &e) != nil {
		return
	}
	ch.mu.Lock()
	t := ch.tabs[e.FrameID]
	ch.mu.Unlock()
	if t != nil {
		t.downloads(e.URL, e.SuggestedFilename)
	}
}

// answers reports whether Chrome and its network service answer within beatPatience. An
// error of a Chrome that is still alive is an answer too.
func (ch *chrome) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, beatPatience)
	defer cancel()
	version := begin(ch.conn, "", browser.GetVersion, cdp.Empty{})
	// Cookies are kept by the process of the network service.
	cookies := begin(ch.conn, "", storage.GetCookies, storage.GetCookiesParams{})
	_, e1 := version.wait(ctx)
	_, e2 := cookies.wait(ctx)
	return e1 == nil && e2 == nil || ctx.Err() == nil && !ch.dead()
}

// kill closes the pipe. Commands that wait get errGone, and Chrome exits if it still reads the
// pipe. kill does not wait for that. The rest of Chrome ends with its box, in close.
func (ch *chrome) kill() { ch.conn.close() }

// dead reports whether the pipe or the box has ended.
func (ch *chrome) dead() bool {
	select {
	case <-ch.conn.done:
		return true
	case <-ch.box.Broken():
		return true
	default:
		return false
	}
}

// close ends Chrome and its box and waits for the goroutines. It may be called twice.
func (ch *chrome) close() {
	ch.closing.Do(func() {
		ch.conn.close()
		_ = ch.box.Close() // kills all processes in it
		ch.wg.Wait()
		close(ch.gone)
	})
	<-ch.gone
}

// dispose closes the browser context of a tab, with all of its pages, and reports whether
// Chrome did so in time.
func (ch *chrome) dispose(ctx context.Context, t *tab) bool {
	ch.mu.Lock()
	delete(ch.tabs, string(t.frame))
	ch.mu.Unlock()
	ch.conn.listen(t.session, nil)
	ctx, cancel := context.WithTimeout(ctx, closePatience)
	defer cancel()
	_, err := call(ctx, ch.conn, "", target.DisposeBrowserContext, target.DisposeBrowserContextParams{BrowserContextID: t.context})
	return err == nil
}
