package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/domdebugger"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"belljar.dev/browser"
)

// ourScript runs in our world of a document before any script of the page.
var ourScript = sync.OnceValue(func() string { return browser.TouchScript + "\n" + browser.LookScript })

// errLeft is the error for a document that was replaced.
var errLeft = errors.New("the document was left")

// front brings the tab in front of the others: a page behind another one draws nothing and
// takes no input.
func (t *tab) front(ctx context.Context) error {
	t.e.mu.Lock()
	is := t.e.front == t
	t.e.front = t
	t.e.mu.Unlock()
	if is {
		return nil
	}
	_, err := begin(t.e.g, t.session(), page.BringToFront, cdp.Empty{}).waitOr(ctx, t.stop())
	if errors.Is(err, errBlocked) {
		return nil
	}
	return t.cause(err)
}

// enter returns our world of a frame's present document, and the object of our scripts in
// it.
func (t *tab) enter(ctx context.Context, f frame) (runtime.ExecutionContextID, runtime.RemoteObjectID, error) {
	t.mu.Lock()
	if now := t.frames[f.id]; now == nil || now.loader != f.loader {
		t.mu.Unlock()
		return 0, "", errLeft
	} else if now.world != 0 && now.worldLoader == f.loader {
		defer t.mu.Unlock()
		return now.world, now.ours, nil
	}
	t.mu.Unlock()
	made, err := answerOf(ctx, t, begin(t.e.g, f.session, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: cdp.FrameID(f.id), WorldName: world}), nil)
	if err != nil {
		return 0, "", t.cause(err)
	}
	// A document that loaded before our script was registered has not run it.
	r, err := answerOf(ctx, t, begin(t.e.g, f.session, runtime.Evaluate, runtime.EvaluateParams{
		Expression: ourScript() + "\nbelljar", ContextID: made.ExecutionContextID, Silent: new(true),
	}), nil)
	if err != nil {
		return 0, "", t.cause(err)
	}
	if r.ExceptionDetails != nil {
		return 0, "", thrown(r.ExceptionDetails)
	}
	if r.Result == nil || r.Result.ObjectID == "" {
		return 0, "", errLeft
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.frames[f.id]; now == nil || now.loader != f.loader {
		return 0, "", errLeft
	} else {
		now.world, now.ours, now.worldLoader, now.heard = made.ExecutionContextID, r.Result.ObjectID, f.loader, nil
	}
	return made.ExecutionContextID, r.Result.ObjectID, nil
}

// run evaluates an expression in our world of a frame, and reads its value into into. If
// the value is a promise, run waits for it. A script that runs handlers of the page, for
// example by setting the focus, may never end, so run waits no longer than answerTime.
func (t *tab) run(ctx context.Context, f frame, script string, into any) error {
	within, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return beginScript(within, t, f, script).wait(within, into)
}

// running is a script that was sent to a frame.
type running struct {
	pending[runtime.EvaluateResult]
	t   *tab
	f   frame
	w   runtime.ExecutionContextID
	err error // why the script was not sent, or nil
}

// callOn calls a function with an object as its this.
var callOn = cdp.Command[runtime.CallFunctionOnParams, runtime.EvaluateResult]{Method: runtime.CallFunctionOn.Method}

// returning returns the text of a function that returns an expression.
func returning(expression string) string { return "function () { return (" + expression + "\n) }" }

// beginScript sends an expression without waiting for its value; wait waits for it. While a
// document is being left, Chrome keeps messages for the next document, in another process,
// where a world of the page may have the number of our world. So the script is sent to an
// object, whose name no other process has, because it may contain a secret.
func beginScript(ctx context.Context, t *tab, f frame, expression string) running {
	w, ours, err := t.enter(ctx, f)
	if err != nil {
		return running{err: err}
	}
	return running{t: t, f: f, w: w, pending: begin(t.e.g, f.session, callOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: returning(expression), ObjectID: ours, ReturnByValue: new(true), AwaitPromise: new(true), Silent: new(true),
	})}
}

// object returns the object that an expression in our world of a frame evaluates to.
// release makes Chrome forget it.
func object(ctx context.Context, t *tab, f frame, expression string) (runtime.RemoteObjectID, error) {
	_, ours, err := t.enter(ctx, f)
	if err != nil {
		return "", err
	}
	r, err := answerOf(ctx, t, begin(t.e.g, f.session, callOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: returning(expression), ObjectID: ours, ObjectGroup: world, Silent: new(true),
	}), nil)
	if err != nil {
		return "", t.cause(err)
	}
	if r.Result == nil || r.Result.ObjectID == "" {
		return "", errLeft
	}
	return r.Result.ObjectID, nil
}

// wait waits for a script and reads its value.
func (s running) wait(ctx context.Context, into any) error {
	if s.err != nil {
		return s.err
	}
	t, f, w := s.t, s.f, s.w
	r, err := answerOf(ctx, t, s.pending, nil)
	if err != nil {
		return t.cause(err)
	}
	if r.ExceptionDetails != nil {
		err := thrown(r.ExceptionDetails)
		if errors.Is(err, errLeft) {
			t.mu.Lock()
			if now := t.frames[f.id]; now != nil && now.world == w {
				now.world = 0
			}
			t.mu.Unlock()
		}
		return err
	}
	if r.Result == nil || into == nil || len(r.Result.Value) == 0 {
		return nil
	}
	if err := jsonv2.Unmarshal(r.Result.Value, into, jsonOptions); err != nil {
		return fmt.Errorf("read the result of a script: %w", err)
	}
	return nil
}

// thrown returns the error that an exception of our scripts means. It wraps errLeft if
// their document is about to be replaced.
func thrown(d *runtime.ExceptionDetails) error {
	text := d.Text
	if d.Exception != nil && d.Exception.Description != "" {
		text = d.Exception.Description
	}
	if strings.Contains(text, "Illegal invocation") || strings.Contains(text, "belljar is not defined") {
		return fmt.Errorf("%w: %s", errLeft, cut(plain(text), 300))
	}
	return fmt.Errorf("run script: %s", cut(plain(text), 300))
}

// cause returns err, or the error that explains it: the document or its process is gone.
func (t *tab) cause(err error) error {
	t.mu.Lock()
	crashed := t.crashed
	t.mu.Unlock()
	if crashed {
		return errCrashed
	}
	if errors.Is(err, errSessionEnded) {
		return fmt.Errorf("%w: %w", errLeft, err)
	}
	if p, ok := errors.AsType[*protocolError](err); ok {
		for _, w := range []string{"context", "object with given id", "navigated", "No frame", "Session with given id", "Target closed", "not attached"} {
			if strings.Contains(p.Message, w) {
				return fmt.Errorf("%w: %w", errLeft, err)
			}
		}
	}
	return err
}

var errCrashed = errors.New("the page crashed")

func argument(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "null" // never: the values are of our own types, which can be encoded
	}
	return string(text)
}

// clicks are the events that make an element a control if it has a listener for one of
// them.
var clicks = []string{
	"click", "mousedown", "mouseup", "pointerdown", "pointerup", "dblclick", "contextmenu",
	"touchstart", "touchend", "dragstart",
}

const (
	maxListeners = 300 // elements whose listeners are new and that are looked up for one look
	maxHosts     = 20
	maxHeld      = 50000                   // elements of a document in which listeners are looked for
	frameTime    = 1500 * time.Millisecond // time for a frame to answer; the page has longer
)

// listeners tells our script which elements have listeners of the page. Chrome is asked
// through the page's own world. If it were asked through our world, it would create our
// world's objects for elements in a way that our scripts cannot use.
func (t eye) listeners(ctx context.Context, frames []frame) {
	known := map[string]map[int64]bool{} // elements with listeners in the inner frames, by session
	end := time.Now().Add(2 * LookTime)
	for _, f := range slices.Backward(frames) {
		patience := LookPatience
		if f.session != frames[0].session {
			// A frame that does not answer must not delay the others.
			if patience = frameTime; time.Now().After(end) {
				continue
			}
		}
		if known[f.session] == nil {
			known[f.session] = map[int64]bool{}
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		t.listenersOf(ctx, f, known[f.session])
		cancel()
	}
}

func (t eye) listenersOf(ctx context.Context, f frame, known map[int64]bool) {
	g := t.e.g
	if f.main == 0 {
		return
	}
	defer t.release(f.session)
	doc, err := answerOf(ctx, t.tab, begin(g, f.session, runtime.Evaluate, runtime.EvaluateParams{Expression: "document", ContextID: f.main, ObjectGroup: world, Silent: new(true)}), nil)
	if err != nil || doc.Result == nil || doc.Result.ObjectID == "" {
		return
	}
	list, err := begin(g, f.session, domdebugger.GetEventListeners, domdebugger.GetEventListenersParams{ObjectID: doc.Result.ObjectID, Depth: new(int64(-1)), Pierce: new(true)}).waitOr(ctx, t.stop())
	if err != nil {
		return
	}
	var own []cdp.BackendNodeID
	t.mu.Lock()
	for _, l := range list.Listeners {
		if id := int64(l.BackendNodeID); slices.Contains(clicks, l.Type) && id != 0 && !known[id] && len(known) < maxHeard {
			known[id] = true
			if len(own) < maxListeners && !f.heard[id] {
				own = append(own, l.BackendNodeID)
			}
		}
	}
	t.mu.Unlock()
	if len(own) == 0 {
		return
	}
	w, ours, err := t.enter(ctx, f)
	var held bool
	if err != nil || t.run(ctx, f, fmt.Sprintf("belljar.hold(%d)", maxHeld), &held) != nil || !held {
		return // the document has too many elements
	}
	nodes := make([]pending[dom.ResolveNodeResult], 0, len(own))
	for _, id := range own {
		nodes = append(nodes, begin(g, f.session, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: id, ExecutionContextID: w, ObjectGroup: world}))
	}
	var args []*runtime.CallArgument
	for _, p := range nodes {
		if r, err := p.waitOr(ctx, t.stop()); err == nil && r.Object != nil && r.Object.ObjectID != "" {
			args = append(args, &runtime.CallArgument{ObjectID: r.Object.ObjectID})
		}
	}
	if _, err = begin(g, f.session, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: "function (...l) { this.hear(...l); this.release() }", ObjectID: ours, Arguments: args, Silent: new(true),
	}).waitOr(ctx, t.stop()); err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.frames[f.id]; now != nil && now.world == w && len(now.heard) < maxHeard {
		if now.heard == nil {
			now.heard = map[int64]bool{}
		}
		for _, id := range own {
			now.heard[int64(id)] = true
		}
	}
}

// enclosed tells our script the closed shadow roots of elements, and reports whether
// there were any.
func (t eye) enclosed(ctx context.Context, f frame, hosts []int) bool {
	w, _, err := t.enter(ctx, f)
	if err != nil {
		return false
	}
	g := t.e.g
	defer t.release(f.session)
	found := false
	for _, n := range hosts[:min(len(hosts), maxHosts)] {
		host, err := object(ctx, t.tab, f, fmt.Sprintf("belljar.element(%d)", n))
		if err != nil {
			continue
		}
		node, err := call(ctx, g, f.session, dom.DescribeNode, dom.DescribeNodeParams{ObjectID: host, Depth: new(int64(1)), Pierce: new(true)})
		if err != nil || node.Node == nil || len(node.Node.ShadowRoots) == 0 || node.Node.ShadowRoots[0].ShadowRootType == cdp.ShadowRootTypeUserAgent {
			continue
		}
		root, err := call(ctx, g, f.session, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: node.Node.ShadowRoots[0].BackendNodeID, ExecutionContextID: w, ObjectGroup: world})
		if err != nil || root.Object == nil {
			continue
		}
		_, err = call(ctx, g, f.session, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
			FunctionDeclaration: "function (root) { belljar.enclose(this, root) }", ObjectID: host,
			Arguments: []*runtime.CallArgument{{ObjectID: root.Object.ObjectID}}, Silent: new(true),
		})
		found = found || err == nil
	}
	return found
}

// release makes Chrome forget the objects that were requested in a session.
func (t *tab) release(session string) {
	begin(t.e.g, session, runtime.ReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: world}).drop()
}

// owner returns the number of a frame's element in the world of its parent, or 0 if it is
// not known.
func (t *tab) owner(ctx context.Context, f, parent frame) int {
	if f.owner != 0 && f.ownerLoader == parent.loader {
		return f.owner
	}
	w, _, err := t.enter(ctx, parent)
	if err != nil {
		return 0
	}
	g := t.e.g
	at, err := call(ctx, g, parent.session, dom.GetFrameOwner, dom.GetFrameOwnerParams{FrameID: cdp.FrameID(f.id)})
	if err != nil {
		return 0
	}
	node, err := call(ctx, g, parent.session, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: at.BackendNodeID, ExecutionContextID: w, ObjectGroup: world})
	if err != nil || node.Object == nil {
		return 0
	}
	defer t.release(parent.session)
	r, err := call(ctx, g, parent.session, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: "function () { return belljar.number(this) }", ObjectID: node.Object.ObjectID, ReturnByValue: new(true), Silent: new(true),
	})
	n := 0
	if err != nil || r.Result == nil || jsonv2.Unmarshal(r.Result.Value, &n, jsonOptions) != nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.frames[f.id]; now != nil {
		now.owner, now.ownerLoader = n, parent.loader
	}
	return n
}
