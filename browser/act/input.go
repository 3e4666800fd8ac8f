package act

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// inputTime is how long a page may take over one event of input.
const inputTime = 5 * time.Second

// spot is where an element can be hit, in the view of its session.
type spot struct{ x, y float64 }

// reachable waits until an element can be hit, and says where.
func (t hand) reachable(ctx context.Context, a aim) (spot, error) {
	ctx, cancel := context.WithTimeout(ctx, ReadyTime+2*time.Second)
	defer cancel()
	var r struct {
		Why    string  `json:"why"`
		X      float64 `json:"x"`
		Y      float64 `json:"y"`
		Left   float64 `json:"left"`
		Top    float64 `json:"top"`
		Width  float64 `json:"width"`
		Height float64 `json:"height"`
		By     struct {
			N    int    `json:"n"`
			Role string `json:"role"`
			Name string `json:"name"`
		} `json:"by"`
	}
	o := map[string]any{"most": (ReadyTime - 500*time.Millisecond).Milliseconds()}
	if a.point {
		o["at"] = a.at
	}
	o["looks"], o["keys"] = a.looks, a.keys
	if err := t.run(ctx, a.frame, fmt.Sprintf("belljar.ready(%d, %s)", a.local, argument(o)), &r); err != nil {
		return spot{}, t.fault(err, false)
	}
	name := t.nameOf(a)
	no := func(what, next string) (spot, error) {
		return spot{}, &Refusal{Reason: ReasonNotReady, Message: name + " " + what, Next: next}
	}
	switch r.Why {
	case "":
	case "gone":
		return spot{}, &Refusal{Reason: ReasonStale, Message: name + " is gone: the page was drawn anew", Next: "look again"}
	case "disabled":
		return no("is disabled", "do first what the page wants before it")
	case "invisible":
		return no("cannot be seen", "look again")
	case "moving":
		return no("does not come to rest", "wait, and try again")
	case "covered":
		t.mu.Lock()
		n := t.refs.number(refKey{a.frame.id, a.frame.loader, r.By.N})
		t.mu.Unlock()
		return no(fmt.Sprintf("is covered by [%d] %s", n, called(r.By.Role, t.e.masks.hide(r.By.Name), "")), "close or leave what covers it, or look again")
	default:
		return no("is out of sight", "scroll, or look again")
	}
	return t.place(ctx, a, spot{r.X, r.Y}, r.Left, r.Top, r.Width, r.Height)
}

// nameOf is an element in the words of the look.
func (t hand) nameOf(a aim) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.refs.byNum[a.n]; r != nil {
		return fmt.Sprintf("[%d] %s", a.n, called(r.role, t.e.masks.hide(r.name), ""))
	}
	return "another element"
}

// place turns a point of a frame into one of its session, and sees that no frame
// around it is covered there.
func (t hand) place(ctx context.Context, a aim, p spot, left, top, width, height float64) (spot, error) {
	if a.frame.id == t.target {
		return p, nil
	}
	w, err := t.enter(ctx, a.frame)
	if err != nil {
		return p, t.fault(err, false)
	}
	g := t.e.g
	v := t.viewTop(a.frame.session)
	out := p
	if v != a.frame.id { // the frame stands within others of its process
		defer t.release(a.frame.session)
		e, err := call(ctx, g, a.frame.session, runtime.Evaluate, runtime.EvaluateParams{Expression: fmt.Sprintf("belljar.element(%d)", a.local), ContextID: w, ObjectGroup: world, Silent: new(true)})
		if err != nil || e.Result == nil || e.Result.ObjectID == "" {
			return p, t.fault(errLeft, false)
		}
		box, err := call(ctx, g, a.frame.session, dom.GetBoxModel, dom.GetBoxModelParams{ObjectID: e.Result.ObjectID})
		if err != nil || box.Model == nil || len(box.Model.Border) < 8 || width < 1 || height < 1 {
			return p, &Refusal{Reason: ReasonNotReady, Message: t.nameOf(a) + " has no place on the page", Next: "look again", Err: err}
		}
		q := box.Model.Border
		out = spot{q[0] + (p.x-left)*(q[2]-q[0])/width, q[1] + (p.y-top)*(q[5]-q[1])/height}
	}
	return out, t.uncovered(ctx, a)
}

// uncovered sees for each frame around an element that its element is not covered:
// input to a session of its own would reach what people do not see.
func (t hand) uncovered(ctx context.Context, a aim) error {
	f := a.frame
	for depth := 0; f.id != t.target && depth < maxFrameDepth; depth++ {
		parent, ok := t.frameOf(f.parent)
		if !ok {
			return t.fault(errLeft, false)
		}
		n := t.owner(ctx, f, parent)
		var r struct {
			Why string `json:"why"`
			By  struct {
				Role string `json:"role"`
				Name string `json:"name"`
			} `json:"by"`
		}
		if err := t.run(ctx, parent, fmt.Sprintf(`belljar.ready(%d, {most: 300})`, n), &r); err != nil {
			return t.fault(err, false)
		}
		if r.Why != "" {
			why := "its frame cannot be reached: " + r.Why
			if r.Why == "covered" {
				why = "its frame is covered by " + called(r.By.Role, t.e.masks.hide(r.By.Name), "")
			}
			return &Refusal{Reason: ReasonNotReady, Message: t.nameOf(a) + ": " + why, Next: "close or leave what covers it, or look again"}
		}
		f = parent
	}
	return nil
}

// behindTime is how long input may take before the tab is brought before the others again: a
// window that was about to come has hidden it meanwhile, and a hidden page takes no input.
const behindTime = time.Second

// send sends input and waits until the page has taken it, or a dialog came, or the
// page was left.
func send[P any](ctx context.Context, t *tab, session string, cmd cdp.Command[P, cdp.Empty], params P) error {
	return took(ctx, t, begin(t.e.g, session, cmd, params))
}

// took waits until the page has taken input.
func took(ctx context.Context, t *tab, sent pending[cdp.Empty]) error {
	ctx, cancel := context.WithTimeout(ctx, inputTime)
	defer cancel()
	if !sent.came(ctx, t.stop(), behindTime) {
		begin(t.e.g, t.session(), page.BringToFront, cdp.Empty{}).drop()
	}
	_, err := sent.waitOr(ctx, t.stop())
	return t.cause(err)
}

// takesInput refuses a step whose input would not reach the document of a frame any more: a dialog
// waits, or the document was left. It is for before the first input of the step: an error after it
// may be one that the input had as its effect.
func (t hand) takesInput(f frame) error {
	select {
	case <-t.stop():
		return t.fault(t.cause(errBlocked), false)
	default:
	}
	if f.leftIn(t.tab) {
		return t.fault(errLeft, false)
	}
	return nil
}

// leftIn reports whether the document of the frame was left in its tab.
func (f frame) leftIn(t *tab) bool {
	now, ok := t.frameOf(f.id)
	return !ok || now.loader != f.loader
}

// inputOver reports whether input has ended with a dialog or another document. The outcome of the
// step says which. A *Refusal comes before any input was sent.
func inputOver(err error) bool {
	_, refused := errors.AsType[*Refusal](err)
	return !refused && (errors.Is(err, errBlocked) || errors.Is(err, errLeft))
}

// grip is how an element is taken hold of for input.
type grip struct {
	Guard  bool `json:"guard"`  // the guard is armed for it
	Keys   bool `json:"keys"`   // for input of keys, and not of the mouse
	Focus  bool `json:"focus"`  // it gets the focus
	Select bool `json:"select"` // and what is in it is selected
	Ask    bool `json:"ask"`    // what it is then is read
	// Expected is what the element has to be before that, as it was read when the step was
	// prepared. Enter reports that it was read for a step that presses Enter.
	Expected *touched `json:"expected,omitempty"`
	Enter    bool     `json:"enter"`
	// Option is the number of the option that the key which comes selects, and Text its text.
	Option int    `json:"option,omitempty"`
	Text   string `json:"text,omitempty"`

	// Ups is how many keys are struck; the guard is disarmed when the last one comes up.
	Ups int `json:"ups,omitempty"`
	// has reports that the element had the focus when it was read.
	has bool
	// taken waits until Chrome says that the page has taken the keys, where the last of them does
	// not come up in the page.
	taken func(context.Context) error
}

// grip takes hold of an element, and returns what it is then, where g asks for it.
func (t hand) grip(ctx context.Context, a aim, g grip) (touched, error) {
	var r struct {
		OK      bool    `json:"ok"`
		Changed bool    `json:"changed"`
		F       touched `json:"f"`
	}
	if err := t.run(ctx, a.frame, fmt.Sprintf("belljar.grip(%d, %s)", a.local, argument(g)), &r); err != nil {
		return r.F, t.fault(err, false)
	}
	switch {
	case r.Changed: // it, or what it does
		if _, err := t.touch(ctx, a, false, g.Enter); err != nil {
			return r.F, err
		}
		return r.F, changedBetween()
	case !r.OK:
		return r.F, &Refusal{Reason: ReasonNotReady, Message: t.nameOf(a) + " does not take the focus", Next: "click it, or look again"}
	}
	return r.F, nil
}

// tally is what became of input.
type tally struct {
	Hits   int  `json:"hits"`   // events that reached the element
	Misses int  `json:"misses"` // events that were kept from others
	Took   bool `json:"took"`   // the field has taken a text, or has another one than before
	Empty  bool `json:"empty"`  // it has none
	Left   bool `json:"-"`      // its document was left, or waits for a dialog, before this could be read
}

// endOf says how a step ends whose input became so; err is what ended the input. Where some of it
// was kept from what was not the element, missed says what happened, unless it does not matter and
// missed is empty. That comes first: a document that took the place of another may have kept all
// of it from itself. over reports that the step ends here, as it also does without an error where
// the input has led to a dialog or another document.
func (t hand) endOf(became tally, err error, missed, next string) (over bool, _ error) {
	switch {
	case missed != "":
		return true, &Refusal{Reason: ReasonNotReady, Message: missed, Next: next, Ran: became.Hits > 0 || became.Left}
	case inputOver(err):
		return true, nil
	case err != nil:
		return true, t.fault(err, true)
	}
	return false, nil
}

// guarded takes hold of an element, arms the guard in all documents of the tab, does f, and
// returns what became of its input. f gets what the element is, where g asks for it.
func (t hand) guarded(ctx context.Context, a aim, g grip, f func(touched) error) (own tally, err error) {
	others := slices.DeleteFunc(t.tree(), func(fr frame) bool { return fr.id == a.frame.id })
	// A frame that does not answer keeps nobody from the others.
	all := func(ctx context.Context, f func(context.Context, frame)) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for _, fr := range others {
			wg.Go(func() { f(ctx, fr) })
		}
		wg.Wait()
	}
	g.Guard = true
	o := argument(g)
	all(ctx, func(ctx context.Context, fr frame) { _ = t.run(ctx, fr, "belljar.arm(0, "+o+")", nil) })
	left, retry := false, true
	if g.Ups > 0 && g.has {
		own, left, retry, err = t.stroke(ctx, a, g, f)
	}
	if retry {
		own, left, err = t.held(ctx, a, g, f)
	}
	if !left {
		var mu sync.Mutex
		all(context.WithoutCancel(ctx), func(ctx context.Context, fr frame) {
			var r tally
			_ = t.run(ctx, fr, "belljar.disarm()", &r)
			mu.Lock()
			defer mu.Unlock()
			own.Hits, own.Misses = own.Hits+r.Hits, own.Misses+r.Misses
		})
	}
	left = left || a.frame.leftIn(t.tab)
	own.Left = left
	if left && own.Misses == 0 {
		own.Misses = t.strays(context.WithoutCancel(ctx), a.frame.id)
	}
	if left && own.Misses == 0 { // the input had its effect
		own.Hits, own.Took = max(own.Hits, 1), true
	}
	return own, err
}

// held takes hold of an element, does f, and lets go. left says that a dialog or another document
// keeps the page from saying what became of the input.
func (t hand) held(ctx context.Context, a aim, g grip, f func(touched) error) (own tally, left bool, err error) {
	after := running{err: errLeft}
	is, err := t.grip(ctx, a, g)
	if err == nil {
		err = t.takesInput(a.frame)
	}
	if err == nil {
		if g.Ups > 0 {
			after = beginScript(ctx, t.tab, a.frame, fmt.Sprintf("belljar.disarmAfter(%d)", g.Ups))
		}
		err = f(is)
	}
	came := after.err == nil && after.came(ctx, t.stop(), upTime)
	if err == nil && g.Ups > 0 && !came {
		err = g.taken(ctx)
	}
	left = t.disarm(context.WithoutCancel(ctx), a, after, came, &own) != nil
	return own, left, err
}

// stroke strikes keys in an element that has the focus, and does not wait for the page to have taken
// hold of it: a guard that is not armed lets no key through. So where the element is another one by
// now, or the keys were faster, nothing was done. retry reports that
// nothing was done, so held may try.
func (t hand) stroke(ctx context.Context, a aim, g grip, f func(touched) error) (own tally, left, retry bool, err error) {
	if err := t.takesInput(a.frame); err != nil {
		return own, false, false, err
	}
	script := beginScript(ctx, t.tab, a.frame, fmt.Sprintf("belljar.stroke(%d, %s)", a.local, argument(g)))
	if err = script.err; err == nil {
		err = f(touched{})
	}
	if err != nil {
		return own, false, false, t.fault(err, false)
	}
	came := script.came(ctx, t.stop(), upTime)
	if !came {
		err = g.taken(ctx)
	}
	left = t.disarm(context.WithoutCancel(ctx), a, script, came, &own) != nil
	if came && !left && own.Hits == 0 { // keys that are still on their way may not come when they are struck again
		err = g.taken(ctx)
	}
	return own, left, !left && own.Hits == 0 && err == nil, err
}

// strays is how much input came to the document that took the place of another in a frame. Its
// guard is closed from its first moment, so the page itself got none of it.
func (t hand) strays(ctx context.Context, id string) int {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var r tally
	if f, ok := t.frameOf(id); ok {
		_ = t.run(ctx, f, "belljar.disarm()", &r)
	}
	return r.Misses
}

// maxFrameDepth is how many frames around an element are looked at.
const maxFrameDepth = 20

// navigations is how often the documents of a frame, and of those around it, have asked for another
// one in their place. over reports that none of these requests is under way. t.mu is held.
func (t hand) navigations(id string) (n int, over bool) {
	over = true
	for f, depth := t.frames[id], 0; f != nil && depth < maxFrameDepth; f, depth = t.frames[f.parent], depth+1 {
		n += f.navigations
		over = over && f.over == f.navigations
	}
	return n, over
}

// stays refuses a click before its first press if the move of the mouse has made the page navigate,
// unless it stays where it is, as for a file. before counts the navigations before the move. The page
// answers the empty script only after it has reported what it asked for.
func (t hand) stays(ctx context.Context, a aim, before int) error {
	if err := t.run(ctx, a.frame, "0", nil); err != nil {
		return t.fault(err, false)
	}
	t.mu.Lock()
	n, _ := t.navigations(a.frame.id)
	t.mu.Unlock()
	if n != before {
		t.until(ctx, stayTime, func() bool {
			_, over := t.navigations(a.frame.id)
			f := t.frames[a.frame.id]
			return over || t.dialog != nil || f == nil || f.loader != a.frame.loader
		})
		t.mu.Lock()
		_, over := t.navigations(a.frame.id)
		t.mu.Unlock()
		if !over {
			return t.fault(errLeft, false)
		}
	}
	return t.takesInput(a.frame)
}

// stayTime is how long a click waits at most to see whether the page stays where it is.
const stayTime = time.Second

// upTime is how long a key may take to come up where its element is, before Chrome is asked for it.
// It comes up elsewhere if the page has moved the focus into another frame.
const upTime = 50 * time.Millisecond

// disarm disarms the guard in the frame of an element, unless after has done it.
func (t hand) disarm(ctx context.Context, a aim, after running, came bool, own *tally) error {
	switch {
	case came && after.wait(ctx, own) == nil:
		return nil
	case after.err == nil:
		after.drop()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return t.run(ctx, a.frame, "belljar.disarm()", own)
}

// click presses and releases a button of the mouse over an element.
func (t hand) click(ctx context.Context, a aim, button string) error {
	at, err := t.reachable(ctx, a)
	if err != nil {
		return err
	}
	b, count := input.MouseButtonLeft, int64(1)
	switch button {
	case "right":
		b = input.MouseButtonRight
	case "middle":
		b = input.MouseButtonMiddle
	case "double":
		count = 2
	}
	s := a.frame.session
	became, err := t.guarded(ctx, a, grip{}, func(touched) error {
		m := input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: at.x, Y: at.y}
		t.mu.Lock()
		before, _ := t.navigations(a.frame.id)
		t.mu.Unlock()
		if err := send(ctx, t.tab, s, input.DispatchMouseEvent, m); err != nil {
			return t.fault(err, false) // nothing was pressed
		}
		if err := t.stays(ctx, a, before); err != nil {
			return err
		}
		for c := int64(1); c <= count; c++ {
			m = input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMousePressed, X: at.x, Y: at.y, Button: b, Buttons: buttons[b], ClickCount: c}
			err := send(ctx, t.tab, s, input.DispatchMouseEvent, m)
			m.Type, m.Buttons = input.DispatchMouseEventTypeMouseReleased, 0
			if err != nil {
				begin(t.e.g, s, input.DispatchMouseEvent, m).drop() // the button does not stay down
				return err
			}
			if err := send(ctx, t.tab, s, input.DispatchMouseEvent, m); err != nil {
				return err
			}
		}
		return nil
	})
	missed := ""
	if became.Hits == 0 && became.Misses > 0 {
		missed = t.nameOf(a) + " was covered, moved, changed or left in the last moment, and what stood there got nothing"
		became.Left = became.Left && count > 1 // a press comes to one document alone
	}
	if over, err := t.endOf(became, err, missed, "look again"); over {
		return err
	}
	if became.Hits == 0 {
		return &Refusal{Reason: ReasonNotReady, Message: "the click did not reach " + t.nameOf(a), Next: "look again", Ran: true}
	}
	return nil
}

var buttons = map[input.MouseButton]int64{input.MouseButtonLeft: 1, input.MouseButtonRight: 2, input.MouseButtonMiddle: 4}

// hover moves the mouse over an element.
func (t hand) hover(ctx context.Context, a aim) error {
	at, err := t.reachable(ctx, a)
	if err != nil {
		return err
	}
	if err := t.takesInput(a.frame); err != nil {
		return err
	}
	err = send(ctx, t.tab, a.frame.session, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: at.x, Y: at.y})
	if err != nil && !inputOver(err) {
		return t.fault(err, true)
	}
	return nil
}

// insert puts a secret into a field that has the focus. What Chrome is sent as input goes
// to what has the focus when it comes, and a frame of another site can take that, in a
// document that came after the guard was armed. A script of ours reaches its own document
// alone, and looks at the field and fills it at once.
func (t hand) insert(ctx context.Context, a aim, fieldType, text string) error {
	ctx, cancel := context.WithTimeout(ctx, inputTime)
	defer cancel()
	if err := t.takesInput(a.frame); err != nil {
		return err
	}
	script := beginScript(ctx, t.tab, a.frame, fmt.Sprintf("belljar.insert(%d, %s, %s)", a.local, argument(fieldType), argument(text)))
	if script.err != nil {
		return t.fault(script.err, false)
	}
	var ok bool
	err := script.wait(ctx, &ok)
	switch {
	case errors.Is(err, errBlocked): // a handler of the field asks, and the field is filled
		return nil
	case err != nil: // one that was left may have been filled before
		return t.fault(err, true)
	case !ok:
		return &Refusal{Reason: ReasonNotReady, Message: t.nameOf(a) + " lost the focus or became another field before it was filled", Next: "look again"}
	}
	return nil
}
