package act

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"belljar.dev/browser"
)

// grantPermissions grants the permissions of a list and denies all others. cdproto has
// dropped this command, because a newer command denies them one by one.
var grantPermissions = cdp.Command[permissions, cdp.Empty]{Method: "Browser.grantPermissions"}

type permissions struct {
	Permissions []string             `json:"permissions"`
	Context     cdp.BrowserContextID `json:"browserContextId,omitempty"`
}

// world is the name of the isolated world that our scripts run in.
const world = "belljar"

// Size of the window of a tab, in CSS pixels. A picture of it has fewer than MaxPicture
// pixels.
const windowWidth, windowHeight = 1280, 800

const (
	maxErrands = 2048 // bound of the queued commands whose answers nobody waits for
	maxEquips  = 128  // bound of the sessions that are being made ready
	judges     = 8    // number of documents that are judged at the same time
	maxJudged  = 256  // bound of the documents that wait to be judged
	equipTime  = 10 * time.Second
)

// engine is one Chrome of a seat, from its start to its end.
type engine struct {
	lease   *browser.Seat
	cpu     func() time.Duration // returns the processor time that its processes have used
	g       *governor
	opts    *Options
	masks   *masks
	hears   hears
	context cdp.BrowserContextID
	log     func(string, error)
	ctx     context.Context //nolint:containedctx // it ends with the engine: work that Chrome starts by itself has no caller
	stop    context.CancelFunc
	wg      sync.WaitGroup

	errands chan func()
	judged  chan func()
	came    chan struct{} // signals that a requested page has appeared; room for one
	equips  chan struct{} // one entry for each session that is being made ready

	unwanted remover // removes downloaded files that nobody can save

	mu sync.Mutex
	windows
	files files
	seen  seenURLs
}

// windows contains the tabs of an engine. It is guarded by the engine's mu.
type windows struct {
	tabs     []*tab
	bySess   map[string]*tab
	lastTab  int
	current  string // name of the current tab
	opened   []string
	fresh    map[string]attachEvent // pages that appeared while a page was requested, by their id
	creating int                    // number of pages that were requested and have not appeared
	front    *tab                   // tab in front of the others, as far as is known; may be nil
}

// hears makes the functions that handle the events of a browser and of a tab's sessions.
// lost gets the method of each event that was dropped because too many came in a second.
type hears struct {
	browser func(*engine) func(method string, params []byte)
	session func(*tab) (hear func(session, method string, params []byte), lost func(session, method string))
	window  func(*engine, attachEvent) // handles a window that a page opened
}

// startEngine starts a Chrome with one tab. The caller must close it.
func startEngine(ctx context.Context, lease *browser.Seat, opts *Options, m *masks, h hears) (*engine, error) {
	e := &engine{
		lease: lease, cpu: lease.CPU, g: newGovernor(lease), opts: opts, masks: m, hears: h,
		errands: make(chan func(), maxErrands), judged: make(chan func(), maxJudged), equips: make(chan struct{}, maxEquips),
		windows: windows{bySess: map[string]*tab{}, fresh: map[string]attachEvent{}}, came: make(chan struct{}, 1), unwanted: remover{lease: lease, came: make(chan struct{}, 1)},
	}
	e.ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.g.listen("", h.browser(e), nil)
	e.wg.Go(e.g.serve)
	e.wg.Go(func() { e.work(e.errands) })
	e.wg.Go(func() {
		e.unwanted.run(e.ctx, func(guids []string) {
			e.mu.Lock()
			defer e.mu.Unlock()
			for _, d := range e.files.all {
				d.left = d.left && !slices.Contains(guids, d.guid)
			}
		})
	})
	for range judges {
		e.wg.Go(func() { e.work(e.judged) })
	}
	e.wg.Go(func() {
		select {
		case <-lease.Done():
			e.g.end(errGone)
		case <-e.ctx.Done():
		}
	})
	if err := e.prepare(ctx); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// seenURLs are the addresses that the agent was shown.
type seenURLs struct {
	mu  sync.Mutex
	all map[uint64]struct{}
}

func (s *seenURLs) add(u string) {
	if u == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[uint64]struct{}{}
	}
	if len(s.all) < maxSeenURLs {
		s.all[maphash.String(seenSeed, u)] = struct{}{}
	}
}

func (s *seenURLs) has(u string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.all[maphash.String(seenSeed, u)]
	return ok
}

// seenSeed is random, so that no page can make two addresses with the same hash.
var seenSeed = maphash.MakeSeed()

// work runs the queued functions until the engine ends.
func (e *engine) work(queue chan func()) {
	for {
		select {
		case f := <-queue:
			f()
		case <-e.ctx.Done():
			return
		}
	}
}

// prepare denies everything that Chrome would ask people for, and opens the first tab.
func (e *engine) prepare(ctx context.Context) error {
	// In the context that Chrome begins with, a page cannot open a window.
	made, err := call(ctx, e.g, "", target.CreateBrowserContext, target.CreateBrowserContextParams{})
	if err != nil {
		return fmt.Errorf("make browser context: %w", err)
	}
	e.context = made.BrowserContextID
	deny := begin(e.g, "", grantPermissions, permissions{[]string{}, e.context})
	behavior := cdpbrowser.SetDownloadBehaviorParams{BrowserContextID: e.context, Behavior: cdpbrowser.SetDownloadBehaviorBehaviorDeny, EventsEnabled: new(true)}
	if e.opts.Downloads > 0 {
		behavior.Behavior, behavior.DownloadPath = cdpbrowser.SetDownloadBehaviorBehaviorAllowAndName, downloadDir
	}
	down := begin(e.g, "", cdpbrowser.SetDownloadBehavior, behavior)
	// A window that a page opens also waits until its documents are judged.
	windows := begin(e.g, "", target.SetAutoAttach, target.SetAutoAttachParams{
		AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: new(true), Filter: target.Filter{{Type: "page"}, {Exclude: true}},
	})
	_, e0 := windows.wait(ctx)
	_, e1 := deny.wait(ctx)
	_, e2 := down.wait(ctx)
	if err = errors.Join(e0, e1, e2); err != nil {
		return fmt.Errorf("prepare browser: %w", err)
	}
	t, err := e.newTab(ctx)
	if err != nil {
		return err
	}
	e.current = t.name
	return nil
}

// newTab opens an empty tab.
func (e *engine) newTab(ctx context.Context) (*tab, error) {
	e.mu.Lock()
	e.creating++
	e.mu.Unlock()
	defer e.made()
	made, err := call(ctx, e.g, "", target.CreateTarget, target.CreateTargetParams{URL: "about:blank", BrowserContextID: e.context, Width: windowWidth, Height: windowHeight, NewWindow: new(true)})
	if err != nil {
		return nil, fmt.Errorf("open tab: %w", err)
	}
	session, err := e.sessionOf(ctx, string(made.TargetID))
	if err != nil {
		return nil, fmt.Errorf("attach to tab: %w", err)
	}
	t := e.addTab(string(made.TargetID), "")
	if err := t.equip(ctx, session, t.target, true); err != nil {
		discard(t)
		return nil, err
	}
	return t, nil
}

// discard closes a tab that was not made ready, and forgets it.
func discard(t *tab) {
	begin(t.e.g, "", target.CloseTarget, target.CloseTargetParams{TargetID: target.ID(t.target)}).drop()
	t.e.dropTab(t)
}

// made notes that a requested page has appeared, or will not appear. If no other request is
// open, the pages that appeared meanwhile without naming an opener are windows of a page.
func (e *engine) made() {
	var windows []attachEvent
	e.mu.Lock()
	if e.creating--; e.creating == 0 {
		windows = slices.AppendSeq(windows, maps.Values(e.fresh))
		clear(e.fresh)
	}
	e.mu.Unlock()
	for _, v := range windows {
		e.hears.window(e, v)
	}
}

// sessionOf waits for a requested page and returns its session.
func (e *engine) sessionOf(ctx context.Context, id string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, equipTime)
	defer cancel()
	for {
		e.mu.Lock()
		session := e.fresh[id].SessionID
		delete(e.fresh, id)
		e.mu.Unlock()
		if session != "" {
			return session, nil
		}
		select {
		case <-e.came:
		case <-e.g.done:
			return "", errGone
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// addTab adds a tab with the next name.
func (e *engine) addTab(id, opener string) *tab {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastTab++
	t := &tab{
		e: e, name: "t" + strconv.Itoa(e.lastTab), target: id, opener: opener, changed: make(chan struct{}, 1), blocked: make(chan struct{}),
		views: map[string]*view{}, frames: map[string]*frame{}, going: going{underway: map[string]bool{}}, secret: map[string]string{},
	}
	e.tabs = append(e.tabs, t)
	return t
}

// dropTab forgets a tab that has ended.
func (e *engine) dropTab(t *tab) {
	t.change(func() { t.closed = true })
	t.mu.Lock()
	sessions := make([]string, 0, len(t.views))
	for s := range t.views {
		sessions = append(sessions, s)
	}
	t.mu.Unlock()
	e.mu.Lock()
	e.tabs = slices.DeleteFunc(e.tabs, func(o *tab) bool { return o == t })
	for _, s := range sessions {
		delete(e.bySess, s)
	}
	if e.current == t.name {
		e.current = ""
		for _, o := range e.tabs {
			if e.current == "" || o.name == t.opener {
				e.current = o.name
			}
		}
	}
	e.mu.Unlock()
	for _, s := range sessions {
		e.g.leave(s)
	}
}

// tab returns the tab with this name; the empty name is the current tab.
func (e *engine) tab(name string) (*tab, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if name == "" {
		name = e.current
	}
	for _, t := range e.tabs {
		if t.name == name {
			return t, nil
		}
	}
	return nil, &Refusal{Reason: ReasonUnknown, Message: fmt.Sprintf("tab %s does not exist", quoted(name, 20)), Next: "look at the tabs"}
}

// equip makes a session ready before it runs: its events are handled, its documents are
// judged before they are requested, and its frames and windows wait until the same was done
// for them.
func (t *tab) equip(ctx context.Context, session, top string, waits bool) error {
	g := t.e.g
	t.mu.Lock()
	t.views[session] = &view{session: session, top: top}
	t.mu.Unlock()
	t.e.mu.Lock()
	t.e.bySess[session] = t
	t.e.mu.Unlock()
	hear, lost := t.e.hears.session(t)
	g.listen(session, bind(session, hear), func(method string) { lost(session, method) })
	// All commands are sent before the first answer, and every answer is awaited: a command
	// that is not acknowledged when the page moves to another process is lost.
	pageOn := begin(g, session, page.Enable, page.EnableParams{})
	judge := begin(g, session, fetch.Enable, fetch.EnableParams{
		Patterns: []*fetch.RequestPattern{{ResourceType: network.ResourceTypeDocument, RequestStage: fetch.RequestStageRequest}}, HandleAuthRequests: new(true),
	})
	follow := begin(g, session, target.SetAutoAttach, target.SetAutoAttachParams{
		AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: new(true), Filter: target.Filter{{Type: "browser", Exclude: true}, {Type: "tab", Exclude: true}, {Type: "page", Exclude: true}, {}},
	})
	script := begin(g, session, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: ourScript(), WorldName: world})
	chooser := begin(g, session, page.SetInterceptFileChooserDialog, page.SetInterceptFileChooserDialogParams{Enabled: true, Cancel: new(true)})
	crash := begin(g, session, inspector.Enable, cdp.Empty{})
	requests := begin(g, session, network.Enable, network.EnableParams{MaxTotalBufferSize: new(int64(1)), MaxResourceBufferSize: new(int64(1))})
	// A service worker of the page would answer a request in place of the server, so the
	// request would not be judged.
	bypass := begin(g, session, network.SetBypassServiceWorker, network.SetBypassServiceWorkerParams{Bypass: true})
	focus := begin(g, session, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	domOn := begin(g, session, dom.Enable, dom.EnableParams{})
	// The browser answers this command. Some of the others are for a renderer, which
	// answers once it runs, and carries out commands in the order in which they were sent.
	if _, err := judge.wait(ctx); err != nil {
		return fmt.Errorf("prepare page: %w", err)
	}
	if waits {
		begin(g, session, runtime.RunIfWaitingForDebugger, cdp.Empty{}).drop()
	}
	t.change(func() { t.runs = t.runs || top == t.target })
	_, e1 := pageOn.wait(ctx)
	_, e3 := follow.wait(ctx)
	_, e4 := script.wait(ctx)
	if err := errors.Join(e1, e3, e4); err != nil {
		return fmt.Errorf("prepare page: %w", err)
	}
	tree := begin(g, session, page.GetFrameTree, cdp.Empty{})
	// Not every kind of page has these commands.
	_, _ = chooser.wait(ctx)
	_, _ = crash.wait(ctx)
	_, _ = requests.wait(ctx)
	_, _ = bypass.wait(ctx)
	_, _ = focus.wait(ctx)
	_, _ = domOn.wait(ctx)
	r, err := tree.wait(ctx)
	if err != nil || r.FrameTree == nil {
		_, _ = call(ctx, g, session, runtime.Enable, cdp.Empty{})
		return nil //nolint:nilerr // its frames are added when Chrome reports them
	}
	t.change(func() { t.seed(session, r.FrameTree) })
	// The frames are known by now, so the events about their worlds find them.
	_, _ = call(ctx, g, session, runtime.Enable, cdp.Empty{})
	return nil
}

// seed notes the frames that exist already. t.mu is held.
func (t *tab) seed(session string, tree *page.FrameTree) {
	if tree.Frame != nil {
		f := tree.Frame
		if known := t.frames[string(f.ID)]; known == nil || known.session != session || known.loader == "" {
			t.navigated(session, string(f.ID), string(f.ParentID), string(f.LoaderID), f.URL+f.URLFragment)
		}
	}
	for _, c := range tree.ChildFrames {
		t.seed(session, c)
	}
}

// ready runs f in the background. It is for work that takes long, such as the preparation
// of a new session. If maxEquips functions run already, f never runs.
func (e *engine) ready(f func(context.Context)) {
	select {
	case e.equips <- struct{}{}:
	default:
		return
	}
	if e.ctx.Err() != nil {
		<-e.equips
		return
	}
	e.wg.Go(func() {
		defer func() { <-e.equips }()
		ctx, cancel := context.WithTimeout(e.ctx, equipTime)
		defer cancel()
		f(ctx)
	})
}

// errand queues f, which sends a command whose answer nobody waits for, so it takes no
// longer than the pipe does. If the queue is full, f never runs.
func (e *engine) errand(f func()) {
	select {
	case e.errands <- f:
	default:
	}
}

// alive returns an error once the Chrome has ended.
func (e *engine) alive() error {
	select {
	case <-e.g.done:
		return errGone
	default:
		return nil
	}
}

// close ends the Chrome and waits until nothing of it is left. It may be called twice.
func (e *engine) close() {
	e.stop()
	e.g.end(errGone)
	e.lease.Close()
	e.mu.Lock()
	for _, t := range e.tabs {
		t.mu.Lock()
		if t.dialog != nil && t.dialog.timer != nil {
			t.dialog.timer.Stop()
		}
		t.mu.Unlock()
	}
	e.mu.Unlock()
	e.wg.Wait()
}
