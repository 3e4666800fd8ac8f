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

// ourScript runs in our world of a document before anything of the page does.
var ourScript = sync.OnceValue(func() string { return browser.TouchScript + "\n" + browser.LookScript })

// errLeft is the cause where a document was replaced.
var errLeft = errors.New("the document was left")

// front brings the tab before the others: a page behind another draws nothing, and
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

// enter is our world of a frame's present document, and the object of our scripts in it.
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

// run reads the value of an expression in our world of a frame. A promise is waited
// for. A script that runs handlers of the page, as one that sets the focus does, may
// never end, so run waits for answerTime at most.
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
	err error // it was not sent
}

// callOn calls a function with an object as its this.
var callOn = cdp.Command[runtime.CallFunctionOnParams, runtime.EvaluateResult]{Method: runtime.CallFunctionOn.Method}

// returning is a function that returns an expression.
func returning(expression string) string { return "function () { return (" + expression + "\n) }" }

// beginScript sends an expression without waiting for it; run waits. While a document is being left,
// Chrome keeps what it is sent for the next one, in another process, where the number of our world may
// be that of a world of the page. So a script is sent to an object, whose name no other process has:
// it may hold a secret.
func beginScript(ctx context.Context, t *tab, f frame, expression string) running {
	w, ours, err := t.enter(ctx, f)
	if err != nil {
		return running{err: err}
	}
	return running{t: t, f: f, w: w, pending: begin(t.e.g, f.session, callOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: returning(expression), ObjectID: ours, ReturnByValue: new(true), AwaitPromise: new(true), Silent: new(true),
	})}
}

// object is the object that an expression in our world of a frame is. release forgets it.
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
		return fmt.Errorf("read what a script said: %w", err)
	}
	return nil
}

// thrown is what an exception of our scripts means. errLeft is its cause where their document is about to
// be replaced.
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

// cause is err, or what it means: the document is gone, or its process.
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
		return "null" // of our own types, which can be written
	}
	return string(text)
}

// clicks are the events whose listeners make an element one that can be acted on.
var clicks = []string{
	"click", "mousedown", "mouseup", "pointerdown", "pointerup", "dblclick", "contextmenu",
	"touchstart", "touchend", "dragstart",
}

const (
	maxListeners = 300 // elements with listeners that are looked up for one look
	maxHosts     = 20
	maxHeld      = 50000                   // elements of a document of whose listeners is asked
	frameTime    = 1500 * time.Millisecond // for a frame to answer; its page has longer
)

// listeners tells our script which elements of the frames the page listens at. Chrome
// is asked through the page's own world: through ours it would make our world's
// objects of elements in a way that our scripts cannot use.
func (t eye) listeners(ctx context.Context, frames []frame) {
	known := map[string]map[int64]bool{} // of the frames within, by session
	end := time.Now().Add(2 * LookTime)
	for _, f := range slices.Backward(frames) {
		patience := LookPatience
		if f.session != frames[0].session {
			// A frame that does not answer keeps nobody from the others.
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
		return // there are too many elements to ask about some
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

// release has Chrome forget the objects that were asked for in a session.
func (t *tab) release(session string) {
	begin(t.e.g, session, runtime.ReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: world}).drop()
}

// owner is the number of a frame's element in the world of its parent; 0 for none.
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
