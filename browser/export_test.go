package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
)

// Cut cuts the pipes of all Chromes that run.
func (p *Pool) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ch := range p.all {
		ch.conn.in.Close()
	}
}

// Tried says whether a version was tried, and NewestTried is the version that the tests
// were written with.
var Tried = tried

const NewestTried = newestTried

// Clip returns the text of a page in a form for notes and messages.
var Clip = clip

// Turns decides which calls may load a page.
type Turns struct{ q *turns }

// NewTurns returns Turns with this many slots, and queues of at most this many calls.
func NewTurns(slots, most int) Turns { return Turns{newTurns(slots, most)} }

// Take and Give are the methods of the pool.
func (t Turns) Take(ctx context.Context, tenant string) error { return t.q.take(ctx, tenant) }
func (t Turns) Give()                                         { t.q.give() }

// Major returns the major version of the Chromes that run, or 0.
func (p *Pool) Major() (major int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ch := range p.all {
		_, version, _ := strings.Cut(ch.version, "/")
		text, _, _ := strings.Cut(version, ".")
		major, _ = strconv.Atoi(text)
	}
	return major
}

// Closings returns a channel that delivers once for each page that Chrome closes from now
// on.
func (p *Pool) Closings() <-chan bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	closed := make(chan bool, 100)
	for ch := range p.all {
		ch.conn.listen("", func(method string, params []byte) {
			if method == target.TargetDestroyed.Method {
				closed <- true
			}
			ch.hear(method, params)
		})
		begin(ch.conn, "", target.SetDiscoverTargets, target.SetDiscoverTargetsParams{Discover: true, Filter: target.Filter{{Type: "page"}}})
	}
	return closed
}

// Bare is a Chrome without a box, without a door and without a sandbox of its own. It does
// what the pool makes a Chrome do.
type Bare struct {
	ch   *chrome
	cmd  *exec.Cmd
	next *tab
}

// StartBare starts a Bare that stores its files in dir. The caller must Close it.
func StartBare(ctx context.Context, program, dir string) (*Bare, error) {
	toChrome, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, fromChrome, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	args := slices.DeleteFunc(flags(true, ""), func(f string) bool { return strings.HasPrefix(f, "--proxy-") })
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "/tmp/", dir+"/")
	}
	b := &Bare{cmd: exec.CommandContext(ctx, program, args...)}
	b.cmd.ExtraFiles = []*os.File{toChrome, fromChrome}
	err = b.cmd.Start()
	toChrome.Close()
	fromChrome.Close()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	b.ch = &chrome{conn: newConn(out, in), errands: make(chan func(), maxErrands), tabs: map[string]*tab{}}
	b.ch.wg.Go(b.ch.conn.serve)
	b.ch.wg.Go(b.ch.run)
	return b, b.prepare(ctx)
}

func (b *Bare) prepare(ctx context.Context) (err error) {
	if b.next, err = newTab(ctx, b.ch); err == nil {
		err = b.next.warm(ctx)
	}
	return err
}

// Load loads a page, closes it, and makes the next page.
func (b *Bare) Load(ctx context.Context, r Request) (*Loaded, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	l, err := (&visit{tab: b.next}).load(ctx, r, time.Now().Add(r.Timeout))
	if !b.ch.dispose(ctx, b.next) {
		return nil, fmt.Errorf("end page: %w", err)
	}
	return l, errors.Join(err, b.prepare(ctx))
}

// Close ends the Chrome.
func (b *Bare) Close() error {
	begin(b.ch.conn, "", browser.Close, cdp.Empty{})
	<-b.ch.conn.done
	b.ch.conn.close()
	b.ch.wg.Wait()
	return b.cmd.Wait()
}

// FindChecked returns the path of a Chrome; check says which paths cannot be relied on.
func FindChecked(check func(path string) error) (string, error) { return find(check) }
